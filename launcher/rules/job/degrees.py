"""How a job divides its batches and its model over the ranks: the degrees of the model parallel library.

Version 1: `pipeline_parallel_degree` (or `partitions`), `tensor_parallel_degree`,
`sharded_data_parallel_degree`, `shard_optimizer_state`. Version 2: `hybrid_shard_degree` (0, the
default: over all ranks), `tensor_parallel_degree`, `context_parallel_degree`. Source: Amazon SageMaker
developer guide, distributed-model-parallel-v2-reference and the version 1 API.
"""

from __future__ import annotations

from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.smp_parameters import smp_degree, smp_parameters
from launcher.rules.job.subject import JobSubject


def data_parallel_size(subject: JobSubject) -> int | None:
    """How many different batches a step reads; None where it is not known or the degrees do not fit."""
    job, world_size = subject.job, subject.plan.world_size
    if world_size is None or job.distribution.smp_version is None:
        return world_size
    shared = _model_parallel(job) * smp_degree(job, "context_parallel_degree")
    return world_size // shared if world_size % shared == 0 else None


def state_shards(subject: JobSubject) -> tuple[int, int] | None:
    """Over how many ranks the weights with their gradients, and the optimizer states, are divided.

    None where the number of ranks is not known.
    """
    world_size = subject.plan.world_size
    if world_size is None:
        return None
    if subject.job.distribution.smp_version is not None:
        return _model_parallel_shards(subject.job, world_size)
    if subject.names & {"FullyShardedDataParallel", "fully_shard", "deepspeed"}:
        return world_size, world_size
    return 1, world_size if "ZeroRedundancyOptimizer" in subject.names else 1


def _model_parallel_shards(job: JobSpec, world_size: int) -> tuple[int, int]:
    split = _model_parallel(job)
    if job.distribution.smp_version == 1:
        shards = split * smp_degree(job, "sharded_data_parallel_degree")
        replicated = max(1, world_size // shards)
        return shards, shards * (replicated if smp_parameters(job).get("shard_optimizer_state") else 1)
    hybrid = smp_degree(job, "hybrid_shard_degree", default=0)
    shards = hybrid * split if hybrid else world_size
    return shards, shards


def _model_parallel(job: JobSpec) -> int:
    """Over how many ranks one copy of the model is split."""
    tensor = smp_degree(job, "tensor_parallel_degree")
    if job.distribution.smp_version == 2:
        return tensor
    return tensor * smp_degree(job, "pipeline_parallel_degree", default=smp_degree(job, "partitions"))
