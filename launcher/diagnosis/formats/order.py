"""Events in the order in which they happened: Insights' own query asks for the newest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import Final

from launcher.diagnosis.formats.event import Event
from launcher.diagnosis.formats.unreadable import Unreadable
from launcher.diagnosis.tracebacks import HEADER

MOST_TURNED: Final = 200_000
"""Events that are turned round in memory: Insights gives at most 10,000 rows (StartQuery's `limit`), of which
some have several lines."""
_LARGEST_TURNED: Final = 64 << 20
_SAMPLE = 1000


def in_order(events: Iterable[Event]) -> Iterator[Event]:
    """The events, turned round where the first ones come newest first. Raises Unreadable where those are
    more than are turned in memory."""
    rest = iter(events)
    sample = list(islice(rest, _SAMPLE))
    times = [event.time for event in sample if event.time is not None]
    later, earlier = _steps(times)
    if later or not earlier:
        return chain(sample, rest)
    return _turned(chain(sample, rest))


def _steps(times: list[float]) -> tuple[int, int]:
    """How often the time goes on, and how often it goes back."""
    return sum(b > a for a, b in pairwise(times)), sum(b < a for a, b in pairwise(times))


def _turned(events: Iterable[Event]) -> Iterator[Event]:
    held: list[Event] = []
    size = 0
    for event in events:
        held.append(event)
        size += len(event.text)
        if len(held) > MOST_TURNED or size > _LARGEST_TURNED:
            raise Unreadable(
                f"has its newest lines first, and more than {MOST_TURNED} of them.",
                "Ask for them in their order: `sort @timestamp asc` in Insights.",
            )
    # Lines of one millisecond come in either order; a traceback shows in which.
    turned = held[::-1]
    kept = sorted(held, key=lambda event: event.time or 0.0)
    return iter(kept if _frames_after_headers(kept) > _frames_after_headers(turned) else turned)


def _frames_after_headers(events: list[Event]) -> int:
    return sum(before.text.endswith(HEADER) and "  File " in after.text for before, after in pairwise(events))
