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

HIDDEN = "other ranks are hidden but for their errors: --rank all shows them, `launch logs` has all"


def followed_lines(
    view: RequestView | None, rank: str | None, grep: str | None, tell: Callable[[], None]
) -> LineChoice | None:
    """What chooses the lines of a job; None shows all. `tell` is called when other ranks are first hidden.

    Raises Refusal for a rank that the job does not have, and for what is no regular expression.
    """
    from launcher.session.following.digest import Digest
    from launcher.session.following.log_filter import LogFilter, compile_pattern

    processes, hosts = (view.processes_per_host, view.hosts) if view is not None else (None, None)
    world = processes * hosts if processes and hosts else None
    if rank is None and grep is None:
        return Digest(processes, world, tell)
    pattern = compile_pattern(grep) if grep else None
    number = _number(rank, world) if rank is not None and rank != "all" else None
    if number is None and pattern is None:
        return None
    return LogFilter(rank=number, pattern=pattern, processes_per_host=processes)


def _number(rank: str, world: int | None) -> int:
    highest = f" from 0 to {world - 1}" if world else ""
    number = int(rank) if rank.isdecimal() and len(rank) < 9 else -1
    if number < 0 or (world is not None and number >= world):
        raise Refusal(f"--rank {rank} is no rank of this job.", f"Give a rank{highest}, or all.")
    return number
