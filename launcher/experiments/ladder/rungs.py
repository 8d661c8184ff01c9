"""The rungs of a ladder: runs of a job from one process to all its hosts, each one thing more than the last.

Which of them there are depends on the job and on what can run here; what differs between two of them is what
the failure of the second points at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from launcher.jobs.specification import JobSpec, Strategy


class Where(StrEnum):
    """On which side a rung runs."""

    HERE = "here"
    AWS = "aws"


ONE_HERE = "1-here"
SEVERAL_HERE = "n-here"
ONE_HOST = "1-host"
TWO_HOSTS = "2-hosts"
ALL_HOSTS = "all-hosts"
ON_SYNTHETIC_DATA = "-synthetic"
"""The names of the rungs; one with data that the script makes up ends with the last."""

NAMES = (
    f"{ONE_HERE}{ON_SYNTHETIC_DATA}", ONE_HERE,
    f"{SEVERAL_HERE}{ON_SYNTHETIC_DATA}", SEVERAL_HERE,
    f"{ONE_HOST}{ON_SYNTHETIC_DATA}", ONE_HOST,
    TWO_HOSTS, ALL_HOSTS,
)  # fmt: skip
"""All that there can be, from the lowest up."""


@dataclass(frozen=True, slots=True)
class Rung:
    """One run: so many processes on each of so many hosts, here or on AWS, on its data or on made-up ones.

    `instance_type` is that of its hosts on AWS.
    """

    name: str
    place: Where
    hosts: int
    processes_per_host: int
    synthetic: bool = False
    instance_type: str = ""

    @property
    def ranks(self) -> int:
        """The processes of all its hosts."""
        return self.hosts * self.processes_per_host

    @property
    def in_words(self) -> str:
        """Such as `2 processes here` or `2 x ml.p4d.24xlarge, 16 processes, synthetic data`."""
        processes = f"{self.ranks} process{'' if self.ranks == 1 else 'es'}"
        data = ", synthetic data" if self.synthetic else ""
        if self.place is Where.AWS:
            return f"{self.hosts} × {self.instance_type}, {processes}{data}"
        hosts = f" as {self.hosts} hosts" if self.hosts > 1 else ""
        return f"{processes} here{hosts}{data}"


@dataclass(frozen=True, slots=True)
class MissingRung:
    """A rung that there is not, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Footing:
    """What the rungs of a job depend on besides the job file.

    `processes_per_host` is the job's. `most_here` is how many processes this machine has room for, and
    `not_here` says why the job cannot run on it, if so; `data_missing` says what of its data is not here.
    `synthetic` is whether the script can be told to make up its data.
    """

    processes_per_host: int
    most_here: int
    not_here: str | None = None
    data_missing: str | None = None
    synthetic: bool = False


@dataclass(frozen=True, slots=True)
class Rungs:
    """The rungs of a job from the lowest up, and those that it has not."""

    rungs: tuple[Rung, ...]
    left_out: tuple[MissingRung, ...]


def ladder_of(job: JobSpec, footing: Footing) -> Rungs:
    """The rungs of a job.

    Made-up data come before the first rung with the job's own, and all rungs before the first on AWS are
    free. A job with one host ends at it.
    """
    found = [*_here(job, footing), *_on_aws(job, footing)]
    return Rungs(
        tuple(each for each in found if isinstance(each, Rung)),
        tuple(each for each in found if isinstance(each, MissingRung)),
    )


def why_not_here(job: JobSpec, *, with_boot: bool) -> str | None:
    """Why a job's processes cannot be started on this machine; None where they can."""
    strategy = job.distribution.strategy
    if strategy is Strategy.SMP:
        return "the library of smp is only in SageMaker's images"
    if not with_boot:
        return f"the training toolkit of the images starts the processes of {strategy.value}, and is not here"
    return None


def _here(job: JobSpec, footing: Footing) -> Iterator[Rung | MissingRung]:
    if footing.not_here is not None:
        yield MissingRung(ONE_HERE, footing.not_here)
        yield MissingRung(SEVERAL_HERE, footing.not_here)
        return
    one = Rung(ONE_HERE, Where.HERE, 1, 1)
    several = _several_here(job, footing)
    if footing.synthetic:
        yield _on_synthetic_data(one)
    if footing.data_missing is None:
        yield one
        yield from several
        return
    yield MissingRung(ONE_HERE, footing.data_missing)
    for rung in several:
        if isinstance(rung, Rung) and footing.synthetic:
            yield _on_synthetic_data(rung)
        else:
            yield MissingRung(SEVERAL_HERE, footing.data_missing)


def _several_here(job: JobSpec, footing: Footing) -> list[Rung | MissingRung]:
    """More than one process here: as the job has them on a host, or as many hosts with one each."""
    hosts, each = job.resources.instance_count, footing.processes_per_host
    if hosts * each == 1:
        return [MissingRung(SEVERAL_HERE, "the job is a single process")]
    if footing.most_here < 2:
        return [MissingRung(SEVERAL_HERE, "there is room for a single process here")]
    if each == 1:
        return [Rung(SEVERAL_HERE, Where.HERE, 2, 1)]
    return [Rung(SEVERAL_HERE, Where.HERE, 1, min(each, footing.most_here))]


def _on_aws(job: JobSpec, footing: Footing) -> Iterator[Rung | MissingRung]:
    hosts = job.resources.instance_count
    on_hosts = {ONE_HOST: 1, TWO_HOSTS: 2, ALL_HOSTS: hosts}
    rungs = [
        Rung(name, Where.AWS, count, footing.processes_per_host, False, job.resources.instance_type)
        for name, count in on_hosts.items()
        if count <= hosts and (name != ALL_HOSTS or hosts > 2)
    ]
    if footing.synthetic and (footing.not_here or footing.data_missing):
        yield _on_synthetic_data(rungs[0])
    yield from rungs


def _on_synthetic_data(rung: Rung) -> Rung:
    return Rung(
        f"{rung.name}{ON_SYNTHETIC_DATA}",
        rung.place,
        rung.hosts,
        rung.processes_per_host,
        True,
        rung.instance_type,
    )
