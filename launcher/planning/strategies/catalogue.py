"""Which strategy carries out a job."""

from __future__ import annotations

from collections.abc import Mapping

from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.strategies.in_tuning_job import IN_TUNING_JOB
from launcher.planning.strategies.mpi import Mpi
from launcher.planning.strategies.single_process import SingleProcess
from launcher.planning.strategies.smddp import Smddp
from launcher.planning.strategies.smp1 import SmpVersion1
from launcher.planning.strategies.smp2 import SmpVersion2
from launcher.planning.strategies.strategy import LaunchStrategy
from launcher.planning.strategies.torch_xla import TorchXla
from launcher.planning.strategies.torchrun import Torchrun

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
    if job.tuning is not None and job.distribution.strategy in IN_TUNING_JOB:
        return IN_TUNING_JOB[job.distribution.strategy]
    return STRATEGIES[job.distribution.strategy]
