"""What the rules on a job judge."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from launcher.cluster.instances import InstanceFacts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import Location
from launcher.jobs.specification import JobSpec, Strategy
from launcher.source.tree import SourceTree

TELLING_NAMES = frozenset(
    {
        "DistributedSampler",
        "FullyShardedDataParallel",
        "fully_shard",
        "deepspeed",
        "ZeroRedundancyOptimizer",
    }
)
"""The names in a script by which the rules see how it divides data and state."""


@dataclass(frozen=True, slots=True)
class GivenVariable:
    """An environment variable that the user gave, and where: `path` leads to it in the job file."""

    name: str
    value: str
    path: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The field as findings name it."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class JobSubject:
    """A job with the facts about it; `facts` is None for an unknown instance type.

    `locate("resources", "instance_type")` says where a field stands in the job file. `cluster` is the
    manifest, None where there is none or it was not read yet. `names` are those of TELLING_NAMES that
    the source uses.
    """

    job: JobSpec
    facts: InstanceFacts | None
    source: SourceTree
    locate: Callable[..., Location | None]
    cluster: Cluster | None = None
    names: frozenset[str] = frozenset()

    @property
    def processes_per_host(self) -> int | None:
        """As the plan derives it; None where only the user can say, and did not."""
        given = self.job.distribution.processes_per_host
        if self.job.distribution.strategy is Strategy.NONE:
            return 1
        return given or (self.facts.processes_per_host if self.facts else None)

    @property
    def world_size(self) -> int | None:
        """Processes of all hosts; None where they are not known."""
        processes = self.processes_per_host
        return None if processes is None else processes * self.job.resources.instance_count

    @property
    def has_efa(self) -> bool:
        """Whether the instance type is known to have EFA."""
        return self.facts is not None and self.facts.efa_interfaces > 0

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether there is a place where checkpoints outlive the hosts.

        A cluster brings one by default, but not to those of a tuning job.
        """
        by_default = self.job.cluster is not None and self.job.tuning is None
        return self.job.checkpoint is not None or by_default or self.writes_to_lustre

    @property
    def writes_to_lustre(self) -> bool:
        """Whether a Lustre directory is mounted writable, where checkpoints may go."""
        return any(source.lustre is not None and source.access == "rw" for source in self.job.inputs.values())

    def variables(self) -> Iterator[GivenVariable]:
        """The user's environment, and what is exported with `-x NAME=VALUE` in the MPI options."""
        for name, value in self.job.environment.items():
            yield GivenVariable(name, value, ("environment", name))
        words = _words(str(self.job.distribution.options.get("mpi_options", "")))
        for flag, assignment in pairwise(words):
            name, equals, value = assignment.partition("=")
            if flag == "-x" and equals:
                yield GivenVariable(name, value, ("distribution", "options", "mpi_options"))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
