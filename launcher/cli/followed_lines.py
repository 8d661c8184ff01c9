"""Which lines of a followed job are shown: `--rank` and `--grep`, and what is shown without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from launcher.failure_modes.refusal import Refusal

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView
    from launcher.session.following.monitor import LineChoice

    Choose = Callable[[Callable[[], None]], LineChoice | None]

FollowedRank = Annotated[
    str | None,
    Parameter(
        name="--rank", help="Follow this global rank, or all; by default rank 0 and the errors of every rank."
    ),
]
FollowedPattern = Annotated[
    str | None,
    Parameter(name="--grep", help="Follow the lines that match a regular expression, of every rank."),
]

_MOST_DIGITS = 8
HIDDEN = "other ranks are hidden but for their errors: --rank all shows them, `launch logs` has all"


def followed_lines(
    view: RequestView | None, rank: str | None, grep: str | None, tell: Callable[[], None]
) -> LineChoice | None:
    """What chooses the lines of a job; None shows all. `tell` is called when other ranks are first hidden.

    Raises Refusal for a rank that the job does not have, and for what is no regular expression.
    """
    from launcher.session.following.digest import Digest
    from launcher.session.following.log_filter import LogFilter, check_rank, compile_pattern

    processes, hosts = (view.processes_per_host, view.hosts) if view is not None else (None, None)
    if rank is None and grep is None:
        return Digest(processes, processes * hosts if processes and hosts else None, tell)
    pattern = compile_pattern(grep) if grep else None
    number = _number(rank) if rank is not None and rank != "all" else None
    if number is None and pattern is None:
        return None
    if number is not None:
        check_rank(number, processes, hosts)
    return LogFilter(rank=number, pattern=pattern, processes_per_host=processes)


def _number(rank: str) -> int:
    if not rank.isdecimal() or len(rank) > _MOST_DIGITS:
        shown = rank if len(rank) <= _MOST_DIGITS else f"{rank[:_MOST_DIGITS]}…"
        raise Refusal(f"--rank {shown} is not the number of a rank.", "Give a number from 0 on, or all.")
    return int(rank)
