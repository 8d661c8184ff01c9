"""What a file of evidence is by its first bytes, and what all files of a job say beside each other.

`evidence_of` recognises and reads one file, `combine_evidence` puts what several say into one table of
ranks and asks which ranks the others wait for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import Enum

from launcher.cluster.names import host_in
from launcher.diagnosis.evidence.dumps import (
    LARGEST,
    FileEvidence,
    RecordedOperation,
    Recording,
    find_elsewhere,
    is_analysis,
    is_ras_report,
    is_recording,
    read_analysis,
    read_ras_report,
    read_recording,
)
from launcher.diagnosis.evidence.host_records import (
    is_clock_samples,
    is_kernel_log,
    is_nvidia_smi,
    read_clock_samples,
    read_kernel_log,
    read_nvidia_smi,
)
from launcher.diagnosis.logs.tracebacks import RankStack, is_stack_dump, read_stacks
from launcher.diagnosis.model import CollectiveCall, RankState, table_of
from launcher.diagnosis.signatures import LineRole
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting
from launcher.failure_modes import checkpoints, nccl
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.text.values import ranks_text

HEAD = 4096
"""So many bytes of a file tell what it is."""

_RANK = re.compile(r"(?:rank|dump|trace|stack|stacks)[_.-]?(?P<rank>\d{1,7})(?!\d)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(?P<rank>\d{1,7})(?:\.[A-Za-z]{1,12})?$")

Read = Callable[[int], bytes]
"""Gives the content of a file, of which no more is read than so many bytes and one."""


def evidence_of(name: str, head: bytes, read: Read) -> FileEvidence | None:
    """What a file says that is evidence by itself; None for any other, such as a log.

    `name` is its path as it was found, which tells rank and host; `head` are its first HEAD bytes; `read`
    gives its content. A dump that cannot be read is named in `unread`.
    """
    if is_recording(head):
        return _recorded(name, read)
    if is_ras_report(head):
        return read_ras_report(read(LARGEST).decode("utf-8", "replace"))
    if is_nvidia_smi(head):
        return read_nvidia_smi(read(LARGEST).decode("utf-8", "replace"), host_in(name))
    if is_clock_samples(head):
        return read_clock_samples(read(LARGEST).decode("utf-8", "replace"), host_in(name))
    if is_analysis(head):
        return read_analysis(read(LARGEST).decode("utf-8", "replace"))
    if is_kernel_log(head):
        return read_kernel_log(read(LARGEST).decode("utf-8", "replace"), host_in(name))
    if is_stack_dump(head):
        text = read(LARGEST).decode("utf-8", "replace")
        stacks = read_stacks(text, rank_in(name), host_in(name))
        return FileEvidence(stacks=stacks, has_lines=True) if stacks else None
    return None


def _recorded(name: str, read: Read) -> FileEvidence:
    rank = rank_in(name)
    if rank is None:
        why = "its name says no rank, as rank_3 does"
        return FileEvidence(unread=(f"{name}: a flight recorder's dump, but {why}",))
    try:
        return FileEvidence(recordings=(read_recording(read(LARGEST), rank, host_in(name)),))
    except ValueError as error:
        return FileEvidence(unread=(f"{name}: {error}",))


def rank_in(name: str) -> int | None:
    """The rank whose file it is: behind a word such as `rank` or `dump`, else the number at its end."""
    file = name.replace("\\", "/").rpartition("/")[2]
    found = _RANK.search(file) or _LAST_NUMBER.search(file)
    return int(found["rank"]) if found else None


NO_DUMP = "left no flight recorder dump"
_DESCRIBED = 3


def combine_evidence(parts: Iterable[FileEvidence]) -> FileEvidence:
    """What all files of a job say, judged beside each other where single ones say little."""
    every = list(parts)
    recordings = _newest(each for part in every for each in part.recordings)
    stacks = [each for part in every for each in part.stacks]
    rows = [row for part in every for row in part.rows]
    sightings = [sighting for part in every for sighting in part.sightings]
    world = [part.world_size for part in every if part.world_size is not None]
    rows += [RankState(each.rank, each.host, frame=str(each.users)) for each in stacks if each.users]
    found = find_stuck(recordings)
    if recordings:
        ranks = ranks_of_job(recordings)
        world.append(max(ranks) + 1)
        rows += _rows(recordings, ranks)
    if found is not None:
        sightings.append(_sign_of_recorders(found, recordings))
    sightings += _sign_of_stacks(stacks)
    return FileEvidence(
        table_of(rows),
        tuple(sightings),
        max(world, default=None),
        tuple(recordings),
        tuple(stacks),
        tuple(sign for part in every for sign in part.of_hosts),
        tuple(text for part in every for text in part.unread),
    )


def _newest(recordings: Iterable[Recording]) -> list[Recording]:
    """One of each rank: of several attempts or copies the one that got furthest."""
    best: dict[int, Recording] = {}
    for each in recordings:
        known = best.get(each.rank)
        if known is None or sum(each.last.values()) >= sum(known.last.values()):
            best[each.rank] = each
    return [best[rank] for rank in sorted(best)]


def _rows(recordings: Sequence[Recording], ranks: Sequence[int]) -> Iterator[RankState]:
    present = {each.rank for each in recordings}
    # Of a job whose dumps are mostly elsewhere nothing is said of those ranks.
    if 2 * len(present) > len(ranks):
        yield from (RankState(rank, state=NO_DUMP) for rank in ranks if rank not in present)
    for each in recordings:
        waiting = each.waiting
        newest = each.operations[-1] if each.operations else None
        ended = next((one for one in reversed(each.operations) if not one.waits), None)
        yield RankState(
            each.rank,
            each.host,
            enqueued=None if newest is None else _collective(newest),
            completed=None if ended is None else _collective(ended),
            state=f"waits in {_operation_in_words(waiting[0])}" if waiting else "waits in no collective",
            frame=str(newest.frame) if newest is not None and newest.frame and newest.waits else None,
        )


def _collective(operation: RecordedOperation) -> CollectiveCall:
    return CollectiveCall(operation.name, operation.number, operation.group, operation.elements)


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK)
def _sign_of_recorders(found: Stuck, recordings: Sequence[Recording]) -> Sighting:
    """What the flight recorders say of a stall, as a sign; a rank is named where they are sure of it."""
    mode = nccl.COLLECTIVE_TIMED_OUT
    called = found.others
    if called is not None and called.saving and not found.operation.saving:
        mode = checkpoints.STATE_DICT_NOT_ON_EVERY_RANK
    certain = found.certain and found.ranks
    first = found.ranks[0] if certain else None
    host = next((each.host for each in recordings if each.rank == first), None)
    told = _stuck_in_words(found, None) if found.ranks else _stuck_in_words(found, first)
    return _sighting(
        mode,
        _stuck_in_words(found, first),
        f"flight recorder: {told}",
        rank=first,
        host=host,
        vague=found.because in (StallEvidence.NOBODY, StallEvidence.ALONE),
    )


def _stuck_in_words(found: Stuck, first: int | None) -> str:
    where = _operation_in_words(found.operation, found.members)
    verb = "waits" if len(found.waiting) == 1 else "wait"
    waits = f"{ranks_text(found.waiting)} {verb}" if found.waiting else ""
    alike = tuple(rank for rank in found.ranks if rank != first)
    if first is None:
        subject = f"{ranks_text(found.ranks)} " if found.ranks else ""
    else:
        subject = f"it, like {ranks_text(alike)}, " if alike else ""
    several = first is None and len(found.ranks) > 1
    has = "have" if several else "has"
    silent = f"; {ranks_text(found.silent)} {NO_DUMP}" if found.silent else ""
    match found.because:
        case StallEvidence.MISMATCH if found.others is not None:
            return f"{subject}called {_operation_in_words(found.others)}, where {waits} in {where}{silent}"
        case StallEvidence.DEVICE:
            seen = f", while {waits} for what comes after" if waits else ""
            return (
                f"{subject}{has} not ended {where} on the GPU, which has ended on other ranks: this GPU "
                f"stands still{seen}{silent}"
            )
        case StallEvidence.RING:
            ring = "they wait for those that wait for them"
            return f"{subject}{has} not entered {where}, in which {waits}; {ring}"
        case StallEvidence.NOBODY:
            return (
                f"{waits} in {where}, which all have entered and which does not end: the network or a device"
            )
        case StallEvidence.ALONE:
            return f"{waits} in {where}; whom for is in the dumps of the other ranks, which are not here"
    return f"{subject}{has} not entered {where}, in which {waits}{silent}"


def _operation_in_words(operation: RecordedOperation, members: Sequence[int] = ()) -> str:
    """`all_reduce #36 [4160] of the group of ranks 0, 1 (train.py:16 in step)`."""
    sizes = f" {operation.sizes}" if operation.sizes else ""
    group = ""
    if operation.group != "0":
        group = f" of the group of {ranks_text(members)}" if members else f" of group {operation.group}"
    place = f" ({operation.frame})" if operation.frame else ""
    return f"{operation.name} #{operation.number}{sizes}{group}{place}"


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK)
def _sign_of_stacks(stacks: Sequence[RankStack]) -> Iterator[Sighting]:
    """Who stands elsewhere than the ranks that wait."""
    found = find_elsewhere(stacks)
    if found is None:
        return
    first = found.odd[0]
    alone = len(found.odd) == 1
    where = "; ".join(
        f"rank {each.rank} is {_place(each)}" if not alone else f"it is {_place(each)}"
        for each in found.odd[:_DESCRIBED]
    )
    usual = ranks_text([each.rank for each in found.usual])
    verb = "waits" if len(found.usual) == 1 else "wait"
    subject = "" if alone else f"{ranks_text([each.rank for each in found.odd])} "
    does = "does" if alone else "do"
    text = f"{subject}{does} not stand where {usual} {verb} ({_place(found.usual[0])}): {where}"
    yield _sighting(
        checkpoints.STATE_DICT_NOT_ON_EVERY_RANK if found.saving else nccl.COLLECTIVE_TIMED_OUT,
        text,
        f"stacks: {text}",
        rank=first.rank if alone else None,
        host=first.host if alone else None,
        vague=not found.saving,
        place=f"{first.users.file}:{first.users.line}" if alone and first.users else None,
    )


def _place(stack: RankStack) -> str:
    return f"at {stack.users}" if stack.users else "outside of the user's code"


def _sighting(
    mode: FailureMode,
    what: str,
    text: str,
    *,
    rank: int | None,
    host: str | None,
    vague: bool,
    place: str | None = None,
) -> Sighting:
    return Sighting(
        mode=mode,
        role=LineRole.SYMPTOM,
        vague=vague,
        what=what,
        rank=rank,
        host=host,
        index=BEFORE_ALL_LINES,
        clock=None,
        time=None,
        text=text,
        place=place,
    )


# Which ranks the others wait for, by what the flight recorders of a job knew. Pure.
#
# In this order, the first that says something:
#
# 1. Ranks of one group called different things under one number: who differs from most of them.
# 2. Others wait in a collective that a rank has not entered, and it waits nowhere itself, or left no dump.
# 3. A collective that needs all ranks ended on one GPU, and not on another: that GPU stands still.
# 4. Everybody waits: who has not entered what others wait in, in most groups. Where these wait for each
# other, no rank is at fault alone.
# 5. Everybody has entered what does not end: it is what lies between them.


_SAME_SIZES = frozenset(
    {"all_reduce", "allreduce", "all_reduce_coalesced", "allreduce_coalesced", "broadcast", "reduce"}
)
"""Collectives to which all ranks of a group bring tensors of one size (torch.distributed's documentation)."""


class StallEvidence(Enum):
    """By which observation the ranks that a job waits for were found."""

    MISMATCH = "they called something else"
    ABSENT = "they have not entered it"
    DEVICE = "it has ended on other GPUs"
    RING = "they wait for each other"
    NOBODY = "all have entered it"
    ALONE = "there is no other rank's dump"


@frozen
class Stuck:
    """Why a job stands still: the `ranks` that the others wait for, where `waiting` wait in `operation`.

    `others` is what the ranks called instead, for a mismatch; `silent` are ranks that left no dump. `certain`
    says that each of the ranks is at fault, and not perhaps only one of them.
    """

    because: StallEvidence
    ranks: tuple[int, ...]
    operation: RecordedOperation
    members: tuple[int, ...]
    waiting: tuple[int, ...]
    others: RecordedOperation | None = None
    silent: tuple[int, ...] = ()
    certain: bool = True


def find_stuck(recordings: Iterable[Recording]) -> Stuck | None:
    """What is wrong, None where no rank waits for anything."""
    by_rank = {each.rank: each for each in sorted(recordings, key=lambda each: each.rank)}
    job = _StalledJob(by_rank)
    if not job.waits:
        return None
    return (
        _stuck_in_mismatch(job)
        or _stuck_absent(job)
        or _stuck_on_device(job)
        or _stuck_behind(job)
        or _stuck_in_send(job)
    )


def ranks_of_job(recordings: Iterable[Recording]) -> tuple[int, ...]:
    """The global ranks of the job: those of the largest group, and whoever left a dump."""
    known = list(recordings)
    groups = [ranks for each in known for ranks in each.groups.values()]
    return tuple(sorted({each.rank for each in known}.union(*groups)))


class _StalledJob:
    """The recordings of all ranks, with what follows from them together."""

    def __init__(self, by_rank: Mapping[int, Recording]) -> None:
        self.by_rank = by_rank
        self.world = ranks_of_job(by_rank.values())
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

    def list_awaited(self) -> Iterator[tuple[int, RecordedOperation, tuple[int, ...], tuple[int, ...]]]:
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


def _stuck_in_mismatch(job: _StalledJob) -> Stuck | None:
    seen = set()
    for rank, operation, members, _ in job.list_awaited():
        if operation.peer is not None or (operation.group, members) in seen:
            continue
        seen.add((operation.group, members))
        found = _first_mismatch(job, operation.group, members)
        if found is None:
            continue
        odd, usual = found
        waiting = tuple(one for one in members if one in job.waits and one not in odd)
        return Stuck(
            StallEvidence.MISMATCH,
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
            kinds.setdefault(_kind_of_operation(each), {})[rank] = each
        if len(kinds) > 1:
            ordered = sorted(kinds.values(), key=_plausibility, reverse=True)
            odd = {rank: each for kind in ordered[1:] for rank, each in kind.items()}
            return odd, ordered[0]
    return None


def _kind_of_operation(operation: RecordedOperation) -> str:
    if operation.name in _SAME_SIZES:
        return f"{operation.name} {operation.sizes} {operation.dtypes}"
    return operation.name


def _plausibility(called: Mapping[int, RecordedOperation]) -> tuple[int, bool, bool, int]:
    """Of two kinds the one that more ranks called is right; of equally many what trains, not what ends or
    saves, then what the lowest rank called."""
    operation = next(iter(called.values()))
    return len(called), not operation.saving, operation.name != "barrier", -min(called)


def _stuck_absent(job: _StalledJob) -> Stuck | None:
    awaited = [(rank, each, members, absent) for rank, each, members, absent in job.list_awaited() if absent]
    names = {rank for *_, absent in awaited for rank in absent}
    idle = {rank for rank in names if rank in job.by_rank and rank not in job.waits}
    if not idle and 2 * len(job.silent) < len(job.world):
        idle = {rank for rank in names if rank in job.silent}
    if not idle:
        return _stuck_alone(job) if len(job.by_rank) == 1 else None
    found = _most_awaited(job, StallEvidence.ABSENT, idle, awaited)
    # Who waits in a receive of gloo seems to wait nowhere.
    unsure = len(idle) > 1 and any(rank in idle and not each.has_all for rank, each in job.by_rank.items())
    return replace(found, certain=not unsure)


def _stuck_alone(job: _StalledJob) -> Stuck | None:
    rank, operation, members, absent = next(job.list_awaited())
    if not absent:
        return None
    return Stuck(StallEvidence.ALONE, (), operation, members, (rank,), None, job.silent)


def _most_awaited(
    job: _StalledJob,
    because: StallEvidence,
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


def _stuck_on_device(job: _StalledJob) -> Stuck | None:
    stopped: dict[int, RecordedOperation] = {}
    ahead: dict[int, set[int]] = {}
    groups: dict[int, tuple[int, ...]] = {}
    for rank, operation, members, _ in job.list_awaited():
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
        StallEvidence.DEVICE,
        tuple(sorted(culprits)),
        stopped[least],
        groups[least],
        waiting,
        None,
        job.silent,
    )


def _stuck_behind(job: _StalledJob) -> Stuck | None:
    awaited = [(rank, each, members, absent) for rank, each, members, absent in job.list_awaited() if absent]
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
    found = _most_awaited(job, StallEvidence.RING if ring else StallEvidence.ABSENT, culprits, awaited)
    return replace(found, certain=not ring and len(culprits) == 1)


def _stuck_in_send(job: _StalledJob) -> Stuck | None:
    if job.silent:
        return None
    rank, operation, members, _ = max(
        job.list_awaited(), key=lambda each: (each[1].peer is None, len(each[2]), -each[1].number, -each[0])
    )
    waiting = tuple(one for one in members if one in job.waits)
    return Stuck(StallEvidence.NOBODY, (), operation, members, waiting or (rank,), None, ())
