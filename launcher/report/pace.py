"""How long steps take, for each rank that prints its steps, and which rank is the slowest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MOST_PIECES = 400
"""Pieces of the run in which the step times of all ranks are brought together."""

_ALIKE = 1.03
"""Step times within 3 % of each other are alike: lines are stamped with about that much jitter."""

_ENOUGH = 0.5
"""Only ranks with at least half as many steps as the busiest one are compared."""


@dataclass(frozen=True, slots=True)
class RankPace:
    """How fast a rank was: seconds a step in the mean, over so many steps."""

    rank: int
    seconds: float
    steps: float


@dataclass(frozen=True, slots=True)
class PacePoint:
    """A piece of the run: the time in its middle, the longest time a step took and whose it was, and the
    mean of all ranks; seconds."""

    at: float
    slowest: float
    rank: int | None
    mean: float


@dataclass(slots=True)
class _LastStep:
    step: float
    time: float
    seconds: float = 0.0
    steps: float = 0.0


@dataclass(slots=True)
class _PacePiece:
    slowest: float
    rank: int | None
    total: float
    count: int

    def add(self, other: _PacePiece) -> None:
        if other.slowest > self.slowest:
            self.slowest, self.rank = other.slowest, other.rank
        self.total += other.total
        self.count += other.count


class StepPace:
    """The step times of all ranks, from the times at which they printed their steps."""

    def __init__(self) -> None:
        self._last: dict[int | None, _LastStep] = {}
        self._pieces: dict[int, _PacePiece] = {}
        self._width = 1.0

    def add(self, rank: int | None, step: float, time: float) -> None:
        """A rank printed a step at a time in seconds. A counter that goes back begins anew."""
        last = self._last.get(rank)
        if last is None:
            self._last[rank] = _LastStep(step, time)
            return
        steps, seconds = step - last.step, time - last.time
        last.step, last.time = step, time
        if steps <= 0 or seconds < 0:
            return
        last.steps += steps
        last.seconds += seconds
        each = seconds / steps
        self._bring(int(time // self._width), _PacePiece(each, rank, each, 1))

    @property
    def writers(self) -> tuple[int | None, ...]:
        """Who printed steps; None is lines without a rank."""
        return tuple(self._last)

    def ranks(self) -> tuple[RankPace, ...]:
        """The mean of each rank that told at least two steps, the slowest first."""
        known = [
            RankPace(rank, last.seconds / last.steps, last.steps)
            for rank, last in self._last.items()
            if rank is not None and last.steps > 0
        ]
        return tuple(sorted(known, key=lambda each: (-each.seconds, each.rank)))

    def points(self) -> Iterator[PacePoint]:
        """The run piece by piece, in the order of the times."""
        for index, piece in sorted(self._pieces.items()):
            at = (index + 0.5) * self._width
            yield PacePoint(at, piece.slowest, piece.rank, piece.total / piece.count)

    def _bring(self, index: int, piece: _PacePiece) -> None:
        known = self._pieces.get(index)
        if known is not None:
            known.add(piece)
            return
        self._pieces[index] = piece
        while len(self._pieces) > MOST_PIECES:
            self._width *= 2
            wider: dict[int, _PacePiece] = {}
            for at, each in self._pieces.items():
                if (found := wider.get(at // 2)) is None:
                    wider[at // 2] = each
                else:
                    found.add(each)
            self._pieces = wider


def slowest_of(paces: tuple[RankPace, ...]) -> RankPace | None:
    """The rank whose steps took longest; None where fewer than two can be compared, or all are alike."""
    most = max((each.steps for each in paces), default=0.0)
    compared = [each for each in paces if each.steps >= _ENOUGH * most]
    if len(compared) < 2 or compared[0].seconds <= _ALIKE * compared[1].seconds:
        return None
    return compared[0]
