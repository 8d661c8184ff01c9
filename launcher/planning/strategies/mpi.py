"""mpi: mpirun on the first host starts all processes."""

from __future__ import annotations

import json
from collections.abc import Iterator

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes.model import Finding
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.options import OPTIONS, check_options, text
from launcher.planning.strategies.strategy import StartParameters
from launcher.planning.strategies.support import gpus_or_cpus
from launcher.planning.strategies.toolkit import ToolkitStrategy, unsafe_mpi_options


class Mpi(ToolkitStrategy):
    """Open MPI, for scripts that take their rank from it."""

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on GPU and CPU types with every version; finds what a shell or mpirun would not take."""
        yield from super().supported(job, facts, processes_per_host)
        yield from check_options(job.distribution.options, {"mpi_options": text}, OPTIONS, "the strategy mpi")
        yield from unsafe_mpi_options(job)
        yield from gpus_or_cpus(job, facts)

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, those that tell the toolkit what to start, and mpirun's own options."""
        return {
            **super().hyperparameters(job, start),
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_custom_mpi_options": json.dumps(job.distribution.options.get("mpi_options", "")),
        }
