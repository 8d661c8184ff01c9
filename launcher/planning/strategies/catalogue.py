"""Which strategy carries out a job, and what takes its place in a tuning job.

CreateHyperParameterTuningJob has no ContainerEntrypoint (botocore service model,
HyperParameterAlgorithmSpecification), so torchrun, smp version 2 and none, which the boot starts elsewhere,
are started there by the image's own toolkit, as it is told by the hyperparameters that the SageMaker SDK
sends for these strategies (version 2: pytorch/estimator.py; toolkit: torch_distributed.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final

from launcher.cluster.instances import InstanceFacts
from launcher.facts import Provenance
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.images import torch_version
from launcher.planning.strategies.model_parallel import SmpVersion1, SmpVersion2
from launcher.planning.strategies.strategy import (
    MP_PARAMETERS,
    BootStrategy,
    LaunchStrategy,
    SingleProcess,
    StartParameters,
    Torchrun,
    check_python_program,
)
from launcher.planning.strategies.toolkit import Mpi, Smddp, ToolkitStrategy, TorchXla, check_passed_values

STRATEGIES: Mapping[Strategy, LaunchStrategy] = {
    Strategy.TORCHRUN: Torchrun(),
    Strategy.SMDDP: Smddp(),
    Strategy.SMP: SmpVersion2(),
    Strategy.MPI: Mpi(),
    Strategy.TORCH_XLA: TorchXla(),
    Strategy.NONE: SingleProcess(),
}
"""The strategies by name; `smp` without a version is version 2."""

SMP_VERSION_1 = SmpVersion1()


def strategy_of(job: JobSpec) -> LaunchStrategy:
    """The strategy that carries out a job; `options.version` chooses between the two of smp.

    In a tuning job the image's toolkit starts the script under every strategy.
    """
    if job.distribution.smp_version == 1:
        return SMP_VERSION_1
    if job.tuning is not None and job.distribution.strategy in TUNING_STRATEGIES:
        return TUNING_STRATEGIES[job.distribution.strategy]
    return STRATEGIES[job.distribution.strategy]


# torchrun, smp version 2 and none in a tuning job, which cannot be given a command for the container.


PROVENANCE: Final = Provenance(
    date(2026, 11, 22),
    shelf_life_days=365,
    source="SageMaker SDK, sagemaker.core.fw_utils",
    packages={"sagemaker": "3.27.0"},
)

OLDEST_TORCH_IN_TUNING = {"gpu": (1, 13), "cpu": (1, 13), "neuron": (1, 11)}
"""The first PyTorch whose images' toolkit starts torchrun (SageMaker SDK, fw_utils.py,
TORCH_DISTRIBUTED_GPU_SUPPORTED_FRAMEWORK_VERSIONS and that for Trainium)."""


class InTuningJob(ToolkitStrategy):
    """A strategy of the boot, carried out by the image's toolkit instead."""

    def __init__(self, strategy: BootStrategy) -> None:
        self._strategy = strategy

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """As many as the strategy starts outside of a tuning job."""
        return self._strategy.processes_per_host(job, facts)

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """What the strategy does not support, and what the toolkit cannot pass on or start."""
        found = [
            *self._strategy.find_unsupported(job, facts, processes_per_host),
            *check_passed_values(job),
            *(_check_torchrun(job, facts) if self._by_torchrun else ()),
        ]
        # Both may refuse the same name.
        yield from {(each.code, each.path): each for each in found}.values()

    def image_framework(self, facts: InstanceFacts | None) -> str:
        """The strategy's own images, whose toolkit then does the boot's work."""
        return self._strategy.image_framework(facts)

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, the toolkit's, and the library's where there is one."""
        sent = super().hyperparameters(job, start)
        library = self._strategy.hyperparameters(job, start)
        if MP_PARAMETERS in library:
            sent[MP_PARAMETERS] = library[MP_PARAMETERS]
        if self._by_torchrun:
            sent["sagemaker_torch_distributed_enabled"] = "true"
            sent["sagemaker_instance_type"] = json.dumps(job.resources.instance_type)
        return sent

    @property
    def _by_torchrun(self) -> bool:
        return self._strategy.boot_name == "torchrun"


TUNING_STRATEGIES: Mapping[Strategy, InTuningJob] = {
    Strategy.TORCHRUN: InTuningJob(Torchrun()),
    Strategy.SMP: InTuningJob(SmpVersion2()),
    Strategy.NONE: InTuningJob(SingleProcess()),
}
"""The strategies that are started differently in a tuning job; the toolkit starts the others anyway."""


def _check_torchrun(job: JobSpec, facts: InstanceFacts | None) -> Iterator[Finding]:
    yield from check_python_program(job, "the torchrun of the image's toolkit", (".py",))
    yield from _check_oldest_torch(job, facts)


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def _check_oldest_torch(job: JobSpec, facts: InstanceFacts | None) -> Iterator[Finding]:
    """The toolkit's torchrun is not in the oldest images."""
    version = torch_version(job)
    oldest = OLDEST_TORCH_IN_TUNING[(facts.accelerator_kind if facts else None) or "cpu"]
    if version is not None and version < oldest:
        yield distribution.UNSUPPORTED_COMBINATION.at(
            ("framework", "version") if job.framework else ("image",),
            f"in a tuning job the image's toolkit calls torchrun, which that of PyTorch {version[0]}."
            f"{version[1]} cannot: each host would run the script once, alone",
            remedy=f"Use PyTorch {oldest[0]}.{oldest[1]} or newer, or `strategy: mpi`.",
        )
