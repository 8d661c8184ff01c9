"""Memory of parameters, gradients and optimizer state: MEM003."""

from __future__ import annotations

import pytest

P4D = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
JUST = 0.9 * 40 * 2**30 / 16
"""The parameters whose state fills 90 % of an A100's 40 GiB."""

FSDP = ("FullyShardedDataParallel",)


def smp(version: int, **parameters: object) -> dict:
    return {"strategy": "smp", "options": {"version": version, "parameters": parameters}}


@pytest.mark.parametrize(
    ("parameters", "distribution", "names", "found"),
    [
        pytest.param(JUST, {}, (), False, id="whole on each rank, 90 %"),
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
    job = {"resources": P4D, "distribution": distribution or {"strategy": "torchrun"}}
    assert bool(judge("MEM003", model={"parameters": parameters}, names=names, **job)) is found


@pytest.mark.parametrize("instance_type", ["ml.m5.xlarge", "ml.p9.48xlarge"])
def test_without_a_known_accelerator_nothing_is_said(severity_of, instance_type: str) -> None:
    job = {"resources": {"instance_type": instance_type}, "model": {"parameters": 1e12}}
    assert severity_of("MEM003", **job) is None


def test_neuron_cores_share_the_memory_of_their_device(severity_of) -> None:
    per_core = 0.9 * 16 * 2**30 / 16
    trn1 = {"resources": {"instance_type": "ml.trn1.32xlarge"}}
    assert severity_of("MEM003", model={"parameters": per_core}, **trn1) is None
    assert severity_of("MEM003", model={"parameters": per_core * 1.01}, **trn1) == "warning"


def test_the_arithmetic_is_shown(judge) -> None:
    (finding,) = judge("MEM003", resources=P4D, model={"parameters": 13e9})
    assert "13 billion parameters x 16 bytes" in finding.message
    assert "= 193.7 GiB on each of 16 ranks" in finding.message
    assert "40.0 GiB" in finding.message
    assert "over all 16 ranks it is 12.1 GiB" in finding.remedy


def test_what_no_sharding_here_can_hold_is_told_how_many_ranks(judge) -> None:
    (finding,) = judge("MEM003", resources=P4D, model={"parameters": 100e9}, names=FSDP)
    assert "(4/16 + 12/16) bytes" in finding.message
    assert "at least 42 ranks" in finding.remedy
