"""none: the script alone, one process per host."""

from __future__ import annotations

from launcher.cluster.instances import InstanceFacts
from launcher.jobs.specification import JobSpec
from launcher.plan.strategies.strategy import Entry, boot_entry


class SingleProcess:
    """No launcher: each host runs the script once."""

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Always one: without a launcher there is nobody to start more."""
        return 1

    def entry(self, job: JobSpec, processes_per_host: int) -> Entry:
        """The boot, which starts the script itself."""
        return boot_entry(job, processes_per_host)
