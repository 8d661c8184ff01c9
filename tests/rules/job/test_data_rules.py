"""Large data in File mode (FSX006), even batches (DATA001), and the memory of a model's state (MEM003).

The jobs with batches have two hosts with eight processes each.
"""

from __future__ import annotations

from typing import Any

import pytest

P4D, M5 = "ml.p4d.24xlarge", "ml.m5.xlarge"


def s3(mode: str = "File", distribution: str = "FullyReplicated") -> dict[str, Any]:
    return {"s3_uri": "s3://data/train", "mode": mode, "distribution": distribution}


@pytest.mark.parametrize(
    ("size", "inputs", "resources", "found"),
    [
        pytest.param("500GB", {"train": s3()}, {}, None, id="500 GB"),
        pytest.param(500 * 10**9 + 1, {"train": s3()}, {}, "warning", id="a byte more"),
        pytest.param("2TB", {"train": s3("FastFile")}, {}, None, id="streamed"),
        pytest.param("2TB", {"train": {"lustre": "/train"}}, {}, None, id="on Lustre"),
        pytest.param("2TB", {"train": s3(), "corpus": {"lustre": "/c"}}, {}, None, id="nobody knows which"),
        pytest.param("2TB", {}, {}, None, id="no inputs"),
        pytest.param(None, {"train": s3()}, {}, None, id="size unknown"),
        pytest.param(
            "1TB", {"train": s3(distribution="ShardedByS3Key")}, {"instance_count": 2}, None, id="half each"
        ),
        pytest.param(
            "1TB", {"train": s3(distribution="ShardedByS3Key")}, {"instance_count": 1}, "warning", id="all"
        ),
        pytest.param("31GB", {"train": s3()}, {"instance_type": M5}, "warning", id="over the volume"),
        pytest.param("30GB", {"train": s3()}, {"instance_type": M5}, None, id="all of the volume"),
        pytest.param(
            "31GB", {"train": s3()}, {"instance_type": M5, "volume_size_gb": 40}, None, id="a larger volume"
        ),
    ],
)
def test_large_data_is_not_downloaded(
    severity_of, size: Any, inputs: dict, resources: dict, found: str | None
) -> None:
    job = {"inputs": inputs, "resources": {"instance_type": P4D, **resources}}
    data = {} if size is None else {"data": {"size": size}}
    assert severity_of("FSX006", **job, **data) == found


def test_what_does_not_fit_is_said(judge) -> None:
    (finding,) = judge("FSX006", inputs={"train": s3()}, data={"size": "10TB"})
    assert "10,000 GB" in finding.message
    assert "does not fit on its 8,000 GB" in finding.message


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


TWO_P4D = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
JUST = 0.85 * 40 * 2**30 / 16
"""The parameters whose state fills 85 % of an A100's 40 GiB."""

FSDP = ("FullyShardedDataParallel",)


def smp(version: int, **parameters: object) -> dict:
    return {"strategy": "smp", "options": {"version": version, "parameters": parameters}}


@pytest.mark.parametrize(
    ("parameters", "distribution", "names", "found"),
    [
        pytest.param(JUST, {}, (), False, id="whole on each rank, 85 %"),
        pytest.param(JUST * 1.001, {}, (), True, id="a little more"),
        pytest.param(JUST * 1.001, {}, FSDP, False, id="sharded by the script"),
        pytest.param(16 * JUST, {}, ("fully_shard",), False, id="sharded over all 16 ranks"),
        pytest.param(16.1 * JUST, {}, FSDP, True, id="too large even so"),
        pytest.param(JUST * 2, {}, ("ZeroRedundancyOptimizer",), False, id="optimizer sharded, as it is"),
        pytest.param(JUST * 4, {}, ("ZeroRedundancyOptimizer",), True, id="weights are still whole"),
        pytest.param(JUST * 8, {"strategy": "none"}, (), False, id="one process with all eight GPUs"),
        pytest.param(JUST * 8.1, {"strategy": "none"}, (), True, id="more than eight GPUs"),
        pytest.param(
            JUST * 1.001,
            {"strategy": "torchrun", "processes_per_host": 4},
            (),
            True,
            id="a rank has one GPU, also where others idle",
        ),
        pytest.param(
            JUST * 33,
            smp(1, partitions=8, tensor_parallel_degree=4, shard_optimizer_state=True),
            (),
            True,
            id="cut in more parts than there are ranks",
        ),
        pytest.param(JUST * 8, smp(1, partitions=4, tensor_parallel_degree=2), (), False, id="cut in eight"),
        pytest.param(JUST * 9, smp(1, partitions=4, tensor_parallel_degree=2), (), True, id="cut in too few"),
        pytest.param(
            JUST * 9,
            smp(1, partitions=4, tensor_parallel_degree=2, shard_optimizer_state=True),
            (),
            False,
            id="and the optimizer sharded",
        ),
        pytest.param(JUST * 16, smp(1, sharded_data_parallel_degree=16), (), False, id="sharded by smp 1"),
        pytest.param(JUST * 16, smp(2), (), False, id="smp 2 shards over all"),
        pytest.param(JUST * 9, smp(2, hybrid_shard_degree=8), (), True, id="smp 2 shards over eight"),
        pytest.param(
            JUST * 9, smp(2, hybrid_shard_degree=8, tensor_parallel_degree=2), (), False, id="and two"
        ),
    ],
)
def test_state_against_memory(
    judge, parameters: float, distribution: dict, names: tuple, found: bool
) -> None:
    job = {"resources": TWO_P4D, "distribution": distribution or {"strategy": "torchrun"}}
    assert bool(judge("MEM003", model={"parameters": parameters}, names=names, **job)) is found


@pytest.mark.parametrize("instance_type", ["ml.m5.xlarge", "ml.p9.48xlarge"])
def test_without_a_known_accelerator_nothing_is_said(severity_of, instance_type: str) -> None:
    job = {"resources": {"instance_type": instance_type}, "model": {"parameters": 1e12}}
    assert severity_of("MEM003", **job) is None


def test_neuron_cores_share_the_memory_of_their_device(severity_of) -> None:
    per_core = 0.85 * 16 * 2**30 / 16
    trn1 = {"resources": {"instance_type": "ml.trn1.32xlarge"}}
    assert severity_of("MEM003", model={"parameters": per_core}, **trn1) is None
    assert severity_of("MEM003", model={"parameters": per_core * 1.01}, **trn1) == "warning"


def test_the_arithmetic_is_shown(judge) -> None:
    (finding,) = judge("MEM003", resources=TWO_P4D, model={"parameters": 13e9})
    assert "13 billion parameters x 16 bytes" in finding.message
    assert "= 193.7 GiB on each of 16 ranks" in finding.message
    assert "40.0 GiB" in finding.message
    assert "over all 16 ranks it is 12.1 GiB" in finding.remedy


def test_what_no_sharding_here_can_hold_is_told_how_many_ranks(judge) -> None:
    (finding,) = judge("MEM003", resources=TWO_P4D, model={"parameters": 100e9}, names=FSDP)
    assert "(4/16 + 12/16) bytes" in finding.message
    assert "at least 44 ranks" in finding.remedy


STATE = {"model": {"parameters": 7e9}, "resources": TWO_P4D, "distribution": {"strategy": "torchrun"}}


@pytest.mark.parametrize(
    ("script", "found"),
    [
        pytest.param("torch.optim.AdamW(model.parameters())\n", True, id="Adam"),
        pytest.param("torch.optim.SGD(model.parameters())\n", False, id="less state"),
        pytest.param("Trainer(strategy='fsdp')\n", False, id="sharded by a trainer"),
        pytest.param("get_peft_model(model, LoraConfig())\n", False, id="adapters alone"),
        pytest.param("model.bfloat16()\n", False, id="in 16 bits alone"),
        pytest.param("torch.optim.Adam(model.parameters())  # no FSDP yet\n", True, id="a comment"),
    ],
)
def test_another_state_is_not_reckoned_as_adams(judge, script: str, found: bool) -> None:
    assert bool(judge("MEM003", files={"src/train.py": script}, **STATE)) is found
    assert judge("MEM003", hyperparameters={"deepspeed": "ds.json"}, **STATE) == []


@pytest.mark.parametrize(
    ("hyperparameters", "found"),
    [
        ({"tensor-model-parallel-size": 3}, "warning"),
        ({"tensor-model-parallel-size": 8, "pipeline-model-parallel-size": 3}, "warning"),
        ({"tensor-model-parallel-size": 8, "pipeline-model-parallel-size": 2}, None),
        ({"tp_size": 5}, "warning"),
        ({"model.tensor_model_parallel_size": 3}, "warning"),
        ({"expert_model_parallel_size": 8, "tensor_model_parallel_size": 4}, None),
        ({"rollout.tensor_model_parallel_size": 3}, None),
        ({"virtual_pipeline_model_parallel_size": 3}, None),
        ({"sequence_length": 3}, None),
    ],
)
def test_degrees_that_the_script_is_told(severity_of, hyperparameters: dict, found: str | None) -> None:
    job = {"resources": TWO_P4D, "distribution": {"strategy": "torchrun"}}
    assert severity_of("DIST004", hyperparameters=hyperparameters, **job) == found


MESH = "from torch.distributed.device_mesh import init_device_mesh\nimport torch.distributed as dist\n"


@pytest.mark.parametrize(
    ("mesh", "found"),
    [
        ("init_device_mesh('cuda', (4, 8))", "error"),
        ("init_device_mesh('cuda', (2, 4))", "warning"),
        ("init_device_mesh('cuda', (2, 8))", None),
        ("tp = 3\ninit_device_mesh('cuda', (dist.get_world_size() // tp, tp))", "warning"),
        ("tp = 4\ninit_device_mesh('cuda', (dist.get_world_size() // tp, tp))", None),
        ("init_device_mesh('cuda', (args.dp, 8))", None),
    ],
)
def test_a_mesh_has_as_many_places_as_there_are_ranks(severity_of, mesh: str, found: str | None) -> None:
    job = {"resources": TWO_P4D, "distribution": {"strategy": "torchrun"}}
    assert severity_of("DIST004", files={"src/train.py": f"{MESH}{mesh}\n"}, **job) == found
