"""The loss of a run over its steps, from the values that its lines hold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

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


@dataclass(frozen=True, slots=True)
class Point:
    """One loss that a run printed: at which place, when (seconds since the epoch), and at which speed.

    `speed` is what the run itself printed, in samples per second; None where it did not. `loss` may be nan or
    infinite.
    """

    place: float
    time: float
    loss: float
    speed: float | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """The points of a run, by rising place, each place once."""

    unit: Unit
    points: Sequence[Point]

    @property
    def span(self) -> tuple[float, float] | None:
        """The first and the last place; None without points."""
        return (self.points[0].place, self.points[-1].place) if self.points else None


@dataclass(frozen=True, slots=True)
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
