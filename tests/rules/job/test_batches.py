"""Even batches: DATA001. The job has two hosts with eight processes each."""

from __future__ import annotations

import pytest

SAMPLER = ("DistributedSampler",)


@pytest.mark.parametrize(
    ("data", "names", "found"),
    [
        pytest.param({"samples": 1024, "batch_size": 32}, (), None, id="a multiple of the global batch"),
        pytest.param({"samples": 1025, "batch_size": 32}, (), "warning", id="one over"),
        pytest.param({"samples": 1023, "batch_size": 32}, (), "warning", id="one short"),
        pytest.param({"samples": 1024, "batch_size": 32}, SAMPLER, None, id="nothing over for the sampler"),
        pytest.param({"samples": 1025, "batch_size": 32}, SAMPLER, "info", id="the sampler repeats some"),
        pytest.param({"samples": 1040, "batch_size": 32}, SAMPLER, "info", id="only the last batch is short"),
        pytest.param({"samples": 1040}, (), None, id="batch size unknown, even samples"),
        pytest.param({"samples": 1041}, (), "warning", id="batch size unknown, odd samples"),
        pytest.param({"batch_size": 32}, (), None, id="samples unknown"),
    ],
)
def test_batches_over_sixteen_ranks(severity_of, data: dict, names: tuple, found: str | None) -> None:
    assert severity_of("DATA001", data=data, names=names) == found


def test_the_sampler_leaves_out_or_repeats_so_many(judge) -> None:
    (finding,) = judge("DATA001", data={"samples": 1_000_003, "batch_size": 32}, names=SAMPLER)
    assert "1,000,003 samples over 16 ranks are 62,501 each" in finding.message
    assert "repeats 13" in finding.message
    assert "leaves out 3 " in finding.message
    assert "the last of 1,954 holds 5" in finding.message
    assert "leaves out 80 samples" in finding.message


def test_without_a_sampler_the_rest_is_told(judge) -> None:
    (finding,) = judge("DATA001", data={"samples": 1025, "batch_size": 32})
    assert "not a multiple of 512 (16 ranks x 32 per batch): 1 are left over, or 511" in finding.message


def test_one_process_has_nobody_to_wait_for(severity_of) -> None:
    alone = {"resources": {"instance_type": "ml.g5.2xlarge"}, "data": {"samples": 7, "batch_size": 2}}
    assert severity_of("DATA001", **alone) is None


@pytest.mark.parametrize(
    ("options", "samples", "found"),
    [
        pytest.param({"parameters": {"tensor_parallel_degree": 4}}, 4 * 8, None, id="tensor groups share"),
        pytest.param({"parameters": {"tensor_parallel_degree": 4}}, 4 * 8 + 1, "warning", id="one over"),
        pytest.param({"parameters": {"context_parallel_degree": 2}}, 8 * 8, None, id="context groups share"),
        pytest.param({"version": 1, "parameters": {"partitions": 8}}, 2 * 8, None, id="pipelines share"),
        pytest.param({"parameters": {"tensor_parallel_degree": 3}}, 5, None, id="no whole groups: DIST004"),
    ],
)
def test_ranks_of_one_model_read_the_same_batch(
    severity_of, options: dict, samples: int, found: str | None
) -> None:
    job = {"distribution": {"strategy": "smp", "options": options}}
    assert severity_of("DATA001", data={"samples": samples, "batch_size": 8}, **job) == found


@pytest.mark.parametrize(
    ("hosts", "distribution", "names", "says"),
    [
        pytest.param(2, "ShardedByS3Key", SAMPLER, "divides each host's part", id="sharded twice"),
        pytest.param(2, "ShardedByS3Key", (), "as many batches as", id="sharded by objects"),
        pytest.param(1, "ShardedByS3Key", SAMPLER, None, id="one host has all objects"),
        pytest.param(2, "FullyReplicated", SAMPLER, None, id="every host has all"),
    ],
)
def test_objects_dealt_out_to_hosts(
    judge, hosts: int, distribution: str, names: tuple, says: str | None
) -> None:
    found = judge(
        "DATA001",
        names=names,
        resources={"instance_type": "ml.p4d.24xlarge", "instance_count": hosts},
        inputs={"train": {"s3_uri": "s3://data/train", "distribution": distribution}},
    )
    assert [finding.severity.value for finding in found] == (["warning"] if says else [])
    assert all(says in finding.message for finding in found)
