"""The shape that every strategy has, and what the answers consist of.

What a strategy needs in the environment stands with the other settings, in `launcher.planning.settings`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes.model import Finding
from launcher.jobs.specification import JobSpec

PYTORCH = "pytorch"
PYTORCH_NEURON = "pytorch-neuron"
TENSORFLOW = "tensorflow"
"""Frameworks of the image table that several strategies use."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The container's command, as ContainerEntrypoint and ContainerArguments take it."""

    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartParameters:
    """What the start of a job's script depends on and is known only once it has a name and a destination.

    `archive` is the URI of the packed source, `folders` the paths of the container's folders by the names of
    their variables.
    """

    job_name: str
    region: str
    archive: str
    processes_per_host: int
    folders: Mapping[str, str]


class LaunchStrategy(Protocol):
    """What the plan asks of a strategy. `facts` is None for an unknown instance type.

    `archive_name` is how the packed source is called where the strategy's launcher looks for it.
    `with_boot` says who starts the script: the boot, or the training toolkit of the image.
    """

    archive_name: str
    with_boot: bool

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Processes on each host; None where only the user can say, and did not."""
        ...

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Everything that keeps the strategy from running the job as it is described."""
        ...

    def image(self, facts: InstanceFacts | None) -> str:
        """The framework of the image table whose images the strategy needs."""
        ...

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The request's hyperparameters; asked only of a job whose values are all valid."""
        ...

    def entry(self, job: JobSpec, processes_per_host: int, requirements: str | None) -> Entry | None:
        """The container's command; None lets the image's own training toolkit start the script.

        `requirements` is the file whose packages are installed first, if any.
        """
        ...


def accelerated_processes(job: JobSpec, facts: InstanceFacts | None) -> int | None:
    """The user's number, else one per GPU or Neuron core, else 1 on a host without them.

    None for an unknown instance type without a number of the user's.
    """
    return job.distribution.processes_per_host or (facts.processes_per_host if facts else None)


def world_size(job: JobSpec, processes_per_host: int) -> int:
    """The processes of the whole job: as many on every host, under every strategy."""
    return job.resources.instance_count * processes_per_host
