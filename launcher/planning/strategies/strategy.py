"""The shape that every strategy has, and what the answers consist of.

What a strategy needs in the environment stands with the other settings, in `launcher.planning.settings`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import job_file
from launcher.failure_modes.model import FailureMode
from launcher.jobs.specification import JobSpec

PYTORCH = "pytorch"
PYTORCH_NEURON = "pytorch-neuron"
"""Frameworks of the image table that several strategies use."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The container's command."""

    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Submission:
    """What is only known of a job once it has a name and a destination.

    `archive` is the URI of the packed source.
    """

    job_name: str
    region: str
    archive: str
    processes_per_host: int


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a strategy cannot run a job: the failure mode, and the path of the field at fault."""

    mode: FailureMode
    message: str
    remedy: str
    path: tuple[str | int, ...]

    @property
    def is_about_values(self) -> bool:
        """Whether the value itself makes no sense, so that no request can hold it."""
        return self.mode is job_file.INVALID_VALUE


class LaunchStrategy(Protocol):
    """What the plan asks of a strategy. `facts` is None for an unknown instance type.

    `archive_name` is how the packed source is called where the strategy's launcher looks for it.
    """

    archive_name: str

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Processes on each host; None where only the user can say, and did not."""
        ...

    def world_size(self, job: JobSpec, processes_per_host: int) -> int:
        """Processes of the whole job."""
        ...

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Objection]:
        """Everything that keeps the strategy from running the job as it is described."""
        ...

    def image(self, facts: InstanceFacts | None) -> str:
        """The framework of the image table whose images the strategy needs."""
        ...

    def hyperparameters(self, job: JobSpec, submission: Submission) -> dict[str, str]:
        """The request's hyperparameters; asked only of a job without objections to its values."""
        ...

    def entry(self, job: JobSpec, processes_per_host: int) -> Entry | None:
        """The container's command; None lets the image's own training toolkit start the script."""
        ...


def accelerated_processes(job: JobSpec, facts: InstanceFacts | None) -> int | None:
    """The user's number, else one per GPU or Neuron core, else 1 on a host without them."""
    return job.distribution.processes_per_host or (facts.processes_per_host if facts else None)
