"""The model parallel library of SageMaker: version 1 over MPI, version 2 for FSDP by torchrun.

Version 2 is in images of its own.

Parallel degrees cut the ranks into equal groups, so they must divide the world size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from math import prod
from typing import Any, Final

from launcher.cluster.instances import InstanceFacts
from launcher.facts import Provenance
from launcher.failure_modes import distribution, job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.strategy import (
    MP_PARAMETERS,
    OPTIONS,
    PARAMETERS_FIELD,
    BootStrategy,
    StartParameters,
    Support,
    ValueCheck,
    any_mapping,
    any_text,
    check_crowding,
    check_options,
    check_python_program,
    check_support,
    finite_number,
    one_of_values,
    smp_degree,
    smp_parameters,
    true_or_false,
    true_or_one,
    whole_number,
    world_size,
)
from launcher.planning.strategies.toolkit import ToolkitStrategy, check_mpi_options, check_parameter_words

# smp version 1: SageMaker's model parallel library, over MPI.


SMP1_SUPPORT = Support(
    library="SMP version 1",
    instance_types=(
        "ml.g4dn.12xlarge", "ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge",
    ),
    oldest="1.7.1",
    newest="2.0.0",
)  # fmt: skip
"""SageMaker developer guide, distributed-model-parallel-support (archived), without PyTorch 1.6: the
library is then in an image of a name of its own."""

SMP1_PARAMETERS: Mapping[str, ValueCheck] = {
    "partitions": whole_number(1),
    "pipeline_parallel_degree": whole_number(1),
    "tensor_parallel_degree": whole_number(1),
    "sharded_data_parallel_degree": whole_number(1),
    "microbatches": whole_number(1),
    "active_microbatches": whole_number(1),
    "pipeline": one_of_values("interleaved", "simple", "_only_forward"),
    "optimize": one_of_values("memory", "speed"),
    "placement_strategy": one_of_values(
        "cluster", "spread", "DPT", "DTP", "PDT", "PTD", "TDP", "TPD",
    ),
    "auto_partition": true_or_one,
    "default_partition": whole_number(0),
    "partition_file": any_text,
    "load_partition": true_or_one,
    "contiguous": true_or_one,
    "memory_weight": finite_number(0, 1),
    "ddp": true_or_one,
    "ddp_port": whole_number(0),
    "ddp_dist_backend": one_of_values("auto", "nccl"),
    "horovod": true_or_one,
    "deterministic_server": true_or_one,
    "offload_activations": true_or_one,
    "activation_loading_horizon": whole_number(1),
    "shard_optimizer_state": true_or_one,
    "prescaled_batch": true_or_one,
    "skip_tracing": true_or_one,
    "trace_device": one_of_values("cpu", "gpu"),
    "delayed_parameter_initialization": true_or_one,
    "fp16": true_or_one,
    "fp16_params": true_or_one,
    "bf16": true_or_one,
    "sdp_reduce_bucket_size": finite_number(1),
    "sdp_param_persistence_threshold": finite_number(0),
    "sdp_max_live_parameters": finite_number(1),
    "sdp_hierarchical_allgather": true_or_one,
    "sdp_gradient_clipping": finite_number(0),
}  # fmt: skip
"""SageMaker SDK documentation, smd_model_parallel_general, and the developer guide,
model-parallel-extended-features-pytorch-sharded-data-parallelism."""

SMP1_OPTIONS: Mapping[str, ValueCheck] = {
    "version": one_of_values(1, "1"),
    "parameters": any_mapping,
    "mpi_options": any_text,
}


class SmpVersion1(ToolkitStrategy):
    """Pipeline, tensor and sharded data parallelism by the library's own wrappers."""

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on some GPU types, with PyTorch 1.7 to 2.0 and degrees that divide the world size."""
        yield from super().find_unsupported(job, facts, processes_per_host)
        yield from check_options(
            job.distribution.options, SMP1_OPTIONS, OPTIONS, "smp version 1", ("parameters", SMP1_PARAMETERS)
        )
        job = _as_meant(job, SMP1_PARAMETERS)
        yield from check_mpi_options(job)
        yield from check_python_program(job, "the model parallel library's launcher")
        yield from check_support(SMP1_SUPPORT, job)
        parameters = smp_parameters(job)
        wrong = [
            *check_options(parameters, SMP1_PARAMETERS, PARAMETERS_FIELD, "smp version 1"),
            *_check_parameters_together(parameters),
            *check_parameter_words(job),
        ]
        yield from wrong
        if not wrong and processes_per_host is not None:
            yield from _check_version1_degrees(job, world_size(job, processes_per_host))

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, those that tell the toolkit what to start, and the library's parameters."""
        return {
            **super().hyperparameters(job, start),
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_custom_mpi_options": json.dumps(job.distribution.options.get("mpi_options", "")),
            MP_PARAMETERS: json.dumps(_parameters_to_send(smp_parameters(job))),
            "sagemaker_distributed_dataparallel_enabled": "false",
            "sagemaker_instance_type": json.dumps(job.resources.instance_type),
        }


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_parameters_together(parameters: Mapping[str, Any]) -> Iterator[Finding]:
    """What the library demands of its parameters together.

    SageMaker SDK, validate_mp_config in fw_utils.py, and smd_model_parallel_general: one pipeline degree,
    `ddp` beside what runs over it, and a partition for what stands in none.
    """
    # Not a set: a value may be anything that YAML has, a mapping too, which is then refused as a degree.
    pipeline = [parameters[name] for name in ("partitions", "pipeline_parallel_degree") if name in parameters]
    if not pipeline or pipeline[0] != pipeline[-1]:
        yield job_file.INVALID_VALUE.at(
            PARAMETERS_FIELD,
            "smp version 1 needs `pipeline_parallel_degree` (formerly `partitions`)"
            + (", and the two differ" if pipeline else ""),
            remedy="Give one of them; 1 for no pipeline.",
        )
    yield from _check_ddp(parameters)
    yield from _check_default_partition(parameters, pipeline[0] if pipeline else None)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_ddp(parameters: Mapping[str, Any]) -> Iterator[Finding]:
    """`ddp` is on beside what runs over it or sets it up, and off beside Horovod, which takes its place."""
    if not parameters.get("ddp"):
        for name in ("tensor_parallel_degree", "sharded_data_parallel_degree"):
            if parameters.get(name, 1) != 1:
                yield job_file.INVALID_VALUE.at(
                    (*PARAMETERS_FIELD, name),
                    f"{name} above 1 needs `ddp: true`: the library runs over DistributedDataParallel then",
                    remedy="Add `ddp: true` to the parameters.",
                )
        for name in ("ddp_port", "ddp_dist_backend"):
            if name in parameters:
                yield job_file.INVALID_VALUE.at(
                    (*PARAMETERS_FIELD, name),
                    f"{name} needs `ddp: true`: without DistributedDataParallel the library refuses it",
                    remedy=f"Add `ddp: true` to the parameters, or leave `{name}` out.",
                )
    elif parameters.get("horovod"):
        yield job_file.INVALID_VALUE.at(
            (*PARAMETERS_FIELD, "horovod"),
            "ddp and horovod are both on: the library reduces gradients with one of them, and refuses both",
            remedy="With PyTorch keep `ddp: true`, and leave `horovod` out.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_default_partition(parameters: Mapping[str, Any], partitions: Any) -> Iterator[Finding]:
    """Partitions are counted from 0, and one must take what stands in no `smp.partition` context."""
    default = parameters.get("default_partition")
    if default is None and not parameters.get("auto_partition", True):
        yield job_file.INVALID_VALUE.at(
            (*PARAMETERS_FIELD, "auto_partition"),
            "`auto_partition: false` needs `default_partition`: modules outside of every smp.partition "
            "context would belong to no partition, and the library refuses to start",
            remedy="Add `default_partition: 0`, or leave `auto_partition` out.",
        )
    if isinstance(default, int) and isinstance(partitions, int) and default >= partitions > 0:
        yield job_file.INVALID_VALUE.at(
            (*PARAMETERS_FIELD, "default_partition"),
            f"default_partition is {default}, but the model has {partitions} "
            f"partition{'s' if partitions > 1 else ''}, counted from 0: the library refuses to start",
            remedy=f"Give at most {partitions - 1}.",
        )


def _parameters_to_send(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with true and false where 1 and 0 stand for them, the type in the library's schema."""
    return {
        name: bool(value) if SMP1_PARAMETERS.get(name) is true_or_one else value
        for name, value in parameters.items()
    }


def _check_version1_degrees(job: JobSpec, ranks: int) -> Iterator[Finding]:
    """Pipeline, tensor and sharding groups lie inside each other, so their product divides."""
    pipeline = "partitions" if "partitions" in smp_parameters(job) else "pipeline_parallel_degree"
    names = (pipeline, "tensor_parallel_degree", "sharded_data_parallel_degree")
    yield from check_divisors(job, ranks, {name: smp_degree(job, name) for name in names})


# smp version 2: SageMaker's model parallel library for FSDP, in images of its own, by torchrun.


SMP2_FRAMEWORK = "pytorch-smp"

PROVENANCE: Final = Provenance(
    date(2026, 11, 21),
    shelf_life_days=365,
    source="SageMaker developer guide, distributed-model-parallel-support (archived), -support-v2 and "
    "-v2-reference",
)

SMP2_SUPPORT = Support(
    library="SMP version 2",
    instance_types=("ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.48xlarge"),
    framework=SMP2_FRAMEWORK,
)
"""SageMaker developer guide, distributed-model-parallel-support-v2."""

SMP2_PARAMETERS: Mapping[str, ValueCheck] = {
    "hybrid_shard_degree": whole_number(0),
    "tensor_parallel_degree": whole_number(1),
    "context_parallel_degree": whole_number(1),
    "expert_parallel_degree": whole_number(1),
    "sm_activation_offloading": true_or_false,
    "activation_loading_horizon": whole_number(1),
    "fsdp_cache_flush_warnings": true_or_false,
    "allow_empty_shards": true_or_false,
    "random_seed": whole_number(0),
}
"""All that there are: SageMaker developer guide, distributed-model-parallel-v2-reference."""

SMP2_OPTIONS: Mapping[str, ValueCheck] = {"version": one_of_values(1, 2, "1", "2"), "parameters": any_mapping}


class SmpVersion2(BootStrategy):
    """torch.sagemaker, configured by the hyperparameter `mp_parameters`, started by torchrun."""

    boot_name = "torchrun"

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on P4 and P5, with its images' PyTorch and degrees that divide the world size."""
        yield from check_options(
            job.distribution.options, SMP2_OPTIONS, OPTIONS, "smp version 2", ("parameters", SMP2_PARAMETERS)
        )
        job = _as_meant(job, SMP2_PARAMETERS)
        wrong = [
            *check_options(smp_parameters(job), SMP2_PARAMETERS, PARAMETERS_FIELD, "smp version 2"),
            *_check_reserved_name(job),
        ]
        yield from wrong
        yield from self.check_startable(job)
        yield from check_crowding(facts, processes_per_host)
        yield from check_support(SMP2_SUPPORT, job)
        if not wrong and processes_per_host is not None:
            yield from _check_version2_degrees(job, world_size(job, processes_per_host))

    def image_framework(self, facts: InstanceFacts | None) -> str:
        """The library's own images, which hold PyTorch of the version that the job names."""
        return SMP2_FRAMEWORK

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's as text, and the library's parameters as `mp_parameters`."""
        return {**super().hyperparameters(job, start), MP_PARAMETERS: json.dumps(smp_parameters(job))}


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_reserved_name(job: JobSpec) -> Iterator[Finding]:
    if MP_PARAMETERS in job.hyperparameters:
        yield job_file.INVALID_VALUE.at(
            ("hyperparameters", MP_PARAMETERS),
            "the hyperparameter mp_parameters carries SMP's own configuration",
            remedy="Move it to `distribution.options.parameters`.",
        )


def _check_version2_degrees(job: JobSpec, ranks: int) -> Iterator[Finding]:
    """Each degree cuts the ranks into equal groups; sharding happens beside tensor parallelism."""
    shard = smp_degree(job, "hybrid_shard_degree", default=0)
    tensor = smp_degree(job, "tensor_parallel_degree")
    yield from check_divisors(job, ranks, {"hybrid_shard_degree": shard, "tensor_parallel_degree": tensor})
    for name in smp_parameters(job):
        if name in ("context_parallel_degree", "expert_parallel_degree"):
            yield from check_divisors(job, ranks, {name: smp_degree(job, name)})
    if shard:
        context = ("context_parallel_degree", smp_degree(job, "context_parallel_degree"))
        yield from check_inner_degree(context, ("hybrid_shard_degree", shard))


# Parameters and parallel degrees, of both versions.


def _as_meant(job: JobSpec, known: Mapping[str, ValueCheck]) -> JobSpec:
    """The job with the parameters that stand among the options, which is an error, where they belong."""
    options = job.distribution.options
    moved = {name: value for name, value in options.items() if name in known}
    if not moved:
        return job
    rest = {name: value for name, value in options.items() if name not in moved}
    meant = {**rest, "parameters": {**moved, **smp_parameters(job)}}
    return job.model_copy(update={"distribution": job.distribution.model_copy(update={"options": meant})})


_SEARCHED = 100_000


@finds(Stage.SPEC, distribution.DEGREES_DO_NOT_DIVIDE)
def check_divisors(job: JobSpec, ranks: int, degrees: Mapping[str, int]) -> Iterator[Finding]:
    """The product of the degrees must divide the number of ranks; degrees of 1 group nothing."""
    grouping = {name: degree for name, degree in degrees.items() if degree > 1}
    product = prod(grouping.values())
    if ranks % product == 0:
        return
    factors = " x ".join(f"{name} {degree}" for name, degree in grouping.items())
    is_a_product = f" = {product}" if len(grouping) > 1 else ""
    yield distribution.DEGREES_DO_NOT_DIVIDE.at(
        (*PARAMETERS_FIELD, next(iter(grouping))),
        f"{factors}{is_a_product} does not divide the world size {ranks} "
        f"({job.resources.instance_count} hosts)",
        remedy=f"Choose a product that divides it{_nearest_divisors(ranks, product)}, or change the "
        "number of hosts.",
    )


@finds(Stage.SPEC, distribution.DEGREES_DO_NOT_DIVIDE)
def check_inner_degree(inner: tuple[str, int], outer: tuple[str, int]) -> Iterator[Finding]:
    """The inner degree, by name and number, may not be larger than the outer one."""
    if inner[1] > outer[1]:
        yield distribution.DEGREES_DO_NOT_DIVIDE.at(
            (*PARAMETERS_FIELD, inner[0]),
            f"{inner[0]} {inner[1]} is larger than {outer[0]} {outer[1]}",
            remedy=f"Lower {inner[0]} to at most {outer[1]}, or raise {outer[0]}.",
        )


def _nearest_divisors(ranks: int, product: int) -> str:
    """`, such as 4 or 8`: the nearest below and above; nothing where there are too many ranks to search."""
    if ranks > _SEARCHED:
        return ""
    divisors = [degree for degree in range(1, ranks + 1) if ranks % degree == 0]
    near = [
        *[degree for degree in divisors if degree < product][-1:],
        *[degree for degree in divisors if degree > product][:1],
    ]
    return f", such as {' or '.join(map(str, near))}"
