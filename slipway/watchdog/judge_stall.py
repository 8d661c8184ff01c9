"""Whether a job stalls, and who stalls it: judged by what all hosts saw of their ranks. Reads nothing.

A job stalls where no rank makes a step for too long, by the ranks' heartbeats. Who stalls it is judged by
what was equal in two snapshots of all ranks. First what ranks of one group called under the same number:
where that differs, who differs from the others. Then who has not entered a collective in which others wait,
and waits nowhere itself: whoever waits too is only a link of the chain. Without a recorder, who stands
elsewhere than those that wait.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.ranks.attendant import ENDED, FAILED, STARTED, Beat
from slipway.watchdog.place_in_code import (
    all_come_to,
    is_saving_by_text,
    loop_left,
    outermost_loop,
    same_round,
)
from slipway.watchdog.rank_views import GONE, STOPPED, Operation, RankView, UserLine

STALLED, LEFT_THE_LOOP, SAVED_ALONE, SAVED_LONG = "NCCL004", "DATA001", "CKPT003", "DDP005"
NOT_ENDED = "DDP006"
"""The codes of the causes that can be told apart."""


@dataclass(frozen=True)
class StallVerdict:
    """Which `ranks` the others wait for, and why: `text` begins with the code.

    `certain` says that they cannot come by themselves, so that waiting is of no use. `timeout` is for how
    many seconds their process group would let the others wait, None where that is not known; `lines` are
    where the first of them is.
    """

    code: str
    ranks: tuple[int, ...]
    text: str
    certain: bool
    timeout: float | None = None
    lines: tuple[UserLine, ...] = ()

    @property
    def report(self) -> str:
        """For the failure file: what is said, and where the first of the ranks is, line by line."""
        where = [f'  File "{line.file}", line {line.number}, in {line.function}' for line in self.lines]
        return "\n".join([self.text, *where])

    @property
    def same_as(self) -> tuple[str, tuple[int, ...], bool]:
        """What two verdicts have in common that say the same of the job."""
        return self.code, self.ranks, self.certain


@dataclass(frozen=True)
class WaitedCollective:
    """A collective in which `inside` wait, and who of its group has not entered it."""

    operation: Operation
    inside: tuple[RankView, ...]
    absent: tuple[int, ...]


def judge_stall(
    views: Sequence[RankView], text_of: Callable[[str], str | None] = lambda _: None
) -> StallVerdict | None:
    """The verdict over all ranks of the job; None where no rank waits for another one.

    `text_of` gives the text of a file of the user's code by its name, None where it cannot be read.
    """
    ranks = {view.rank: view for view in views}
    mismatch = first_mismatch(views)
    if mismatch is not None:
        return _verdict_of_mismatch(mismatch, text_of)
    awaited = waited_collectives(ranks)
    if awaited:
        return _verdict_of_absent(awaited, ranks, text_of)
    if any(view.recorded and view.waiting for view in views):
        return _verdict_of_nobody(views)
    return _verdict_by_stacks(views) or _verdict_of_last(views)


def _verdict_of_mismatch(found: Mismatch, text_of: Callable[[str], str | None]) -> StallVerdict:
    """Another collective than the others', under the same number."""
    odd, usual = found.odd, found.usual
    code, because = STALLED, ""
    left = _left_for_good(usual[0], odd[0], text_of)
    if left is None and (inside := _left_for_good(odd[0], usual[0], text_of)) is not None:
        # The few are those that go on: the others had fewer steps.
        left, odd, usual = inside, usual, odd
    (_, called), (_, expected) = odd[0], usual[0]
    views, others = [view for view, _ in odd], [view for view, _ in usual]
    if left is not None:
        code = LEFT_THE_LOOP
        who = "it has" if len(views) == 1 else "they have"
        steps = _steps_text(views, others)
        because = f": {who} left the loop at {left}, in which the others still are{steps}"
    elif _saves_beside(called, expected):
        code = SAVED_ALONE
        because = f": saving needs {ranks_text(_numbers(others))} as well"
    elif _saves_beside(expected, called):
        code = SAVED_ALONE
        because = ": the others save, which needs all of them"
    elif same_round(others[0], views[0], text_of) is False:
        because = ": the others have gone on without it to another round of the loop around both"
    members = views[0].groups.get(called.group, ())
    text = (
        f"{code} {with_hosts(views)} called {operation_text(called, members)}, where "
        f"{ranks_text(_numbers(others))} called {operation_text(expected, members)}{because}"
    )
    return StallVerdict(code, _numbers(views), text, True, expected.timeout, called.lines)


def _saves_beside(one: Operation, other: Operation) -> bool:
    """Whether one is part of a save and the other is not; or, within a function that saves, gathers state."""
    return (one.saving and not other.saving) or (one.gathers and not other.gathers)


def _left_for_good(
    inside: tuple[RankView, Operation],
    elsewhere: tuple[RankView, Operation],
    text_of: Callable[[str], str | None],
) -> UserLine | None:
    """The loop that one rank has left and the other is still in, in the same round of all loops around it;
    of a save, which one rank may do alone in each round, only where the rounds are known."""
    (view, operation), (other, called) = inside, elsewhere
    left = loop_left(operation.lines, called.lines, text_of)
    if left is None:
        return None
    together = same_round(view, other, text_of, operation.lines, called.lines)
    return left if together or (together is None and not called.saving) else None


def _steps_text(fewer: Sequence[RankView], others: Sequence[RankView]) -> str:
    """How many steps each made; empty where nobody counts them."""
    if not any(view.steps for view in fewer):
        return ""
    begun = "has" if len(others) == 1 else "have"
    return f"; steps made: {_steps_of(fewer)}; {_steps_of(others)}, which {begun} begun another"


def _steps_of(views: Sequence[RankView]) -> str:
    by_steps: dict[int, list[int]] = {}
    for view in views:
        by_steps.setdefault(view.steps, []).append(view.rank)
    return ", ".join(f"{ranks_text(ranks)} {steps}" for steps, ranks in sorted(by_steps.items()))


def waited_collectives(ranks: Mapping[int, RankView]) -> list[WaitedCollective]:
    """All collectives in which ranks wait for some that have not entered them."""
    waiting: dict[tuple[str, tuple[int, ...], int], list[tuple[RankView, Operation]]] = {}
    for view in ranks.values():
        for each in view.waiting:
            members = _members(view, each, ranks)
            waiting.setdefault((each.group, members, each.number), []).append((view, each))
    found = []
    for (group, members, number), inside in waiting.items():
        operation = inside[0][1]
        if operation.peer is not None:
            peers = [_peer(view, each) for view, each in inside]
            absent = [rank for rank in peers if rank is not None]
        else:
            absent = [rank for rank in members if _is_absent(ranks.get(rank), group, number)]
        if absent:
            found.append(
                WaitedCollective(operation, tuple(view for view, _ in inside), tuple(sorted(set(absent))))
            )
    return found


def _members(view: RankView, operation: Operation, ranks: Mapping[int, RankView]) -> tuple[int, ...]:
    """The global ranks of a collective's group: as the rank knows them, else all that ever called it."""
    group = operation.group.replace(" (p2p)", "")
    known = view.groups.get(group)
    if known:
        return known
    return tuple(sorted(rank for rank, each in ranks.items() if group in each.last))


def _peer(view: RankView, operation: Operation) -> int | None:
    members = view.groups.get(operation.group.replace(" (p2p)", ""))
    if operation.peer is None or members is None or operation.peer >= len(members):
        return operation.peer
    return members[operation.peer]


def _is_absent(view: RankView | None, group: str, number: int) -> bool:
    """Whether a rank has not entered a collective; who has no recorder has not entered any that is known."""
    return view is not None and view.last.get(group, 0) < number


def _verdict_of_absent(
    awaited: Sequence[WaitedCollective], ranks: Mapping[int, RankView], text_of: Callable[[str], str | None]
) -> StallVerdict:
    waits = {view.rank for each in awaited for view in each.inside}
    idle = {rank for each in awaited for rank in each.absent if rank not in waits}
    # Who is awaited but waits for somebody else is no culprit, unless all of them only wait for each other.
    culprits = idle or {rank for each in awaited for rank in each.absent}
    # The collective that most ranks wait in tells most; of several the first.
    first = max(
        (each for each in awaited if culprits & set(each.absent)),
        key=lambda each: (len(each.inside), -each.operation.number),
    )
    absent = [ranks[rank] for rank in first.absent if rank in culprits and rank in ranks]
    operation = first.operation
    members = _members(first.inside[0], operation, ranks)
    in_a_ring = not idle
    verb = "has" if len(absent) == 1 else "have"
    code, left = STALLED, loop_left(operation.lines, absent[0].lines, text_of)
    if left is not None and same_round(first.inside[0], absent[0], text_of) is False:
        left = None
    if left is not None or all(view.ended and view.steps and not view.failed for view in absent):
        code = LEFT_THE_LOOP
    text = (
        f"{code} {with_hosts(absent)} {verb} not entered "
        f"{operation_text(operation, members)}, in which "
        f"{_wait_text(first.inside)}; {whereabouts(absent)}"
    )
    if left is not None:
        text += f", behind the loop at {left}, in which the others still are"
    if code == LEFT_THE_LOOP:
        text += _steps_text(absent, first.inside)
    if in_a_ring:
        text += "; they wait there for those that wait for them"
    stuck = all(view.state in (STOPPED, GONE) or view.ended for view in absent)
    everybody = set(members) - set(first.absent) <= {view.rank for view in first.inside}
    certain = in_a_ring or (stuck and everybody)
    return StallVerdict(code, _numbers(absent), text, certain, operation.timeout, absent[0].lines)


def _verdict_of_nobody(views: Sequence[RankView]) -> StallVerdict:
    """All have entered what they wait in: it is what lies between them that does not get on."""
    inside = [view for view in views if view.recorded and view.waiting]
    operation = inside[0].waiting[0]
    members = inside[0].groups.get(operation.group, ())
    text = (
        f"{STALLED} {with_hosts(inside)} all have entered {operation_text(operation, members)}, "
        "and it does not end: the network between them, or a device, does not get on"
    )
    return StallVerdict(STALLED, (), text, False, operation.timeout, inside[0].lines)


def _verdict_by_stacks(views: Sequence[RankView]) -> StallVerdict | None:
    """Without a recorder: who stands elsewhere than those that wait inside of PyTorch."""
    inside = [view for view in views if view.waits_by_stack]
    outside = [view for view in views if not view.waits_by_stack]
    if not inside or not outside or any(view.recorded and view.last for view in inside):
        return None
    stuck = all(view.state in (STOPPED, GONE) or view.ended for view in outside)
    place = f" at {inside[0].lines[-1]}" if inside[0].lines else ""
    text = (
        f"{STALLED} {with_hosts(outside)} {'does' if len(outside) == 1 else 'do'} not wait for others as "
        f"{_wait_text(inside)}{place}; {whereabouts(outside)} (by steps and stacks alone: there is "
        "no flight recorder's account)"
    )
    return StallVerdict(STALLED, _numbers(outside), text, stuck, None, outside[0].lines)


def _verdict_of_last(views: Sequence[RankView]) -> StallVerdict | None:
    """All others have come to their end, and the last ones stand and answer nobody.

    So it is where the group goes with the last object that holds it: its end waits for a thread of its own
    with Python's lock held, which that thread needs (torch 2.9 to 2.13, ~ProcessGroupGloo below ~Reducer).
    """
    last = [view for view in views if not view.ended]
    stand = all(view.state == "S" and not view.answered and not view.failed for view in last)
    if not last or len(last) == len(views) or not stand:
        return None
    text = (
        f"{NOT_ENDED} {with_hosts(last)} {'does' if len(last) == 1 else 'do'} not come to an end: all others "
        "have ended, and Python's lock is held there, as where a process group that nobody has destroyed in "
        "time waits for its threads"
    )
    return StallVerdict(NOT_ENDED, _numbers(last), text, False, None, last[0].lines)


def _wait_text(views: Sequence[RankView]) -> str:
    return f"{ranks_text([view.rank for view in views])} {'waits' if len(views) == 1 else 'wait'}"


def _numbers(views: Sequence[RankView]) -> tuple[int, ...]:
    return tuple(sorted(view.rank for view in views))


# Whom those had waited for whose own patience was at an end: seen in one look, before the first of them goes.


def judge_timeout(
    views: Sequence[RankView], text_of: Callable[[str], str | None] = lambda _: None
) -> StallVerdict | None:
    """The verdict over ranks of which some have given up to wait: as of a stall, but that a save which the
    others waited for took longer than they may wait."""
    still = [_still_waiting(view) if view.failed and view.waits_by_stack else view for view in views]
    verdict = judge_stall(still, text_of)
    awaited = [view for view in still if verdict is not None and view.rank in verdict.ranks]
    waits = [view for view in still if view.waits_by_stack]
    if verdict is None or verdict.code != STALLED or not awaited:
        return verdict
    if not all(_saves_still(view, text_of) for view in awaited):
        return verdict
    limit = f" of {verdict.timeout:.0f} s" if verdict.timeout else ""
    text = (
        f"{SAVED_LONG} {with_hosts(awaited)} still {'saves' if len(awaited) == 1 else 'save'} at "
        f"{awaited[0].lines[-1]}, while {_wait_text(waits)} for it longer than the process group's timeout"
        f"{limit} allows"
    )
    return dataclasses.replace(verdict, code=SAVED_LONG, text=text)


def _saves_still(view: RankView, text_of: Callable[[str], str | None]) -> bool:
    works = not view.waits_by_stack and not view.ended
    return works and (view.saving or is_saving_by_text(view.lines, text_of))


def _still_waiting(view: RankView) -> RankView:
    """The rank before it gave up: what it had entered last is what it waited in."""
    last = min(view.operations, key=lambda each: (each.seconds, -each.number), default=None)
    operations = tuple(dataclasses.replace(each, waits=each is last) for each in view.operations)
    return dataclasses.replace(view, ended=False, failed=False, operations=operations)


# Whom those had waited for that lost a connection: a rank that ended well, or went on behind their loop.


def judge_ends(
    views: Sequence[RankView], text_of: Callable[[str], str | None] = lambda _: None
) -> StallVerdict | None:
    """Why ranks lost each other that have all ended; None where nothing tells.

    Of those that failed, `waits_by_stack` says that they did in a step of the training: what one rank does
    alone, such as an evaluation, has no backward pass.
    """
    well = [view for view in views if view.ended and not view.failed]
    lost = [view for view in views if view.failed and view.lines]
    for view in lost:
        behind = [other for other in lost if _is_behind(view, other, text_of)]
        if behind and (loop := loop_left(view.lines, behind[0].lines, text_of)):
            others = [each for each in lost if each not in behind]
            verb = "was" if len(behind) == 1 else "were"
            text = (
                f"{LEFT_THE_LOOP} {with_hosts(behind)} {verb} at {behind[0].lines[-1]}, behind the loop at "
                f"{loop}, in which {ranks_text(_numbers(others))} still "
                f"{'was' if len(others) == 1 else 'were'}{_steps_text(behind, others)}"
            )
            return StallVerdict(LEFT_THE_LOOP, _numbers(behind), text, True, None, behind[0].lines)
    return _verdict_of_ended(well, lost, text_of) if well and lost else None


def _is_behind(inside: RankView, other: RankView, text_of: Callable[[str], str | None]) -> bool:
    if loop_left(inside.lines, other.lines, text_of) is None:
        return False
    together = same_round(inside, other, text_of)
    # Where nobody passes by what the other waits in, no rank is in the next round before it.
    return together is True or (together is None and all_come_to(other.lines, inside.lines, text_of))


def _verdict_of_ended(
    well: Sequence[RankView], lost: Sequence[RankView], text_of: Callable[[str], str | None]
) -> StallVerdict:
    loops = (outermost_loop(line, text_of(line.file)) for line in lost[0].lines)
    loop = next((found for found in loops if found is not None), None)
    steps = [view.steps for view in well]
    trains = any(view.waits_by_stack for view in lost) or _numbers(lost) != (0,)
    if loop is not None and trains and min(steps) > 0 and max(steps) <= max(view.steps for view in lost):
        text = (
            f"{LEFT_THE_LOOP} {with_hosts(well)} {'has' if len(well) == 1 else 'have'} ended, and "
            f"{_wait_text(lost)} in vain at {lost[0].lines[-1]}, in the loop at {loop}"
            f"{_steps_text(well, lost)}"
        )
        return StallVerdict(LEFT_THE_LOOP, _numbers(well), text, True, None, lost[0].lines)
    if len(lost) <= len(well):
        ended = f"for {ranks_text(_numbers(well))}, {'which has' if len(well) == 1 else 'which have'} ended"
        text = f"{STALLED} {with_hosts(lost)} alone waited at {lost[0].lines[-1]} {ended}"
        return StallVerdict(STALLED, _numbers(lost), text, True, None, lost[0].lines)
    verb = "has" if len(well) == 1 else "have"
    text = f"{STALLED} {with_hosts(well)} {verb} ended, and {_wait_text(lost)} in vain at {lost[0].lines[-1]}"
    return StallVerdict(STALLED, _numbers(well), text, True, None, lost[0].lines)


# The first collective of a group under whose number ranks called different things.


_SAME_SIZES = frozenset(
    {"all_reduce", "allreduce", "all_reduce_coalesced", "allreduce_coalesced", "broadcast", "reduce"}
)
"""Collectives to which all ranks of a group bring tensors of one size (torch.distributed's documentation)."""


@dataclass(frozen=True)
class Mismatch:
    """What the `odd` ranks called where the `usual` ones called something else, each with its rank."""

    odd: list[tuple[RankView, Operation]]
    usual: list[tuple[RankView, Operation]]


def first_mismatch(views: Sequence[RankView]) -> Mismatch | None:
    """The earliest mismatch in a group in which a rank waits; None where all called the same."""
    groups = {
        (each.group, view.groups.get(each.group))
        for view in views
        for each in view.waiting
        if each.peer is None
    }
    for group, members in sorted(groups, key=str):
        of_it = [view for view in views if view.groups.get(group) == members]
        for number in sorted(set(_numbers_called(of_it, group))):
            called = [(view, view.entered(group, number)) for view in of_it]
            there = [(view, operation) for view, operation in called if operation is not None]
            kinds: dict[str, list[tuple[RankView, Operation]]] = {}
            for view, operation in there:
                sizes = operation.sizes if operation.name in _SAME_SIZES else ""
                kinds.setdefault(f"{operation.name} {sizes}", []).append((view, operation))
            if len(kinds) > 1:
                usual = max(kinds.values(), key=_plausibility)
                odd = [each for each in there if each not in usual]
                return Mismatch(odd, usual)
    return None


def _numbers_called(views: Sequence[RankView], group: str) -> Iterator[int]:
    for view in views:
        for each in view.operations:
            if each.group == group:
                yield each.number


def _plausibility(called: list[tuple[RankView, Operation]]) -> tuple[int, bool, bool, bool, int]:
    """Of two kinds the one that more ranks called is right; of equally many what trains, not what ends or
    saves, then what the lowest rank called."""
    operation = called[0][1]
    saves = not operation.saving, not operation.gathers
    return len(called), *saves, operation.name != "barrier", -called[0][0].rank


# How ranks, collectives and durations are written in what the watchdog says.


_LISTED = 8
"""So many ranks are named one by one; of more the neighbours are drawn together."""

EVERYBODY = "0"
"""The name of the group of all ranks: torch counts groups from the first that is made."""

_DESCRIBED = 3
"""Of so many ranks it is said where they are."""


def ranks_text(ranks: Sequence[int]) -> str:
    """`rank 2`, `ranks 0, 1, 3`, or `ranks 0-6, 8-63`."""
    ordered = sorted(ranks)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    if len(ordered) <= _LISTED:
        return "ranks " + ", ".join(map(str, ordered))
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    more = f" and {len(parts) - _LISTED} more stretches" if len(parts) > _LISTED else ""
    return "ranks " + ", ".join(parts[:_LISTED]) + more


def with_hosts(views: Sequence[RankView]) -> str:
    """`rank 2 on algo-1`, or the ranks with all their hosts."""
    hosts = list(dict.fromkeys(view.host for view in views))
    more = f" and {len(hosts) - _DESCRIBED} more" if len(hosts) > _DESCRIBED else ""
    where = ", ".join(hosts[:_DESCRIBED]) + more
    return f"{ranks_text([view.rank for view in views])} on {where}"


def operation_text(operation: Operation, members: Sequence[int] = ()) -> str:
    """`all_reduce #36 [4160] of the group of ranks 0, 1 (train.py:16)`; the group of all is not named."""
    sizes = f" {operation.sizes}" if operation.sizes else ""
    group = ""
    if operation.group.partition(" ")[0] != EVERYBODY:
        group = f" of the group of {ranks_text(members)}" if members else f" of group {operation.group}"
    place = f" ({operation.lines[-1]})" if operation.lines else ""
    return f"{operation.name} #{operation.number}{sizes}{group}{place}"


def whereabouts(views: Sequence[RankView]) -> str:
    """Where ranks are: `it is at train.py:8, process state T`, or of each by its number."""
    if len(views) == 1:
        return _where(views[0], "it")
    told = [_where(view, f"rank {view.rank}") for view in views[:_DESCRIBED]]
    more = [f"of {len(views) - _DESCRIBED} more see the kept dumps"] if len(views) > _DESCRIBED else []
    return "; ".join(told + more)


def _where(view: RankView, subject: str) -> str:
    if view.state == GONE:
        return f"{subject} has ended"
    place = f"at {view.lines[-1]}" if view.lines else "outside of the user's code"
    if view.ended:
        place = "behind the script's end"
    if not view.lines and not view.answered and not view.ended:
        return f"{subject} gives no answer, process state {view.state}"
    silent = "" if view.answered or view.state == STOPPED else ", and gives no answer itself"
    return f"{subject} is {place}, process state {view.state}{silent}"


# What follows from a verdict, and how hosts send one.


def ends_job(
    verdict: StallVerdict | None, before: StallVerdict | None, lasted: float, unknown_timeout: float
) -> bool:
    """Whether the job is to end: a certain verdict that a second look confirms; one that may still pass once
    it has lasted, in seconds, as long as the group would let its ranks wait."""
    if verdict is None or before is None:
        return False
    if verdict.certain:
        return before.same_as == verdict.same_as
    return lasted >= (verdict.timeout or unknown_timeout)


def verdict_to_json(verdict: StallVerdict | None) -> dict[str, Any] | None:
    """A verdict as JSON holds it."""
    return None if verdict is None else dataclasses.asdict(verdict)


def verdict_from_json(value: dict[str, Any] | None) -> StallVerdict | None:
    """The verdict that `verdict_to_json` wrote."""
    if value is None:
        return None
    lines = tuple(UserLine(*each) for each in value["lines"])
    return StallVerdict(**{**value, "ranks": tuple(value["ranks"]), "lines": lines})


# Whether a job stands still, by the heartbeats of all hosts' ranks.


SHORTEST_STALL = 60.0
"""Seconds without a step that are no stall by themselves: a checkpoint or a slow file may take as long."""

PAUSES = 5.0
"""So many times the longest pause between two steps so far is one, where that is longer."""


@dataclass(frozen=True)
class StallLimits:
    """Seconds. `stall` replaces what is derived from the pauses; None leaves it."""

    stall: float | None
    first_step: float

    def without_step(self, longest_pause: float) -> float:
        """How long no rank of the job may make a step, once one did."""
        return self.stall if self.stall is not None else max(SHORTEST_STALL, PAUSES * longest_pause)


@dataclass(frozen=True)
class Pulse:
    """What a host says of its ranks, in seconds: since the last step of any (None before the first), since
    they began, and the longest pause. `watched` ranks have loaded PyTorch, and have not ended."""

    since: float | None
    begun: float
    longest: float
    watched: int


def pulse_of(beats: Iterable[Beat], now: float) -> Pulse:
    """The pulse of a host by its ranks' heartbeats; `now` is the monotonic clock's."""
    listed = list(beats)
    stepped = [now - beat.last for beat in listed if beat.steps]
    return Pulse(
        since=min(stepped, default=None),
        begun=min((now - beat.started for beat in listed), default=0.0),
        longest=max((beat.longest for beat in listed), default=0.0),
        watched=sum(beat.phase not in (STARTED, ENDED, FAILED) for beat in listed),
    )


@dataclass(frozen=True)
class Standstill:
    """For how many seconds no rank of the job made a step, the limit, and whether any made one before."""

    seconds: float
    limit: float
    stepped: bool

    @property
    def over(self) -> bool:
        """Whether it is a stall."""
        return self.seconds > self.limit

    def __str__(self) -> str:
        done = "has made a step" if self.stepped else "has made its first step"
        return f"no rank {done} for {self.seconds:.0f} s (limit {self.limit:.0f} s)"


class Pulses:
    """The pulses of all hosts, aged by how long ago each was heard: a host that says nothing gets older."""

    def __init__(self, limits: StallLimits) -> None:
        self._limits = limits
        self._heard: dict[str, tuple[Any, float]] = {}

    def hear(self, said: Mapping[str, Any], now: float) -> None:
        """Take what was read of the hosts at this moment: of each a list of a number
        that changes with each, the fields of a pulse, and what else it says."""
        for host, value in said.items():
            if host not in self._heard or self._heard[host][0] != value:
                self._heard[host] = (value, now)

    def standstill(self, now: float) -> Standstill | None:
        """How the job stands; None as long as no rank can be watched."""
        known = [(Pulse(*value[1:5]), now - heard) for value, heard in self._heard.values()]
        if not any(pulse.watched for pulse, _ in known):
            return None
        stepped = [pulse.since + age for pulse, age in known if pulse.since is not None]
        if not stepped:
            begun = min(pulse.begun + age for pulse, age in known)
            return Standstill(begun, self._limits.first_step, False)
        longest = max(pulse.longest for pulse, _ in known)
        return Standstill(min(stepped), self._limits.without_step(longest), True)
