"""How ranks, collectives and durations are written in what the watchdog says."""

from __future__ import annotations

from collections.abc import Sequence

from slipway.watchdog.views import GONE, STOPPED, Operation, RankView

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
