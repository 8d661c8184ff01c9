"""When each rank printed, in so many buckets that a day of 512 ranks takes no more room than a minute."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Writer = tuple[str, int | None]
"""Who prints: the host, and the global rank where a line tells it."""

MOST_BUCKETS = 600
"""Buckets over the whole run: about one for each column of pixels of a chart."""

_SILENCE_PART = 100
"""A silence is shown where it lasts longer than this part of the run; a chart shows no shorter one anyway."""

Span = tuple[float, float]
"""From one position to another, in seconds or in lines."""


@dataclass(slots=True)
class WriterActivity:
    """What one writer has printed: from its first to its last position, and how many lines."""

    first: float
    last: float
    lines: int = 0
    buckets: set[int] = field(default_factory=set)


class Activity:
    """When each writer printed, on an axis of seconds or of lines.

    The buckets begin at `width` and become twice as wide each time the run needs more than MOST_BUCKETS;
    the first and last position of each writer stay exact. `shortest` is the shortest silence that means
    anything on this axis.
    """

    def __init__(self, width: float, shortest: float) -> None:
        self.width = width
        self._shortest = shortest
        self.printed: dict[Writer, WriterActivity] = {}
        self._low = self._high = 0

    @property
    def start(self) -> float:
        """The position of the first line; 0 where there is none."""
        return min((each.first for each in self.printed.values()), default=0.0)

    @property
    def end(self) -> float:
        """The position of the last line; 0 where there is none."""
        return max((each.last for each in self.printed.values()), default=0.0)

    @property
    def silence(self) -> float:
        """Silences up to this length are not told apart from printing."""
        return max(2 * self.width, (self.end - self.start) / _SILENCE_PART, self._shortest)

    def add(self, writer: Writer, position: float) -> None:
        """A line of a writer at a position."""
        bucket = int(position // self.width)
        printed = self.printed.get(writer)
        if printed is None:
            if not self.printed:
                self._low = self._high = bucket
            printed = self.printed[writer] = WriterActivity(position, position)
        printed.lines += 1
        if position > printed.last:
            printed.last = position
        elif position < printed.first:
            printed.first = position
        if self._low <= bucket <= self._high:
            printed.buckets.add(bucket)
            return
        self._low, self._high = min(self._low, bucket), max(self._high, bucket)
        printed.buckets.add(bucket)
        while self._high - self._low >= MOST_BUCKETS:
            self._widen()

    def spans(self, writer: Writer) -> Iterator[Span]:
        """From where to where a writer printed, without the silences that are long enough to be shown."""
        printed, silence = self.printed[writer], self.silence
        start = end = None
        for bucket in sorted(printed.buckets):
            first = max(printed.first, bucket * self.width)
            last = min(printed.last, (bucket + 1) * self.width)
            if start is None or end is None:
                start = first
            elif first - end > silence:
                yield start, end
                start = first
            end = last
        if start is not None and end is not None:
            yield start, end

    def _widen(self) -> None:
        self.width *= 2
        self._low, self._high = self._low // 2, self._high // 2
        for printed in self.printed.values():
            printed.buckets = {bucket // 2 for bucket in printed.buckets}
