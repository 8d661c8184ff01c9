"""DDP005: a rank that waits in a collective for half of what its process group allows, or longer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slipway.watchdog.beats import Pulse
from slipway.watchdog.questions import Ranks
from slipway.watchdog.views import Operation, RankView
from slipway.watchdog.wording import operation_text, ranks_text

LONG_WAIT = "DDP005"

SHARE = 0.5
"""Of the timeout, from which on a wait is told of."""

_QUIET_SECONDS = 60.0
"""So long no rank of this host made a step before the recorders are asked, and between two questions: no
timeout that anybody sets on purpose is much shorter."""


class LongWaits:
    """Looks at this host's ranks while they make no steps; says of each group once that a wait is long."""

    def __init__(self, ranks: Ranks, say: Callable[[str], None]) -> None:
        self._ranks, self._say = ranks, say
        self._told: set[str] = set()
        self._next = 0.0

    def look(self, pulse: Pulse, now: float) -> None:
        """Ask the ranks where they wait, if they make no steps; `now` is the monotonic clock's."""
        if pulse.since is None or pulse.since < _QUIET_SECONDS or now < self._next:
            return
        self._next = now + _QUIET_SECONDS / 2
        for operation, text in long_waits(self._ranks.look()):
            if operation.group not in self._told:
                self._told.add(operation.group)
                self._say(f"warning: {text}")


def long_waits(views: Iterable[RankView]) -> Iterator[tuple[Operation, str]]:
    """Of each group the longest wait that is half of its timeout or more, with what there is to say."""
    longest: dict[str, tuple[Operation, RankView]] = {}
    for view in views:
        for each in view.waiting:
            known = longest.get(each.group)
            is_long = each.timeout is not None and each.seconds >= SHARE * each.timeout
            if is_long and (known is None or each.seconds > known[0].seconds):
                longest[each.group] = each, view
    for operation, view in longest.values():
        share = 100 * operation.seconds / (operation.timeout or 1)
        yield (
            operation,
            f"{LONG_WAIT} {ranks_text([view.rank])} on {view.host} has waited {operation.seconds:.0f} s in "
            f"{operation_text(operation, view.groups.get(operation.group, ()))}, {share:.0f} % of its "
            f"group's timeout of {operation.timeout:.0f} s: past it the job fails. Raise `timeout` of "
            "init_process_group, or let the others not wait so long",
        )
