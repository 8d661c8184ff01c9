"""Who stalls a job: judged by what was equal in two looks at all of its ranks. Pure.

First what ranks of one group called under the same number: where that differs, who differs from the others.
Then who has not entered a collective in which others wait, and waits nowhere itself: whoever waits too is
only a link of the chain. Without a recorder, who stands elsewhere than those that wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slipway.watchdog.loops import loop_left
from slipway.watchdog.mismatches import Mismatch, first_mismatch
from slipway.watchdog.views import GONE, STOPPED, Operation, RankView, UserLine
from slipway.watchdog.wording import operation_text, ranks_text, whereabouts, with_hosts

STALLED, LEFT_THE_LOOP, SAVED_ALONE = "NCCL004", "DATA001", "CKPT003"
"""The codes of the three causes that can be told apart."""


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
class _Awaited:
    """A collective in which `inside` wait, and who of its group has not entered it."""

    operation: Operation
    inside: tuple[RankView, ...]
    absent: tuple[int, ...]


def judge(
    views: Sequence[RankView], text_of: Callable[[str], str | None] = lambda _: None
) -> StallVerdict | None:
    """The verdict over all ranks of the job; None where no rank waits for another one.

    `text_of` gives the text of a file of the user's code by its name, None where it cannot be read.
    """
    ranks = {view.rank: view for view in views}
    mismatch = first_mismatch(views)
    if mismatch is not None:
        return _of_mismatch(mismatch, text_of)
    awaited = _awaited(ranks)
    if awaited:
        return _of_absent(awaited, ranks, text_of)
    if any(view.recorded and view.waiting for view in views):
        return _of_nobody(views)
    return _by_stacks(views)


def _of_mismatch(found: Mismatch, text_of: Callable[[str], str | None]) -> StallVerdict:
    """Another collective than the others', under the same number."""
    called, expected = found.odd[0][1], found.usual[0][1]
    members = found.odd[0][0].groups.get(called.group, ())
    views = [view for view, _ in found.odd]
    code, because = STALLED, ""
    left = loop_left(expected.lines, called.lines, text_of)
    if called.saving and not expected.saving:
        code = SAVED_ALONE
        because = f": saving needs {ranks_text([view.rank for view, _ in found.usual])} as well"
    elif left is not None:
        code, because = LEFT_THE_LOOP, f": it has left the loop at {left}, in which the others still are"
    text = (
        f"{code} {with_hosts(views)} called {operation_text(called, members)}, where "
        f"{ranks_text([view.rank for view, _ in found.usual])} called {operation_text(expected, members)}"
        f"{because}"
    )
    return StallVerdict(code, _numbers(views), text, True, expected.timeout, called.lines)


def _awaited(ranks: Mapping[int, RankView]) -> list[_Awaited]:
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
            found.append(_Awaited(operation, tuple(view for view, _ in inside), tuple(sorted(set(absent)))))
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


def _of_absent(
    awaited: Sequence[_Awaited], ranks: Mapping[int, RankView], text_of: Callable[[str], str | None]
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
    if all(view.ended or view.state == GONE for view in absent) or left is not None:
        code = LEFT_THE_LOOP
    text = (
        f"{code} {with_hosts(absent)} {verb} not entered "
        f"{operation_text(operation, members)}, in which "
        f"{_wait_text(first.inside)}; {whereabouts(absent)}"
    )
    if left is not None:
        text += f", behind the loop at {left}, in which the others still are"
    if in_a_ring:
        text += "; they wait there for those that wait for them"
    stuck = all(view.state in (STOPPED, GONE) or view.ended for view in absent)
    everybody = set(members) - set(first.absent) <= {view.rank for view in first.inside}
    certain = in_a_ring or (stuck and everybody)
    return StallVerdict(code, _numbers(absent), text, certain, operation.timeout, absent[0].lines)


def _of_nobody(views: Sequence[RankView]) -> StallVerdict:
    """All have entered what they wait in: it is what lies between them that does not get on."""
    inside = [view for view in views if view.recorded and view.waiting]
    operation = inside[0].waiting[0]
    members = inside[0].groups.get(operation.group, ())
    text = (
        f"{STALLED} {with_hosts(inside)} all have entered {operation_text(operation, members)}, "
        "and it does not end: the network between them, or a device, does not get on"
    )
    return StallVerdict(STALLED, (), text, False, operation.timeout, inside[0].lines)


def _by_stacks(views: Sequence[RankView]) -> StallVerdict | None:
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


def _wait_text(views: Sequence[RankView]) -> str:
    return f"{ranks_text([view.rank for view in views])} {'waits' if len(views) == 1 else 'wait'}"


def _numbers(views: Sequence[RankView]) -> tuple[int, ...]:
    return tuple(sorted(view.rank for view in views))
