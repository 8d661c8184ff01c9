"""Which ranks the others wait for, by what the flight recorders of a job knew. Pure.

In this order, the first that says something:

1. Ranks of one group called different things under one number: who differs from most of them.
2. Others wait in a collective that a rank has not entered, and it waits nowhere itself, or left no dump.
3. A collective that needs all ranks ended on one GPU, and not on another: that GPU stands still.
4. Everybody waits: who has not entered what others wait in, in most groups. Where these wait for each other,
   no rank is at fault alone.
5. Everybody has entered what does not end: it is what lies between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from launcher.diagnosis.evidence.recordings import RecordedOperation, Recording

_SAME_SIZES = frozenset(
    {"all_reduce", "allreduce", "all_reduce_coalesced", "allreduce_coalesced", "broadcast", "reduce"}
)
"""Collectives to which all ranks of a group bring tensors of one size (torch.distributed's documentation)."""


class Because(Enum):
    """What tells that it is these ranks."""

    MISMATCH = "they called something else"
    ABSENT = "they have not entered it"
    DEVICE = "it has ended on other GPUs"
    RING = "they wait for each other"
    NOBODY = "all have entered it"
    ALONE = "there is no other rank's dump"


@dataclass(frozen=True, slots=True)
class Stuck:
    """Why a job stands still: the `ranks` that the others wait for, where `waiting` wait in `operation`.

    `others` is what the ranks called instead, for a mismatch; `silent` are ranks that left no dump. `certain`
    says that each of the ranks is at fault, and not perhaps only one of them.
    """

    because: Because
    ranks: tuple[int, ...]
    operation: RecordedOperation
    members: tuple[int, ...]
    waiting: tuple[int, ...]
    others: RecordedOperation | None = None
    silent: tuple[int, ...] = ()
    certain: bool = True


def stuck(recordings: Iterable[Recording]) -> Stuck | None:
    """What is wrong, None where no rank waits for anything."""
    by_rank = {each.rank: each for each in sorted(recordings, key=lambda each: each.rank)}
    job = _StalledJob(by_rank)
    if not job.waits:
        return None
    return _mismatch(job) or _absent(job) or _device(job) or _behind(job) or _between(job)


def world_of(recordings: Iterable[Recording]) -> tuple[int, ...]:
    """The global ranks of the job: those of the largest group, and whoever left a dump."""
    known = list(recordings)
    groups = [ranks for each in known for ranks in each.groups.values()]
    return tuple(sorted({each.rank for each in known}.union(*groups)))


class _StalledJob:
    """The recordings of all ranks, with what follows from them together."""

    def __init__(self, by_rank: Mapping[int, Recording]) -> None:
        self.by_rank = by_rank
        self.world = world_of(by_rank.values())
        self.silent = tuple(rank for rank in self.world if rank not in by_rank)
        self.waits = {rank: each.waiting for rank, each in by_rank.items() if each.waiting}

    def members(self, recording: Recording, group: str) -> tuple[int, ...]:
        """The global ranks of a group: as this rank knows them, else all that called something in it."""
        name = group.removesuffix(" (p2p)")
        known = recording.groups.get(name)
        if known:
            return known
        named = {ranks for each in self.by_rank.values() if (ranks := each.groups.get(name))}
        if len(named) == 1 and recording.rank in (ranks := named.pop()):
            return ranks
        if name == _EVERYBODY:
            return self.world
        return tuple(rank for rank, each in self.by_rank.items() if group in each.last)

    def awaited(self) -> Iterator[tuple[int, RecordedOperation, tuple[int, ...], tuple[int, ...]]]:
        """Of each operation in which a rank waits: the rank, its group's members, and who is awaited."""
        for rank, operations in self.waits.items():
            for each in operations:
                members = self.members(self.by_rank[rank], each.group)
                absent: tuple[int, ...]
                if each.peer is not None:
                    peer = members[each.peer] if each.peer < len(members) else None
                    absent = () if peer is None or self._answers(peer, rank, each) else (peer,)
                else:
                    absent = tuple(one for one in members if one != rank and self._misses(one, each))
                yield rank, each, members, absent

    def _misses(self, rank: int, operation: RecordedOperation) -> bool:
        recording = self.by_rank.get(rank)
        return recording is None or recording.last.get(operation.group, 0) < operation.number

    def _answers(self, peer: int, rank: int, operation: RecordedOperation) -> bool:
        """Whether the peer of a send or receive has called its part, as far as its dump reaches."""
        recording = self.by_rank.get(peer)
        return recording is not None and any(
            each.group == operation.group and each.peer is not None and each.waits
            for each in recording.operations
        )


_EVERYBODY = "0"
"""The name of the group of all ranks: torch counts groups from the first that is made."""


def _mismatch(job: _StalledJob) -> Stuck | None:
    seen = set()
    for rank, operation, members, _ in job.awaited():
        if operation.peer is not None or (operation.group, members) in seen:
            continue
        seen.add((operation.group, members))
        found = _first_mismatch(job, operation.group, members)
        if found is None:
            continue
        odd, usual = found
        waiting = tuple(one for one in members if one in job.waits and one not in odd)
        return Stuck(
            Because.MISMATCH,
            tuple(sorted(odd)),
            next(iter(usual.values())),
            members,
            waiting or (rank,),
            next(iter(odd.values())),
            job.silent,
            certain=len(usual) > len(odd),
        )
    return None


def _first_mismatch(
    job: _StalledJob, group: str, members: Sequence[int]
) -> tuple[dict[int, RecordedOperation], dict[int, RecordedOperation]] | None:
    """The first number under which ranks called different things: who did, and what the others called."""
    called: dict[int, dict[int, list[RecordedOperation]]] = {}
    for rank in members:
        recording = job.by_rank.get(rank)
        # A group may have the name of another one that other ranks made.
        if recording is None or recording.groups.get(group, tuple(members)) != tuple(members):
            continue
        for each in recording.operations:
            if each.group == group:
                called.setdefault(each.number, {}).setdefault(rank, []).append(each)
    for number in sorted(called):
        # What was joined to one call has several entries under one number, of which some may be gone.
        single = {rank: each[0] for rank, each in called[number].items() if len(each) == 1}
        kinds: dict[str, dict[int, RecordedOperation]] = {}
        for rank, each in single.items():
            kinds.setdefault(_kind(each), {})[rank] = each
        if len(kinds) > 1:
            ordered = sorted(kinds.values(), key=_plausibility, reverse=True)
            odd = {rank: each for kind in ordered[1:] for rank, each in kind.items()}
            return odd, ordered[0]
    return None


def _kind(operation: RecordedOperation) -> str:
    if operation.name in _SAME_SIZES:
        return f"{operation.name} {operation.sizes} {operation.dtypes}"
    return operation.name


def _plausibility(called: Mapping[int, RecordedOperation]) -> tuple[int, bool, bool, int]:
    """Of two kinds the one that more ranks called is right; of equally many what trains, not what ends or
    saves, then what the lowest rank called."""
    operation = next(iter(called.values()))
    return len(called), not operation.saving, operation.name != "barrier", -min(called)


def _absent(job: _StalledJob) -> Stuck | None:
    awaited = [(rank, each, members, absent) for rank, each, members, absent in job.awaited() if absent]
    names = {rank for *_, absent in awaited for rank in absent}
    idle = {rank for rank in names if rank in job.by_rank and rank not in job.waits}
    if not idle and 2 * len(job.silent) < len(job.world):
        idle = {rank for rank in names if rank in job.silent}
    if not idle:
        return _alone(job) if len(job.by_rank) == 1 else None
    found = _of_those(job, Because.ABSENT, idle, awaited)
    # Who waits in a receive of gloo seems to wait nowhere.
    unsure = len(idle) > 1 and any(rank in idle and not each.has_all for rank, each in job.by_rank.items())
    return replace(found, certain=not unsure)


def _alone(job: _StalledJob) -> Stuck | None:
    rank, operation, members, absent = next(job.awaited())
    if not absent:
        return None
    return Stuck(Because.ALONE, (), operation, members, (rank,), None, job.silent)


def _of_those(
    job: _StalledJob,
    because: Because,
    culprits: set[int],
    awaited: Sequence[tuple[int, RecordedOperation, tuple[int, ...], tuple[int, ...]]],
) -> Stuck:
    """The collective that most ranks wait in for one of these tells most; of several the first."""
    inside: dict[tuple[str, int, tuple[int, ...]], set[int]] = {}
    first: dict[tuple[str, int, tuple[int, ...]], RecordedOperation] = {}
    for rank, each, members, absent in awaited:
        if culprits & set(absent):
            key = (each.group, each.number, members)
            inside.setdefault(key, set()).add(rank)
            first.setdefault(key, each)
    key = max(inside, key=lambda key: (len(inside[key]), first[key].peer is None, -key[1]))
    waiting = tuple(sorted(inside[key]))
    silent = tuple(rank for rank in job.silent if rank not in culprits)
    return Stuck(because, tuple(sorted(culprits)), first[key], key[2], waiting, None, silent)


def _device(job: _StalledJob) -> Stuck | None:
    stopped: dict[int, RecordedOperation] = {}
    ahead: dict[int, set[int]] = {}
    groups: dict[int, tuple[int, ...]] = {}
    for rank, operation, members, _ in job.awaited():
        if not operation.needs_all:
            continue
        done = {
            one
            for one in members
            if one in job.by_rank and job.by_rank[one].ended.get(operation.group, 0) >= operation.number
        }
        if done:
            stopped.setdefault(rank, operation)
            ahead.setdefault(rank, set()).update(done)
            groups.setdefault(rank, members)
    culprits = set(stopped) - {rank for ranks in ahead.values() for rank in ranks}
    if not culprits:
        return None
    least = min(culprits, key=lambda rank: (-len(ahead[rank]), rank))
    waiting = tuple(sorted(ahead[least] & set(job.waits)))
    return Stuck(
        Because.DEVICE, tuple(sorted(culprits)), stopped[least], groups[least], waiting, None, job.silent
    )


def _behind(job: _StalledJob) -> Stuck | None:
    awaited = [(rank, each, members, absent) for rank, each, members, absent in job.awaited() if absent]
    votes: Counter[int] = Counter()
    for _, absent in {(each.group, absent) for _, each, _, absent in awaited}:
        votes.update({rank: 1 for rank in absent if rank in job.by_rank})
    if not votes:
        return None
    most = max(votes.values())
    culprits = {rank for rank, count in votes.items() if count == most}
    others = {rank for rank, _, _, absent in awaited if culprits & set(absent)}
    behind_others = {
        rank for one in culprits for waiter, _, _, absent in awaited if waiter == one for rank in absent
    }
    ring = bool(behind_others & others) or len(culprits) == len(job.by_rank)
    found = _of_those(job, Because.RING if ring else Because.ABSENT, culprits, awaited)
    return replace(found, certain=not ring and len(culprits) == 1)


def _between(job: _StalledJob) -> Stuck | None:
    if job.silent:
        return None
    rank, operation, members, _ = max(
        job.awaited(), key=lambda each: (each[1].peer is None, len(each[2]), -each[1].number, -each[0])
    )
    waiting = tuple(one for one in members if one in job.waits)
    return Stuck(Because.NOBODY, (), operation, members, waiting or (rank,), None, ())
