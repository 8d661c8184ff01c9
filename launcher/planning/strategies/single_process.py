"""none: the script alone, one process per host."""

from __future__ import annotations

from launcher.cluster.instances import InstanceFacts
from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.boot import BootStrategy


class SingleProcess(BootStrategy):
    """No launcher: each host runs the script once."""

    boot_name = "none"

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Always one: without a launcher there is nobody to start more."""
        return 1
