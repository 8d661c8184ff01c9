"""Two runs beside each other: whether they learn alike, and which is faster, each with how sure that is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from launcher.experiments.estimates import Estimate, mean_of_correlated
from launcher.experiments.rates import Speed, SpeedRatio, faster, speeds_of
from launcher.experiments.series import Point, Series, Unit
from launcher.failure_modes import training_compiler
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds

SAME_WITHIN = 0.02
"""A loss that differs by less than this part of it counts as the same, unless the user says otherwise."""

LEAST_POINTS = 20
"""Points in common below which nothing is said of the losses: the second half of them is compared."""

APART_HERE = 2.0
"""On this machine speeds whose interval begins nearer than this many times, or is itself wider, are not told
from each other. The same job, run twice on two cores that others used as well, was up to 1.77 times as fast
as itself; while the machine was overloaded a run lost nine tenths of its speed, and jumped by so much."""

_MOST_POINTS = 2000
"""Places at which the losses are compared; of more, evenly chosen ones."""


class Judgement(StrEnum):
    """What two runs show."""

    SAME = "same"
    DIFFERS = "differs"
    UNCLEAR = "cannot tell"


@dataclass(frozen=True, slots=True)
class RunSide:
    """One of two runs: what it printed, and what a step of it was.

    `batch` is the samples of all its processes in a step, None where that is not known; `compiled` says that
    SageMaker Training Compiler was used.
    """

    label: str
    series: Series
    world_size: int | None = None
    batch: int | None = None
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class LossComparison:
    """The losses of the second run less those of the first, over the second half of what both trained.

    `unit` is what both were compared by: `samples`, or one of the series'. `common` is how many places both
    have, `first` and `last` the compared ones. `level` is the loss of the first run there, `difference` that
    of the second less it; both None where nothing could be reckoned, and then `why` tells. `more` is about
    how many units more would decide.
    """

    judgement: Judgement
    unit: str
    common: int = 0
    first: float | None = None
    last: float | None = None
    level: float | None = None
    difference: Estimate | None = None
    more: float | None = None
    why: str | None = None

    @property
    def is_worse(self) -> bool:
        """Whether the second run learns worse than the first."""
        return (
            self.judgement is Judgement.DIFFERS and self.difference is not None and self.difference.value > 0
        )


@dataclass(frozen=True, slots=True)
class SpeedComparison:
    """The speed of the second run over that of the first, after the warm-up of each.

    `ratio` has its interval; None where nothing could be reckoned, and then `why` tells. `unit` is such as
    `samples/s`; `first` and `second` are the medians.
    """

    judgement: Judgement
    unit: str | None = None
    first: float | None = None
    second: float | None = None
    ratio: SpeedRatio | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """What two runs show beside each other."""

    loss: LossComparison
    speed: SpeedComparison
    findings: tuple[Finding, ...] = ()


def compare(
    first: RunSide, second: RunSide, same_within: float = SAME_WITHIN, *, here: bool = False
) -> RunComparison:
    """What two runs show; `same_within` is the part of the loss by which equal ones may differ.

    `here` says that one of them ran on this machine, whose speed is not its own.
    """
    loss = compare_losses(first, second, same_within)
    speed = compare_speeds(first, second, APART_HERE if here else 1.0)
    return RunComparison(loss, speed, tuple(_about_the_compiler(first, second, loss, speed)))


def compare_losses(first: RunSide, second: RunSide, same_within: float = SAME_WITHIN) -> LossComparison:
    """Whether two runs learn alike: their losses at the same steps, or after the same number of samples.

    By samples where both know the size of their steps and those differ. Where only one run has a place, the
    other's loss there lies on the line between its neighbours.
    """
    unit = first.series.unit
    if not first.series.points or not second.series.points:
        without = [side.label for side in (first, second) if not side.series.points]
        return _unclear(unit, f"no loss was found in what {' and '.join(without)} printed; {_NAME_IT}")
    if unit is not second.series.unit:
        return _unclear(
            unit, f"{first.label} prints its losses by {unit}, {second.label} by {second.series.unit}"
        )
    name, scales = _common_unit(first, second)
    pairs = _pairs(_scaled(first.series.points, scales[0]), _scaled(second.series.points, scales[1]))
    broken = _broken(first, second, pairs, name)
    if broken is not None:
        return broken
    finite = [each for each in pairs if math.isfinite(each[1]) and math.isfinite(each[2])]
    if len(finite) < LEAST_POINTS:
        return _unclear(
            name,
            f"not enough points: {len(finite)} {_PLURALS[unit]} in common, and {LEAST_POINTS} are needed; "
            "train longer, or print the loss more often",
            common=len(finite),
        )
    return _judged(finite[len(finite) // 2 :], finite, name, same_within)


def compare_speeds(first: RunSide, second: RunSide, apart: float = 1.0) -> SpeedComparison:
    """Which run is faster, by the samples per second that both print, else by the times of their lines.

    The interval knows what moves within the runs, not what moves between them: it has to lie beyond `apart`
    times either way, and where that is more than 1, to be no wider than that.
    """
    speeds = speeds_of(first.series, second.series, _batches(first, second), _same_world(first, second))
    if isinstance(speeds, str):
        return SpeedComparison(Judgement.UNCLEAR, why=speeds)
    unit, a, b = speeds
    ratio = faster(a, b)
    judgement = Judgement.UNCLEAR
    steady = apart == 1 or ratio.high / ratio.value <= apart
    if steady and (ratio.low > apart or ratio.high < 1 / apart):
        judgement = Judgement.DIFFERS
    elif ratio.low <= 1 <= ratio.high and ratio.high / ratio.value - 1 <= Speed.SAME_WITHIN:
        judgement = Judgement.SAME
    return SpeedComparison(judgement, unit, a.median, b.median, ratio)


_NAME_IT = "where the script does print one, `metrics` says how: {loss: 'my loss is ([0-9.]+)'}"

_PLURALS = {Unit.STEP: "steps", Unit.EPOCH: "epochs", Unit.PRINT: "losses"}

_Pair = tuple[float, float, float]
"""A place, the first run's loss there and the second's."""


@finds(Stage.LOG, training_compiler.DIVERGES_FROM_NATIVE, training_compiler.NO_GAIN_IN_TIME)
def _about_the_compiler(
    first: RunSide, second: RunSide, loss: LossComparison, speed: SpeedComparison
) -> Iterator[Finding]:
    """What the comparison says of Training Compiler, where one of the two runs has it."""
    if first.compiled == second.compiled:
        return
    compiled = first if first.compiled else second
    native = second if first.compiled else first
    if loss.judgement is Judgement.DIFFERS and loss.is_worse == (compiled is second):
        yield training_compiler.DIVERGES_FROM_NATIVE.finding(
            Stage.LOG,
            f"with Training Compiler ({compiled.label}) the loss stays above that without ({native.label})",
            severity=Severity.WARNING,
        )
    if speed.ratio is None or speed.judgement is Judgement.UNCLEAR:
        return
    gains = speed.ratio.value > 1 if compiled is second else speed.ratio.value < 1
    if speed.judgement is Judgement.SAME or not gains:
        yield training_compiler.NO_GAIN_IN_TIME.finding(
            Stage.LOG,
            f"with Training Compiler ({compiled.label}) the training is not faster than without "
            f"({native.label})",
            severity=Severity.WARNING,
        )


def _judged(
    compared: Sequence[_Pair], common: Sequence[_Pair], name: str, same_within: float
) -> LossComparison:
    difference = mean_of_correlated([second - first for _, first, second in compared])
    level = math.fsum(first for _, first, _ in compared) / len(compared)
    bound = same_within * abs(level)
    judgement, more = Judgement.UNCLEAR, None
    if difference.lies_within(bound):
        judgement = Judgement.SAME
    elif difference.excludes_zero:
        judgement = Judgement.DIFFERS
    else:
        # The interval narrows with the root of the number of points: to where it leaves out zero, or lies
        # within what counts as the same, whichever comes first.
        wanted = max(abs(difference.value), bound - abs(difference.value))
        span = common[-1][0] - common[0][0]
        more = span * ((difference.half_width / wanted) ** 2 - 1) if wanted > 0 else None
    return LossComparison(
        judgement, name, len(common), compared[0][0], compared[-1][0], level, difference, more
    )


def _broken(first: RunSide, second: RunSide, pairs: Sequence[_Pair], name: str) -> LossComparison | None:
    """What there is to say where a loss is no number at the end of what both trained."""
    if not pairs:
        return None
    place, *losses = pairs[-1]
    bad = [side.label for side, loss in zip((first, second), losses, strict=True) if not math.isfinite(loss)]
    if not bad:
        return None
    number = 1 if bad == [first.label] else 2
    since = next(each[0] for each in pairs if not math.isfinite(each[number]))
    why = f"the loss of {' and '.join(bad)} is no number (nan or inf) from {name} {since:g} on"
    if len(bad) == 2:
        return _unclear(name, why, common=len(pairs))
    worse = math.inf if bad == [second.label] else -math.inf
    return LossComparison(
        Judgement.DIFFERS, name, len(pairs), since, place, difference=Estimate(worse, 0.0), why=why
    )


def _unclear(unit: str, why: str, common: int = 0) -> LossComparison:
    return LossComparison(Judgement.UNCLEAR, unit, common, why=why)


def _common_unit(first: RunSide, second: RunSide) -> tuple[str, tuple[float, float]]:
    """What both runs are compared by, and how much of it a unit of each is."""
    unit = first.series.unit
    batches = _batches(first, second)
    if unit is Unit.STEP and batches is not None and batches[0] != batches[1]:
        return "sample", (float(batches[0]), float(batches[1]))
    return unit.value, (1.0, 1.0)


def _batches(first: RunSide, second: RunSide) -> tuple[int, int] | None:
    return None if first.batch is None or second.batch is None else (first.batch, second.batch)


def _same_world(first: RunSide, second: RunSide) -> bool:
    return first.world_size is not None and first.world_size == second.world_size


def _scaled(points: Sequence[Point], scale: float) -> list[tuple[float, float]]:
    return [(point.place * scale, point.loss) for point in points]


def _pairs(first: Sequence[tuple[float, float]], second: Sequence[tuple[float, float]]) -> list[_Pair]:
    """Both losses at the places of the run that has fewer within what both trained."""
    low, high = max(first[0][0], second[0][0]), min(first[-1][0], second[-1][0])
    places = min(
        ([place for place, _ in points if low <= place <= high] for points in (first, second)), key=len
    )
    stride = -(-len(places) // _MOST_POINTS) or 1
    places = places[::stride]
    return list(zip(places, _at(first, places), _at(second, places), strict=True))


def _at(points: Sequence[tuple[float, float]], places: Sequence[float]) -> Iterator[float]:
    """The loss at each place, which rise, and lie within the points."""
    lines = iter(pairwise(points))
    left, right = points[0], points[0]
    for place in places:
        while right[0] < place:
            left, right = next(lines)
        if right[0] == place:
            yield right[1]
        else:
            share = (place - left[0]) / (right[0] - left[0])
            yield left[1] + share * (right[1] - left[1])
