"""smp version 1: SageMaker's model parallel library, over MPI."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.degrees import divide
from launcher.planning.strategies.options import (
    OPTIONS,
    ValueCheck,
    check_options,
    mapping,
    number,
    one_of,
    text,
    truth,
    whole,
)
from launcher.planning.strategies.programs import python_alone
from launcher.planning.strategies.smp_parameters import MP_PARAMETERS, PARAMETERS, smp_degree, smp_parameters
from launcher.planning.strategies.strategy import StartParameters, world_size
from launcher.planning.strategies.support import Support, unsupported
from launcher.planning.strategies.toolkit import ToolkitStrategy, unsafe_mpi_options, unsafe_parameters

SUPPORT = Support(
    library="SMP version 1",
    instance_types=(
        "ml.g4dn.12xlarge", "ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge",
    ),
    oldest="1.7.1",
    newest="2.0.0",
)  # fmt: skip
"""SageMaker developer guide, distributed-model-parallel-support (archived), without PyTorch 1.6: the
library is then in an image of a name of its own."""

PARAMETERS_KNOWN: Mapping[str, ValueCheck] = {
    "partitions": whole(1),
    "pipeline_parallel_degree": whole(1),
    "tensor_parallel_degree": whole(1),
    "sharded_data_parallel_degree": whole(1),
    "microbatches": whole(1),
    "active_microbatches": whole(1),
    "pipeline": one_of("interleaved", "simple", "_only_forward"),
    "optimize": one_of("memory", "speed"),
    "placement_strategy": one_of(
        "cluster", "spread", "DPT", "DTP", "PDT", "PTD", "TDP", "TPD",
    ),
    "auto_partition": truth,
    "default_partition": whole(0),
    "partition_file": text,
    "load_partition": truth,
    "contiguous": truth,
    "memory_weight": number(0, 1),
    "ddp": truth,
    "ddp_port": whole(0),
    "ddp_dist_backend": one_of("auto", "nccl"),
    "horovod": truth,
    "deterministic_server": truth,
    "offload_activations": truth,
    "activation_loading_horizon": whole(1),
    "shard_optimizer_state": truth,
    "prescaled_batch": truth,
    "skip_tracing": truth,
    "trace_device": one_of("cpu", "gpu"),
    "delayed_parameter_initialization": truth,
    "fp16": truth,
    "fp16_params": truth,
    "bf16": truth,
    "sdp_reduce_bucket_size": number(1),
    "sdp_param_persistence_threshold": number(0),
    "sdp_max_live_parameters": number(1),
    "sdp_hierarchical_allgather": truth,
    "sdp_gradient_clipping": number(0),
}  # fmt: skip
"""SageMaker SDK documentation, smd_model_parallel_general, and the developer guide,
model-parallel-extended-features-pytorch-sharded-data-parallelism."""

OPTIONS_KNOWN: Mapping[str, ValueCheck] = {
    "version": one_of(1, "1"),
    "parameters": mapping,
    "mpi_options": text,
}


class SmpVersion1(ToolkitStrategy):
    """Pipeline, tensor and sharded data parallelism by the library's own wrappers."""

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on some GPU types, with PyTorch 1.7 to 2.0 and degrees that divide the world size."""
        yield from super().supported(job, facts, processes_per_host)
        yield from check_options(job.distribution.options, OPTIONS_KNOWN, OPTIONS, "smp version 1")
        yield from unsafe_mpi_options(job)
        yield from python_alone(job, "the model parallel library's launcher")
        yield from unsupported(SUPPORT, job)
        parameters = smp_parameters(job)
        wrong = [
            *check_options(parameters, PARAMETERS_KNOWN, PARAMETERS, "smp version 1"),
            *_unfit_together(parameters),
            *unsafe_parameters(job),
        ]
        yield from wrong
        if not wrong and processes_per_host is not None:
            yield from _degrees(job, world_size(job, processes_per_host))

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, those that tell the toolkit what to start, and the library's parameters."""
        return {
            **super().hyperparameters(job, start),
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_custom_mpi_options": json.dumps(job.distribution.options.get("mpi_options", "")),
            MP_PARAMETERS: json.dumps(_as_sent(smp_parameters(job))),
            "sagemaker_distributed_dataparallel_enabled": "false",
            "sagemaker_instance_type": json.dumps(job.resources.instance_type),
        }


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _unfit_together(parameters: Mapping[str, Any]) -> Iterator[Finding]:
    """What the library demands of its parameters together.

    SageMaker SDK, validate_mp_config in fw_utils.py, and smd_model_parallel_general: one pipeline degree,
    `ddp` beside what runs over it, and a partition for what stands in none.
    """
    # Not a set: a value may be anything that YAML has, a mapping too, which is then refused as a degree.
    pipeline = [parameters[name] for name in ("partitions", "pipeline_parallel_degree") if name in parameters]
    if not pipeline or pipeline[0] != pipeline[-1]:
        yield job_file.INVALID_VALUE.at(
            PARAMETERS,
            "smp version 1 needs `pipeline_parallel_degree` (formerly `partitions`)"
            + (", and the two differ" if pipeline else ""),
            remedy="Give one of them; 1 for no pipeline.",
        )
    yield from _over_ddp(parameters)
    yield from _default_partition(parameters, pipeline[0] if pipeline else None)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _over_ddp(parameters: Mapping[str, Any]) -> Iterator[Finding]:
    """`ddp` is on beside what runs over it or sets it up, and off beside Horovod, which takes its place."""
    if not parameters.get("ddp"):
        for name in ("tensor_parallel_degree", "sharded_data_parallel_degree"):
            if parameters.get(name, 1) != 1:
                yield job_file.INVALID_VALUE.at(
                    (*PARAMETERS, name),
                    f"{name} above 1 needs `ddp: true`: the library runs over DistributedDataParallel then",
                    remedy="Add `ddp: true` to the parameters.",
                )
        for name in ("ddp_port", "ddp_dist_backend"):
            if name in parameters:
                yield job_file.INVALID_VALUE.at(
                    (*PARAMETERS, name),
                    f"{name} needs `ddp: true`: without DistributedDataParallel the library refuses it",
                    remedy=f"Add `ddp: true` to the parameters, or leave `{name}` out.",
                )
    elif parameters.get("horovod"):
        yield job_file.INVALID_VALUE.at(
            (*PARAMETERS, "horovod"),
            "ddp and horovod are both on: the library reduces gradients with one of them, and refuses both",
            remedy="With PyTorch keep `ddp: true`, and leave `horovod` out.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _default_partition(parameters: Mapping[str, Any], partitions: Any) -> Iterator[Finding]:
    """Partitions are counted from 0, and one must take what stands in no `smp.partition` context."""
    default = parameters.get("default_partition")
    if default is None and not parameters.get("auto_partition", True):
        yield job_file.INVALID_VALUE.at(
            (*PARAMETERS, "auto_partition"),
            "`auto_partition: false` needs `default_partition`: modules outside of every smp.partition "
            "context would belong to no partition, and the library refuses to start",
            remedy="Add `default_partition: 0`, or leave `auto_partition` out.",
        )
    if isinstance(default, int) and isinstance(partitions, int) and default >= partitions > 0:
        yield job_file.INVALID_VALUE.at(
            (*PARAMETERS, "default_partition"),
            f"default_partition is {default}, but the model has {partitions} "
            f"partition{'s' if partitions > 1 else ''}, counted from 0: the library refuses to start",
            remedy=f"Give at most {partitions - 1}.",
        )


def _as_sent(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with true and false where 1 and 0 stand for them, the type in the library's schema."""
    return {
        name: bool(value) if PARAMETERS_KNOWN.get(name) is truth else value
        for name, value in parameters.items()
    }


def _degrees(job: JobSpec, ranks: int) -> Iterator[Finding]:
    """Pipeline, tensor and sharding groups lie inside each other, so their product divides."""
    pipeline = "partitions" if "partitions" in smp_parameters(job) else "pipeline_parallel_degree"
    names = (pipeline, "tensor_parallel_degree", "sharded_data_parallel_degree")
    yield from divide(job, ranks, {name: smp_degree(job, name) for name in names})
