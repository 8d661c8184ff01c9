"""What the rules on a job judge."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from launcher.cluster.instances import InstanceFacts
from launcher.cluster.manifest import Cluster
from launcher.jobs.job_sections import Code
from launcher.jobs.specification import JobSpec
from launcher.planning.training_plan import TrainingPlan
from launcher.source.tree import NOTHING_SEEN, CommandLine, SourceTree

SEARCHED_NAMES = frozenset(
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


class SourceSubject(Protocol):
    """What the rules on the source judge by: a job, or what is readable of one whose file has errors."""

    @property
    def code(self) -> Code:
        """What the job file says of the code."""
        ...

    @property
    def source(self) -> SourceTree:
        """The code as it lies there."""
        ...


@dataclass(frozen=True, slots=True)
class ReadableSource:
    """The source of a job whose file has errors elsewhere."""

    code: Code
    source: SourceTree


@dataclass(frozen=True, slots=True)
class JobSubject:
    """A job with its plan and the facts about it; `facts` is None for an unknown instance type.

    What the plan has derived (processes, checkpoints, Debugger, who starts the script) is asked of `plan`.
    `cluster` is the manifest, None where there is none or it was not read yet. `names` are those of
    SEARCHED_NAMES that the source uses, `command_line` what the script's own parser is seen to take. `here`
    says that the job is to run on this machine, `starts_ranks` that the script starts processes itself.
    """

    job: JobSpec
    plan: TrainingPlan
    facts: InstanceFacts | None
    source: SourceTree
    cluster: Cluster | None = None
    names: frozenset[str] = frozenset()
    command_line: CommandLine = NOTHING_SEEN
    here: bool = False
    starts_ranks: bool = False

    @property
    def code(self) -> Code:
        """What the job file says of the code."""
        return self.job.code

    @property
    def has_efa(self) -> bool:
        """Whether the instance type is known to have EFA; an unknown type is not."""
        return self.facts is not None and self.facts.has_efa

    @property
    def writes_to_lustre(self) -> bool:
        """Whether a Lustre directory is mounted writable as an input, where checkpoints may go as well."""
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
