"""none: the script alone, one process per host."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes.model import Finding
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.boot import BootStrategy
from launcher.planning.strategies.programs import python_or_shell


class SingleProcess(BootStrategy):
    """No launcher: each host runs the script once."""

    boot_name = "none"

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Always one: without a launcher there is nobody to start more."""
        return 1

    def startable(self, job: JobSpec) -> Iterator[Finding]:
        """Python programs and shell scripts; what is neither, by its name, cannot be started."""
        yield from python_or_shell(job)
