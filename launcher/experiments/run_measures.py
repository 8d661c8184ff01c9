"""What is measured of one run: its losses over its steps, and how fast it was after its warm-up.

What a training prints at one step resembles what it printed the step before. An interval that took the
values for independent would be too narrow, and would see differences where there is chance alone.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import ClassVar

from launcher.frozen import frozen

MOST_POINTS = 100_000
"""Points kept of a run: of more, every second one, again and again."""

LARGEST_LOSS = 1e100
"""A loss beyond it counts as infinite: no training comes back from there, and squares of more overflow."""

_LEAST_DISTINCT = 0.5


class Unit(StrEnum):
    """What the place of a point in its run is counted in."""

    STEP = "step"
    EPOCH = "epoch"
    PRINT = "print"
    """Neither steps nor epochs were printed with the losses: the first loss, the second, and so on."""


@frozen
class Point:
    """One loss that a run printed: at which place, when (seconds since the epoch), and at which speed.

    `speed` is what the run itself printed, in samples per second; None where it did not. `loss` may be nan or
    infinite.
    """

    place: float
    time: float
    loss: float
    speed: float | None = None


@frozen
class Series:
    """The points of a run, by rising place, each place once."""

    unit: Unit
    points: Sequence[Point]

    @property
    def span(self) -> tuple[float, float] | None:
        """The first and the last place; None without points."""
        return (self.points[0].place, self.points[-1].place) if self.points else None


@frozen
class _Printed:
    time: float
    loss: float
    step: float | None
    epoch: float | None
    speed: float | None


class SeriesReader:
    """Collects the losses of a run, fed with the values of one line after the other.

    The values go by the names `step`, `epoch`, `loss` and `samples/s`; a line need not hold all of them.
    """

    def __init__(self) -> None:
        self._printed: list[_Printed] = []
        self._newest: dict[str, float] = {}
        self._stride, self._skipped = 1, 0

    def read(self, time: float, values: Mapping[str, float]) -> None:
        """Take in what a line held that was printed at `time`, in seconds since the epoch."""
        self._newest |= {name: values[name] for name in ("step", "epoch") if name in values}
        if "loss" not in values:
            return
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        step, epoch = self._newest.get("step"), self._newest.get("epoch")
        loss = values["loss"]
        if abs(loss) > LARGEST_LOSS:
            loss = math.copysign(math.inf, loss)
        self._printed.append(_Printed(time, loss, step, epoch, values.get("samples/s")))
        if len(self._printed) > MOST_POINTS:
            self._printed = self._printed[::2]
            self._stride *= 2

    def series(self) -> Series:
        """The points so far.

        A step that begins again in a later epoch is counted on. One that does so otherwise was gone back to,
        as from a checkpoint: what was printed of it and of later ones before does not count.
        """
        for unit, places in ((Unit.STEP, self._steps()), (Unit.EPOCH, self._epochs())):
            if places and len(set(places)) > _LEAST_DISTINCT * len(self._printed):
                return Series(unit, self._rising(places))
        return Series(Unit.PRINT, self._rising([float(number + 1) for number in range(len(self._printed))]))

    def _steps(self) -> list[float]:
        places: list[float] = []
        base = highest = gap = 0.0
        before: _Printed | None = None
        for each in self._printed:
            if each.step is None:
                return []
            if before is not None and before.step is not None and each.step < before.step:
                if before.epoch is not None and each.epoch is not None and each.epoch > before.epoch:
                    base = highest + max(gap - each.step, 0.0)
            elif before is not None and before.step is not None:
                gap = each.step - before.step or gap
            places.append(base + each.step)
            highest, before = places[-1], each
        return places

    def _epochs(self) -> list[float]:
        epochs = [each.epoch for each in self._printed if each.epoch is not None]
        return epochs if len(epochs) == len(self._printed) else []

    def _rising(self, places: Sequence[float]) -> list[Point]:
        """The points at these places; the first of equal ones, and of those gone back to the later ones."""
        points: list[Point] = []
        for place, each in zip(places, self._printed, strict=True):
            if not math.isfinite(place) or (points and points[-1].place == place):
                continue
            while points and points[-1].place >= place:
                points.pop()
            points.append(Point(place, each.time, each.loss, each.speed))
        return points


WARM_UP = 0.2
"""The part of a run's points, its first, in which data are fetched, kernels chosen and graphs compiled."""

LEAST_POINTS = 10
"""Points of a run below which nothing is said of its speed."""

_PIECES = 10
_LEAST_PIECES = 4
_MEDIAN_OVER_MEAN = 1.2533
"""How much less certain a median is than a mean, where values are normal: the root of half of pi."""


@frozen
class Speed:
    """A run's speed in each of up to ten pieces of equally many points, which follow each other."""

    SAME_WITHIN: ClassVar[float] = 0.05
    """Speeds whose ratio is known this well, and may be 1, count as the same."""

    pieces: Sequence[float]

    @property
    def median(self) -> float:
        """The median of the pieces."""
        return statistics.median(self.pieces)


@frozen
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


# The mean of values that hang together, with an interval that says how far it can be trusted.


LEVEL = 0.95
"""How often the interval of a mean holds the true one."""

_TREND = 3
"""Parameters of the smooth trend (a parabola) that is no noise: curves of two runs approach or part."""

_HIGHEST_CORRELATION = 0.99
_NODES = 64
_HALVINGS = 40


@frozen
class Estimate:
    """A value and the half width of its interval at `LEVEL`."""

    value: float
    half_width: float

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.value - self.half_width

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.value + self.half_width

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside of the interval."""
        return abs(self.value) > self.half_width

    def lies_within(self, bound: float) -> bool:
        """Whether the whole interval lies between -bound and bound."""
        return max(abs(self.low), abs(self.high)) <= bound


def mean_of_correlated(values: Sequence[float]) -> Estimate:
    """The mean of values in their order, with an interval that allows for their correlation.

    The values are taken as a smooth trend and noise that resembles the noise before it (an autoregressive
    process of first order). So many values as the noise is worth independent ones, and no more, narrow the
    interval, at least one beyond the trend. The correlation is taken high: its estimate in short series is
    too low, by (k + (k + 2) r) / n with k parameters of the trend (Kendall 1954 for a mean, extended to a
    trend), and one to two of its standard errors are added. Simulated with noise of correlation 0 to 0.9 and
    10 to 400 values, an interval of equal series leaves out zero in at most 5 of 100 cases; tests hold it.

    Raises ValueError for fewer than six values.
    """
    count = len(values)
    if count < 2 * _TREND:
        raise ValueError(f"{count} values have no interval")
    mean = math.fsum(values) / count
    noise = _without_trend(values)
    squares = math.fsum(value * value for value in noise)
    # Of equal curves the difference is rounding alone.
    if squares <= count * (1e-12 * max(abs(value) for value in values)) ** 2:
        return Estimate(mean, 0.0)
    correlation = math.fsum(a * b for a, b in pairwise(noise)) / squares
    correlation += (_TREND + (_TREND + 2) * max(correlation, 0.0)) / count
    errors = min(2.0, max(1.0, 50 / count))
    correlation += errors * math.sqrt(max(0.0, 1 - correlation * correlation) / count)
    correlation = min(max(correlation, 0.0), _HIGHEST_CORRELATION)
    worth = max(count * (1 - correlation) / (1 + correlation), _TREND + 1)
    variance = squares / (count * (1 - _TREND / worth))
    return Estimate(mean, student_t(worth - _TREND) * math.sqrt(variance / worth))


def student_t(freedom: float) -> float:
    """The value that Student's t with so many degrees of freedom stays below, in size, in 95 of 100 cases.

    `freedom` is at least 1, and need not be whole. Found by bisection of the distribution's tail, to 0.001.
    """
    scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    factor = math.exp(scale) / math.sqrt(freedom * math.pi)
    low, high = 1.9, 13.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if factor * _tail(middle, freedom) > (1 - LEVEL) / 2:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _tail(begin: float, freedom: float) -> float:
    """The integral of (1 + t²/freedom)^(-(freedom+1)/2) from `begin` to infinity, with t = begin / u."""
    total = 0.0
    for node in range(_NODES):
        u = (node + 0.5) / _NODES
        t = begin / u
        total += (1 + t * t / freedom) ** (-(freedom + 1) / 2) * begin / (u * u)
    return total / _NODES


def _without_trend(values: Sequence[float]) -> list[float]:
    """The values less the parabola that lies nearest to them."""
    count, rest = len(values), list(values)
    basis: list[list[float]] = []
    for power in range(_TREND):
        direction = [(2 * number / (count - 1) - 1) ** power for number in range(count)]
        for earlier in basis:
            share = math.fsum(a * b for a, b in zip(earlier, direction, strict=True))
            direction = [a - share * b for a, b in zip(direction, earlier, strict=True)]
        length = math.sqrt(math.fsum(a * a for a in direction))
        direction = [a / length for a in direction]
        basis.append(direction)
        share = math.fsum(a * b for a, b in zip(direction, rest, strict=True))
        rest = [a - share * b for a, b in zip(rest, direction, strict=True)]
    return rest
