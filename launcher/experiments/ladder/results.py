"""What came of the rungs of a ladder, and what the first that broke says of the cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from launcher.experiments.ladder.rungs import Rung, Where
from launcher.failure_modes.model import Finding


class Result(StrEnum):
    """What came of a rung."""

    HELD = "held"
    BROKE = "broke"
    UNDECIDED = "undecided"
    """It showed no steps, or stood still, or was stopped by somebody else."""
    REFUSED = "refused"
    """The look into the account found what would break it, before it cost anything."""
    DECLINED = "declined"
    """It was not started: the answer was no, or there was nobody to ask."""
    SKIPPED = "skipped"
    """Its plan has errors that the whole job's has not."""
    INTERRUPTED = "interrupted"

    @property
    def ends(self) -> bool:
        """Whether no rung comes after it."""
        return self not in (Result.HELD, Result.SKIPPED)


@dataclass(frozen=True, slots=True)
class Climbed:
    """A rung and what came of it.

    `said` is that in a phrase, `step` the furthest step that the run has printed, `seconds` its time in all
    and `usd` what its hosts cost at most, each None where it is not known. `finding` is what broke it, first
    on the global rank `rank` and on `host`, as far as the evidence shows it.
    """

    rung: Rung
    result: Result
    said: str
    step: float | None = None
    seconds: float | None = None
    usd: float | None = None
    job_name: str | None = None
    finding: Finding | None = None
    rank: int | None = None
    host: str | None = None


def verdict(climbed: Sequence[Climbed]) -> str:
    """What the rungs together say: how far the job holds, or where its fault is to be looked for."""
    held = [each.rung for each in climbed if each.result is Result.HELD]
    last = climbed[-1] if climbed else None
    if last is None or last.result not in (Result.BROKE, Result.UNDECIDED):
        tried = any(each.result not in (Result.DECLINED, Result.SKIPPED) for each in climbed)
        nothing = "No rung has held." if tried else "No rung was tried."
        far = f"It holds up to {held[-1].name}: {held[-1].in_words}." if held else nothing
        if last is None or last.result is not Result.REFUSED:
            return far
        return f"{far} What is in the account would break {last.rung.name}: {last.said}."
    below, rung = (held[-1] if held else None), last.rung
    found = "broke with" if last.result is Result.BROKE else "showed no progress with"
    if below is None:
        start = f"It {found} {rung.in_words}, the first rung that was tried"
    else:
        start = f"It held with {below.in_words}, and {found} {rung.in_words}"
    return f"{start}: {_pointed_at(below, rung)}."


def _pointed_at(held: Rung | None, broke: Rung) -> str:
    not_it = [f"not {each}" for each in _ruled_out(held, broke)]
    suspects = list(_suspects(held, broke))
    if not suspects:
        return "the two differ in nothing, so that it may be a failure that comes and goes"
    looked_at = "; or ".join(suspects)
    return f"{', '.join(not_it)}, but {looked_at}" if not_it else looked_at


def _ruled_out(held: Rung | None, broke: Rung) -> Iterator[str]:
    """What the rung that broke does without, or what held as well."""
    if held is not None:
        yield "the script by itself"
    if broke.hosts == 1 or broke.place is Where.HERE:
        yield "the network between hosts"
    if broke.synthetic or (held is not None and not held.synthetic and held.place is broke.place):
        yield "the data"
    if broke.ranks == 1 and held is None:
        yield "anything between ranks"


def _suspects(held: Rung | None, broke: Rung) -> Iterator[str]:
    """What the rung that broke has and the one that held has not: where the cause is to be looked for."""
    if held is None:
        yield "the script, its packages or its settings"
    if broke.place is Where.AWS and (held is None or held.place is Where.HERE):
        yield (
            f"what {broke.instance_type} has and this machine has not: the image and its packages, the "
            "devices, the role, the channels from S3"
        )
    if not broke.synthetic and (held is None or held.synthetic):
        yield "the data, or the code that reads them"
    before = held.ranks if held is not None else 1
    if before == 1 and broke.ranks > 1:
        yield (
            "something between ranks: a collective that not all of them reach, or a port, a file or a device "
            "that two of them take"
        )
    elif held is not None and held.hosts == broke.hosts and before != broke.ranks:
        yield f"{broke.ranks} ranks on a host instead of {before}"
    hosts = held.hosts if held is not None and held.place is Where.AWS else 1
    if broke.place is Where.AWS and hosts == 1 and broke.hosts > 1:
        yield (
            "the network between hosts (security group, EFA, name of the interface), or code that takes "
            "LOCAL_RANK for RANK or one host's files for everybody's"
        )
    elif broke.place is Where.AWS and broke.hosts > hosts:
        yield (
            f"what grows from {hosts} to {broke.hosts} hosts: memory for each rank, time-outs, connections, "
            "the share of data that a rank gets, or one bad host among them"
        )
