"""Which of several signs came first: within a stream that is always known, between streams by their clocks.

Hosts' clocks are compared where they are of one kind and print what happens on both at one time: the same
step, the end of the same collective. How far they are apart is estimated by that. Clocks that nothing holds
together tell no order, as they may be minutes apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from launcher.diagnosis.progress import Course
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.sighting import Sighting

_RESOLUTION = 2.0
"""Seconds by which hosts print the same event apart from one another."""

_Anchors = dict[tuple[object, ...], float]


class Clocks:
    """The clocks of the streams, as far apart as the events tell that several of them have."""

    def __init__(self, courses: Mapping[str, Course], signs: Iterable[Sighting]) -> None:
        self._anchors: dict[tuple[str, str], _Anchors] = {}
        for stream, course in courses.items():
            for step, moment in course.steps.items():
                if moment.clock is not None and moment.time is not None:
                    self._of(stream, moment.clock).setdefault(("step", step), moment.time)
        for sign in signs:
            operation, sequence = sign.captured.get("operation"), sign.captured.get("sequence")
            if operation and sequence and sign.clock is not None and sign.time is not None:
                self._of(sign.stream, sign.clock).setdefault((operation, sequence), sign.time)

    def seconds_between(self, one: Sighting, other: Sighting) -> float | None:
        """How long after the one the other came, None where nobody can know."""
        if one.clock is None or one.clock != other.clock or one.time is None or other.time is None:
            return None
        seconds = other.time - one.time
        if one.clock == "stream" or one.stream == other.stream:
            return seconds
        if one.host is not None and one.host == other.host:
            return seconds
        skew = self._skew(one.stream, other.stream, one.clock)
        if skew is None:
            return None
        seconds -= skew
        return seconds if abs(seconds) > _RESOLUTION or not skew else None

    def _skew(self, one: str, other: str, clock: str) -> float | None:
        """By how many seconds the clock of the other stream is ahead, None where they share no event."""
        mine, theirs = self._anchors.get((one, clock), {}), self._anchors.get((other, clock), {})
        apart = [theirs[event] - mine[event] for event in mine.keys() & theirs.keys()]
        if not apart:
            return None
        skew = median(apart)
        return skew if abs(skew) > _RESOLUTION else 0.0

    def _of(self, stream: str, clock: str) -> _Anchors:
        return self._anchors.setdefault((stream, clock), {})


def first_of(signs: Sequence[Sighting], clocks: Clocks) -> tuple[Sighting, tuple[Sighting, ...]]:
    """The sign that came first, and those of other streams that may have come before it, for all one knows.

    The same for every order in which the streams came. What the container wrote is a diagnosis already: it
    comes before the lines.
    """
    reported = [sign for sign in signs if sign.index == BEFORE_ALL_LINES]
    if reported:
        return min(reported, key=position), ()
    firsts: dict[str, Sighting] = {}
    for sign in sorted(signs, key=position):
        firsts.setdefault(sign.stream, sign)
    heads = sorted(firsts.values(), key=position)
    open_heads = [sign for sign in heads if not any(_came_before(other, sign, clocks) for other in heads)]
    # Estimates may run in a circle; then nobody came first.
    first, *others = open_heads or heads
    return first, tuple(others)


def _came_before(one: Sighting, other: Sighting, clocks: Clocks) -> bool:
    seconds = clocks.seconds_between(one, other)
    return seconds is not None and seconds > 0


def position(sign: Sighting) -> tuple[int, str, int, str, str]:
    """Where a sign stands, to put signs into one order whatever order they came in."""
    return sign.index, sign.host or "", -1 if sign.rank is None else sign.rank, sign.code, sign.stream
