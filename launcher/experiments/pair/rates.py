"""How fast runs are, after their warm-up: median, and the ratio of two of them with its interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from launcher.experiments.pair.estimates import student_t
from launcher.experiments.pair.series import Point, Series, Unit

WARM_UP = 0.2
"""The part of a run's points, its first, in which data are fetched, kernels chosen and graphs compiled."""

LEAST_POINTS = 10
"""Points of a run below which nothing is said of its speed."""

_PIECES = 10
_LEAST_PIECES = 4
_MEDIAN_OVER_MEAN = 1.2533
"""How much less certain a median is than a mean, where values are normal: the root of half of pi."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A run's speed in each of up to ten pieces of equally many points, which follow each other."""

    SAME_WITHIN: ClassVar[float] = 0.05
    """Speeds whose ratio is known this well, and may be 1, count as the same."""

    pieces: Sequence[float]

    @property
    def median(self) -> float:
        """The median of the pieces."""
        return statistics.median(self.pieces)


@dataclass(frozen=True, slots=True)
class SpeedRatio:
    """A ratio of speeds with the ends of its interval of 95 %, which lie as many times above and below it."""

    value: float
    low: float
    high: float


def speeds_of(
    first: Series, second: Series, batches: tuple[int, int] | None, same_world: bool
) -> tuple[str, Speed, Speed] | str:
    """The unit and the speeds of two runs in it; a text that says why there are none.

    `batches` are the samples in a step of each, where both are known. What the runs themselves print as
    samples per second is taken where both do and have equally many processes (`same_world`): with others,
    nobody knows whether it is the speed of one or of all. Else it is what lies between the times of their
    lines.
    """
    fewest = min(len(first.points), len(second.points))
    if fewest < LEAST_POINTS:
        return f"not enough points: {fewest} in the shorter run, and {LEAST_POINTS} are needed"
    if same_world:
        printed = [_printed(series.points) for series in (first, second)]
        if all(len(speed.pieces) >= _LEAST_PIECES for speed in printed):
            return "samples/s", printed[0], printed[1]
    if first.unit is not second.unit or first.unit is Unit.PRINT:
        return "the runs print neither steps nor epochs nor samples per second that could be compared"
    by_samples = first.unit is Unit.STEP and batches is not None
    scales = batches if by_samples and batches is not None else (1, 1)
    timed = [_timed(series.points, scale) for series, scale in zip((first, second), scales, strict=True)]
    if any(len(speed.pieces) < _LEAST_PIECES for speed in timed):
        return "the lines' times are too close together to tell the speed"
    return ("samples/s" if by_samples else f"{first.unit}s/s"), timed[0], timed[1]


def faster(first: Speed, second: Speed) -> SpeedRatio:
    """The second speed over the first, by their medians, with the interval of Welch's test of the logarithms.

    The interval is that of means, widened to medians.
    """
    logs = [[math.log(piece) for piece in speed.pieces] for speed in (first, second)]
    parts = [statistics.variance(each) / len(each) for each in logs]
    ratio = second.median / first.median
    if sum(parts) == 0:
        return SpeedRatio(ratio, ratio, ratio)
    freedom = sum(parts) ** 2 / sum(part**2 / (len(each) - 1) for part, each in zip(parts, logs, strict=True))
    half = _MEDIAN_OVER_MEAN * student_t(freedom) * math.sqrt(sum(parts))
    factor = math.exp(min(half, 50.0))
    return SpeedRatio(ratio, ratio / factor, ratio * factor)


def _warm(points: Sequence[Point]) -> Sequence[Point]:
    return points[max(1, round(WARM_UP * len(points))) :]


def _printed(points: Sequence[Point]) -> Speed:
    speeds = [
        point.speed
        for point in _warm(points)
        if point.speed is not None and math.isfinite(point.speed) and point.speed > 0
    ]
    return Speed([statistics.median(speeds[begin:end]) for begin, end in _pieces(len(speeds)) if end > begin])


def _timed(points: Sequence[Point], scale: float) -> Speed:
    """The speed between the ends of each piece; those without time between them are left out."""
    warm = _warm(points)
    ends = [(warm[begin], warm[end]) for begin, end in _pieces(len(warm) - 1)]
    return Speed(
        [
            scale * (end.place - begin.place) / (end.time - begin.time)
            for begin, end in ends
            if end.time > begin.time and end.place > begin.place
        ]
    )


def _pieces(count: int) -> list[tuple[int, int]]:
    number = min(_PIECES, count)
    if number < 1:
        return []
    return list(pairwise(count * piece // number for piece in range(number + 1)))
