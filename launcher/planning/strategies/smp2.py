"""smp version 2: SageMaker's model parallel library for FSDP, in images of its own, by torchrun."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final

from launcher.cluster.instances import InstanceFacts
from launcher.facts.provenance import Provenance
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.boot import BootStrategy
from launcher.planning.strategies.degrees import divide, within
from launcher.planning.strategies.options import (
    OPTIONS,
    ValueCheck,
    boolean,
    check_options,
    mapping,
    one_of,
    whole,
)
from launcher.planning.strategies.smp_parameters import MP_PARAMETERS, PARAMETERS, smp_degree, smp_parameters
from launcher.planning.strategies.strategy import StartParameters, world_size
from launcher.planning.strategies.support import Support, crowded, unsupported

FRAMEWORK = "pytorch-smp"

PROVENANCE: Final = Provenance(
    date(2026, 11, 21),
    shelf_life_days=365,
    source="SageMaker developer guide, distributed-model-parallel-support (archived), -support-v2 and -v2-reference",
)

SUPPORT = Support(
    library="SMP version 2",
    instance_types=("ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.48xlarge"),
    framework=FRAMEWORK,
)
"""SageMaker developer guide, distributed-model-parallel-support-v2."""

PARAMETERS_KNOWN: Mapping[str, ValueCheck] = {
    "hybrid_shard_degree": whole(0),
    "tensor_parallel_degree": whole(1),
    "context_parallel_degree": whole(1),
    "expert_parallel_degree": whole(1),
    "sm_activation_offloading": boolean,
    "activation_loading_horizon": whole(1),
    "fsdp_cache_flush_warnings": boolean,
    "allow_empty_shards": boolean,
    "random_seed": whole(0),
}
"""All that there are: SageMaker developer guide, distributed-model-parallel-v2-reference."""

OPTIONS_KNOWN: Mapping[str, ValueCheck] = {"version": one_of(1, 2, "1", "2"), "parameters": mapping}


class SmpVersion2(BootStrategy):
    """torch.sagemaker, configured by the hyperparameter `mp_parameters`, started by torchrun."""

    boot_name = "torchrun"

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on P4 and P5, with its images' PyTorch and degrees that divide the world size."""
        options = job.distribution.options
        parameters = smp_parameters(job)
        wrong = [
            *check_options(options, OPTIONS_KNOWN, OPTIONS, "smp version 2"),
            *check_options(parameters, PARAMETERS_KNOWN, PARAMETERS, "smp version 2"),
            *_reserved_name(job),
        ]
        yield from wrong
        yield from self.startable(job)
        yield from crowded(facts, processes_per_host)
        yield from unsupported(SUPPORT, job)
        if not wrong and processes_per_host is not None:
            yield from _degrees(job, world_size(job, processes_per_host))

    def image(self, facts: InstanceFacts | None) -> str:
        """The library's own images, which hold PyTorch of the version that the job names."""
        return FRAMEWORK

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's as text, and the library's parameters as `mp_parameters`."""
        return {**super().hyperparameters(job, start), MP_PARAMETERS: json.dumps(smp_parameters(job))}


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _reserved_name(job: JobSpec) -> Iterator[Finding]:
    if MP_PARAMETERS in job.hyperparameters:
        yield job_file.INVALID_VALUE.at(
            ("hyperparameters", MP_PARAMETERS),
            "the hyperparameter mp_parameters carries SMP's own configuration",
            remedy="Move it to `distribution.options.parameters`.",
        )


def _degrees(job: JobSpec, ranks: int) -> Iterator[Finding]:
    """Each degree cuts the ranks into equal groups; sharding happens beside tensor parallelism."""
    shard = smp_degree(job, "hybrid_shard_degree", default=0)
    tensor = smp_degree(job, "tensor_parallel_degree")
    yield from divide(job, ranks, {"hybrid_shard_degree": shard, "tensor_parallel_degree": tensor})
    for name in smp_parameters(job):
        if name in ("context_parallel_degree", "expert_parallel_degree"):
            yield from divide(job, ranks, {name: smp_degree(job, name)})
    if shard:
        context = ("context_parallel_degree", smp_degree(job, "context_parallel_degree"))
        yield from within(context, ("hybrid_shard_degree", shard))
