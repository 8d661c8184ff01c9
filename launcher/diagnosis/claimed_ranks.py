"""Ranks that more than one process claims, as where the rank on the host was given as the rank of the job.

Of a job of two hosts the ranks of the second half never come then, and one of those that should be they
waits for itself. Texts: Lightning's `initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/8`; NCCL's init.cc,
which tells the identity of a communicator since 2.17; gloo's keys at the store, of which each rank waits for
those of all others (gloo/rendezvous/context.cc, and torch's DistStoreError).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from launcher.diagnosis.candidates import unworded
from launcher.diagnosis.record import Line
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds
from launcher.text.rank_ranges import ranks_text

LITERALS = ("member: ", " commid 0x", "//cpu//")
"""Lower-case parts of the lines that tell who claims a rank, or waits for one."""

ANNOUNCED = re.compile(r"\bGLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<size>\d{1,6})\b")
"""How Lightning tells a rank, and of how many ranks."""

_IN_COMMUNICATOR = re.compile(
    r"\bcomm 0x[\da-f]{1,16} rank (?P<rank>\d{1,6}) nranks (?P<size>\d{1,6})"
    r"(?: (?:cudaDev|nvmlDev|busId) [\da-f]{1,16}){0,3} commId (?P<id>0x[\da-f]{1,16}) - "
    r"Init (?P<at>START|COMPLETE)"
)
"""Not of communicators that were split from another one: until 2.20 those print an identity that is none.
What is complete has each rank once, whatever else is said of it."""

_WAITS_FOR = re.compile(
    r"\bwait timeout after \d{1,9} ?ms, keys: /?default_pg/\d{1,6}//cpu//\d{1,6}/(?P<rank>\d{1,6})\b"
)
"""In the group of all ranks: in another one a rank has another number."""

_MOST_CLAIMS = 100_000


@dataclass(frozen=True, slots=True)
class _World:
    """A set of ranks that each belongs to one process: those of a communicator, or of the job."""

    name: str
    size: int


@dataclass(slots=True)
class _Claims:
    """Who claimed a rank, by stream and host, how often; and the line in which the first one did."""

    by: Counter[tuple[str, str]]
    first: Sighting


class ClaimedRanks:
    """Who says which rank is his, in one pass over the lines of all streams."""

    def __init__(self) -> None:
        self._claims: dict[_World, dict[int, _Claims]] = {}
        self._complete: set[str] = set()
        self._count = 0

    def read(self, candidate: Candidate, line: Line) -> Sighting | None:
        """Take a line into account; the sign of a rank that waits for itself."""
        if waits := _WAITS_FOR.search(line.text):
            return _waits_for_itself(int(waits["rank"]), candidate, line)
        if claim := _IN_COMMUNICATOR.search(line.text):
            if claim["at"] == "START":
                self._note(_World(claim["id"], int(claim["size"])), int(claim["rank"]), candidate, line)
            elif len(self._complete) < _MOST_CLAIMS:
                self._complete.add(claim["id"])
        elif claim := ANNOUNCED.search(line.text):
            self._note(_World("", int(claim["size"])), int(claim["rank"]), candidate, line)
        return None

    def forget(self, stream: str) -> None:
        """What a stream claimed is of an earlier start, after which ranks may be others'."""
        for ranks in self._claims.values():
            for rank, claims in list(ranks.items()):
                claims.by = Counter({key: times for key, times in claims.by.items() if key[0] != stream})
                if not claims.by:
                    del ranks[rank]

    @finds(Stage.LOG, distribution.LOCAL_RANK_AS_RANK)
    def claimed_twice(self) -> Sighting | None:
        """That several hosts claim the same ranks, None where no line shows it.

        Where no line tells a host, each rank of a part of the world is claimed as often as there are parts.
        Where all ranks of a world are announced, each host may have one of its own.
        """
        for world, ranks in self._claims.items():
            if world.name in self._complete or (not world.name and len(ranks) >= world.size):
                continue
            on_hosts = {rank: {host for _, host in claims.by if host} for rank, claims in ranks.items()}
            twice = sorted(rank for rank, hosts in on_hosts.items() if len(hosts) > 1)
            if twice:
                hosts = _named(sorted(set.union(*(on_hosts[rank] for rank in twice))))
                what = f"{ranks_text(twice)} of {world.size} are each claimed by more than one host: {hosts}"
                return replace(ranks[twice[0]].first, what=what, role=LineRole.INITIATOR, vague=False)
            if times := _times_each(world, ranks):
                who = ranks_text(list(ranks))
                what = f"{who} of {world.size} are each claimed {times} times, and no other is"
                return replace(ranks[0].first, what=what)
        return None

    def _note(self, world: _World, rank: int, candidate: Candidate, line: Line) -> None:
        by = candidate.stream, line.host or candidate.host
        claims = self._claims.setdefault(world, {}).get(rank)
        if claims is not None:
            claims.by[by] += 1
        elif self._count < _MOST_CLAIMS:
            self._count += 1
            mode = distribution.LOCAL_RANK_AS_RANK
            first = unworded(mode, LineRole.SYMPTOM, "", candidate, line, vague=True)
            self._claims[world][rank] = _Claims(Counter([by]), replace(first, rank=None, host=None))


def _times_each(world: _World, ranks: Mapping[int, _Claims]) -> int | None:
    """How often each rank of the first part of a world was announced, where all the others never were."""
    times = {claims.by.total() for claims in ranks.values()}
    if world.name or len(times) != 1 or sorted(ranks) != list(range(len(ranks))):
        return None
    each = times.pop()
    return each if each > 1 and each * len(ranks) == world.size else None


@finds(Stage.LOG, distribution.LOCAL_RANK_AS_RANK)
def _waits_for_itself(rank: int, candidate: Candidate, line: Line) -> Sighting | None:
    if line.rank != rank:
        return None
    what = f"waited in vain for rank {rank}, which it is itself: it joined under another rank"
    mode = distribution.LOCAL_RANK_AS_RANK
    return unworded(mode, LineRole.INITIATOR, what, candidate, line, vague=False)


def _named(hosts: list[str], most: int = 4) -> str:
    more = f" and {len(hosts) - most} more" if len(hosts) > most else ""
    return f"{', '.join(hosts[:most])}{more}"
