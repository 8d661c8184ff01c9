"""A long series of values in few points: of each piece of it the lowest and the highest value are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MOST_PIECES = 600
"""Pieces of a series, with two points each: about one for each column of pixels of a chart."""


@dataclass(frozen=True, slots=True)
class LossPoint:
    """A value that was printed: by the line with the number `order`, at a time in seconds where the log has
    times, at the script's own step where the line tells one."""

    value: float
    order: int
    time: float | None = None
    step: float | None = None


@dataclass(slots=True)
class _SeriesPiece:
    low: LossPoint
    high: LossPoint
    count: int = 1

    def add(self, other: _SeriesPiece) -> None:
        if other.low.value < self.low.value:
            self.low = other.low
        if other.high.value > self.high.value:
            self.high = other.high
        self.count += other.count


class LongSeries:
    """Points in their order, of which at most two for each of MOST_PIECES pieces are kept.

    Every piece holds equally many points. `seen` is how many points there were.
    """

    def __init__(self) -> None:
        self.seen = 0
        self._pieces: list[_SeriesPiece] = []
        self._size = 1

    def add(self, point: LossPoint) -> None:
        """The next point."""
        self.seen += 1
        piece = _SeriesPiece(point, point)
        if self._pieces and self._pieces[-1].count < self._size:
            self._pieces[-1].add(piece)
            return
        self._pieces.append(piece)
        if len(self._pieces) > MOST_PIECES:
            self._halve()

    def points(self) -> Iterator[LossPoint]:
        """The points that were kept, in their order."""
        for piece in self._pieces:
            ends = {piece.low.order: piece.low, piece.high.order: piece.high}
            yield from (ends[order] for order in sorted(ends))

    @property
    def is_whole(self) -> bool:
        """Whether all points were kept."""
        return self._size == 1

    def _halve(self) -> None:
        pairs = [self._pieces[at : at + 2] for at in range(0, len(self._pieces), 2)]
        for pair in pairs:
            if len(pair) == 2:
                pair[0].add(pair[1])
        self._pieces = [pair[0] for pair in pairs]
        self._size *= 2
