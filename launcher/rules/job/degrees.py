"""How a job divides its batches and its model over the ranks: the degrees of the model parallel library.

Version 1: `pipeline_parallel_degree` (or `partitions`), `tensor_parallel_degree`,
`sharded_data_parallel_degree`, `shard_optimizer_state`. Version 2: `hybrid_shard_degree` (0, the
default: over all ranks), `tensor_parallel_degree`, `context_parallel_degree`. Source: Amazon SageMaker
developer guide, distributed-model-parallel-v2-reference and the version 1 API.
"""

from __future__ import annotations

from typing import Any

from launcher.jobs.specification import Strategy
from launcher.rules.job.subject import JobSubject


def data_parallel_size(subject: JobSubject) -> int | None:
    """How many different batches a step reads; None where it is not known or the degrees do not fit."""
    world_size = subject.world_size
    if world_size is None or subject.job.distribution.strategy is not Strategy.SMP:
        return world_size
    shared = _model_parallel(subject) * _degree(subject, "context_parallel_degree")
    return world_size // shared if world_size % shared == 0 else None


def state_shards(subject: JobSubject) -> tuple[int, int] | None:
    """Over how many ranks the weights with their gradients, and the optimizer states, are divided.

    None where the number of ranks is not known.
    """
    world_size = subject.world_size
    if world_size is None:
        return None
    if subject.job.distribution.strategy is Strategy.SMP:
        return _model_parallel_shards(subject, world_size)
    if subject.names & {"FullyShardedDataParallel", "fully_shard", "deepspeed"}:
        return world_size, world_size
    return 1, world_size if "ZeroRedundancyOptimizer" in subject.names else 1


def _model_parallel_shards(subject: JobSubject, world_size: int) -> tuple[int, int]:
    split = _model_parallel(subject)
    if _is_version_1(subject):
        shards = split * _degree(subject, "sharded_data_parallel_degree")
        replicated = max(1, world_size // shards)
        return shards, shards * (replicated if _parameters(subject).get("shard_optimizer_state") else 1)
    hybrid = _degree(subject, "hybrid_shard_degree", default=0)
    shards = hybrid * split if hybrid else world_size
    return shards, shards


def _model_parallel(subject: JobSubject) -> int:
    tensor = _degree(subject, "tensor_parallel_degree")
    if not _is_version_1(subject):
        return tensor
    pipeline = _degree(subject, "pipeline_parallel_degree", default=_degree(subject, "partitions"))
    return tensor * pipeline


def _is_version_1(subject: JobSubject) -> bool:
    return str(subject.job.distribution.options.get("version", 2)) == "1"


def _parameters(subject: JobSubject) -> dict[str, Any]:
    parameters = subject.job.distribution.options.get("parameters", {})
    return parameters if isinstance(parameters, dict) else {}


def _degree(subject: JobSubject, name: str, default: int = 1) -> int:
    value = _parameters(subject).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default
