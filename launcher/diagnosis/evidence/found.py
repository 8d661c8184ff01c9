"""Several files of a job put together: one table of ranks, and what their dumps say beside each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.evidence.recordings import RecordedOperation, Recording
from launcher.diagnosis.evidence.stacks import RankStack, elsewhere
from launcher.diagnosis.evidence.stuck import Because, Stuck, stuck, world_of
from launcher.diagnosis.ranks import CollectiveCall, RankState, table_of
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import checkpoints, nccl
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import finds
from launcher.text.rank_ranges import ranks_text

NO_DUMP = "left no flight recorder dump"
_DESCRIBED = 3


def together(parts: Iterable[FileEvidence]) -> FileEvidence:
    """What all files of a job say, judged beside each other where single ones say little."""
    every = list(parts)
    recordings = _newest(each for part in every for each in part.recordings)
    stacks = [each for part in every for each in part.stacks]
    rows = [row for part in every for row in part.rows]
    sightings = [sighting for part in every for sighting in part.sightings]
    world = [part.world_size for part in every if part.world_size is not None]
    rows += [RankState(each.rank, each.host, frame=str(each.users)) for each in stacks if each.users]
    found = stuck(recordings)
    if recordings:
        ranks = world_of(recordings)
        world.append(max(ranks) + 1)
        rows += _rows(recordings, ranks)
    if found is not None:
        sightings.append(_of_recorders(found, recordings))
    sightings += _of_stacks(stacks)
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
            state=f"waits in {_text(waiting[0])}" if waiting else "waits in no collective",
            frame=str(newest.frame) if newest is not None and newest.frame and newest.waits else None,
        )


def _collective(operation: RecordedOperation) -> CollectiveCall:
    return CollectiveCall(operation.name, operation.number, operation.group, operation.elements)


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK)
def _of_recorders(found: Stuck, recordings: Sequence[Recording]) -> Sighting:
    """What the flight recorders say of a stall, as a sign; a rank is named where they are sure of it."""
    mode = nccl.COLLECTIVE_TIMED_OUT
    called = found.others
    if called is not None and called.saving and not found.operation.saving:
        mode = checkpoints.STATE_DICT_NOT_ON_EVERY_RANK
    certain = found.certain and found.ranks
    first = found.ranks[0] if certain else None
    host = next((each.host for each in recordings if each.rank == first), None)
    told = _words(found, None) if found.ranks else _words(found, first)
    return _sighting(
        mode,
        _words(found, first),
        f"flight recorder: {told}",
        rank=first,
        host=host,
        vague=found.because in (Because.NOBODY, Because.ALONE),
    )


def _words(found: Stuck, first: int | None) -> str:
    where = _text(found.operation, found.members)
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
        case Because.MISMATCH if found.others is not None:
            return f"{subject}called {_text(found.others)}, where {waits} in {where}{silent}"
        case Because.DEVICE:
            seen = f", while {waits} for what comes after" if waits else ""
            return (
                f"{subject}{has} not ended {where} on the GPU, which has ended on other ranks: this GPU "
                f"stands still{seen}{silent}"
            )
        case Because.RING:
            ring = "they wait for those that wait for them"
            return f"{subject}{has} not entered {where}, in which {waits}; {ring}"
        case Because.NOBODY:
            return (
                f"{waits} in {where}, which all have entered and which does not end: the network or a device"
            )
        case Because.ALONE:
            return f"{waits} in {where}; whom for is in the dumps of the other ranks, which are not here"
    return f"{subject}{has} not entered {where}, in which {waits}{silent}"


def _text(operation: RecordedOperation, members: Sequence[int] = ()) -> str:
    """`all_reduce #36 [4160] of the group of ranks 0, 1 (train.py:16 in step)`."""
    sizes = f" {operation.sizes}" if operation.sizes else ""
    group = ""
    if operation.group != "0":
        group = f" of the group of {ranks_text(members)}" if members else f" of group {operation.group}"
    place = f" ({operation.frame})" if operation.frame else ""
    return f"{operation.name} #{operation.number}{sizes}{group}{place}"


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT)
def _of_stacks(stacks: Sequence[RankStack]) -> Iterator[Sighting]:
    """Who stands elsewhere than the ranks that wait."""
    found = elsewhere(stacks)
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
        nccl.COLLECTIVE_TIMED_OUT,
        text,
        f"stacks: {text}",
        rank=first.rank if alone else None,
        host=first.host if alone else None,
        vague=True,
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
