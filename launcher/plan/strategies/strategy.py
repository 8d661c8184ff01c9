"""The shape that every strategy has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from launcher.cluster.instances import InstanceFacts
from launcher.jobs.specification import JobSpec

BOOT_ENTRYPOINT = ("python3", "/opt/ml/input/data/code/slipway.pyz")
"""What the container runs: the boot, from the `code` channel."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The container's command; None lets the image's own training toolkit start the script."""

    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]


class LaunchStrategy(Protocol):
    """What the plan asks of a strategy. `facts` is None for an unknown instance type."""

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Processes on each host; None where only the user can say, and did not."""
        ...

    def entry(self, job: JobSpec, processes_per_host: int) -> Entry:
        """How the container starts the processes."""
        ...


def boot_entry(job: JobSpec, processes_per_host: int) -> Entry:
    """The boot's command for a job: strategy, processes, script and the user's arguments."""
    arguments: tuple[str, ...] = (
        "--strategy", job.distribution.strategy.value,
        "--processes-per-host", str(processes_per_host),
        "--entry-point", job.code.entry_point,
    )  # fmt: skip
    if job.code.arguments:
        arguments += ("--", *job.code.arguments)
    return Entry(BOOT_ENTRYPOINT, arguments)
