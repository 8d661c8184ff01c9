"""Two runs held against each other: in what they differ, whether they learn alike, which is faster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any

from launcher.experiments.run_measures import (
    Estimate,
    Point,
    Series,
    Speed,
    SpeedRatio,
    Unit,
    faster,
    mean_of_correlated,
    speeds_of,
)
from launcher.failure_modes import training_compiler
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen

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


@frozen
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


@frozen
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


@frozen
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


@frozen
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
    same_world = first.world_size is not None and first.world_size == second.world_size
    speeds = speeds_of(first.series, second.series, _batches(first, second), same_world)
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


# What a comparison says, in sentences.


ONE_RUN_EACH = "It is one run each: another seed can move a loss further than the interval says."
"""What the interval, which is made of the noise within two runs, cannot know."""

ON_ONE_MACHINE = (
    "Runs on this machine share it with whatever else it does: speeds less than "
    f"{APART_HERE:g} times apart, or that vary by as much, are not told from each other here."
)

_TOO_MANY = 20
"""So many times what there is, nobody waits for."""


def verdicts(comparison: RunComparison, *, here: bool = False) -> list[str]:
    """Whole sentences on loss and speed, B held against A; `here` says that one ran on this machine."""
    said = [loss_verdict(comparison.loss), speed_verdict(comparison.speed)]
    difference = comparison.loss.difference
    if comparison.loss.judgement is Judgement.DIFFERS and difference and math.isfinite(difference.value):
        said.append(ONE_RUN_EACH)
    if here and comparison.speed.ratio is not None and comparison.speed.judgement is not Judgement.SAME:
        said.append(ON_ONE_MACHINE)
    return said


def loss_verdict(loss: LossComparison) -> str:
    """Whether both learn alike, by how much not, and how sure that is."""
    found, level = loss.difference, loss.level
    if found is None or level is None:
        if loss.judgement is Judgement.DIFFERS:
            return f"B learns {'worse' if loss.is_worse else 'better'} than A: {loss.why}."
        return f"Whether B learns as A does cannot be told: {loss.why}."
    where = f"over {loss.unit}s {_figure(loss.first)} to {_figure(loss.last)}"
    share = f", {_share(abs(found.value / level))} A's {level:.3g}" if level else ""
    by = f"by {abs(found.value):.3g} ± {found.half_width:.2g} ({where}{share})"
    higher = "higher" if found.value > 0 else "lower"
    if loss.judgement is Judgement.SAME:
        if found.value == 0 and found.half_width == 0:
            return f"B learns as A does, to the last digit printed ({where})."
        return f"B learns as A does: its loss is {higher} {by}, which counts as the same."
    if loss.judgement is Judgement.DIFFERS:
        return f"B learns {'worse' if loss.is_worse else 'better'} than A: its loss is {higher} {by}."
    return f"Whether B learns as A does cannot be told yet: its loss is {higher} {by}. {_more(loss)}"


def speed_verdict(speed: SpeedComparison) -> str:
    """Which is faster, how much, and how sure that is."""
    if speed.ratio is None:
        return f"Which is faster cannot be told: {speed.why}."
    medians = f"{_figure(speed.second)} {speed.unit} against {_figure(speed.first)}"
    ratio = speed.ratio
    factor = f"{ratio.value:.2f} times ({ratio.low:.2f} to {ratio.high:.2f})"
    if speed.judgement is Judgement.SAME:
        return f"B is as fast as A: {factor} its speed, {medians}."
    if speed.judgement is Judgement.DIFFERS:
        which = "faster" if speed.ratio.value > 1 else "slower"
        return f"B is {which} than A: {factor} its speed, {medians}."
    return f"Which is faster cannot be told: B has {factor} A's speed, {medians}."


def _more(loss: LossComparison) -> str:
    span = (loss.last or 0) - (loss.first or 0)
    if loss.more is None or loss.more > _TOO_MANY * max(span, 1):
        return "More of the same would take too long to tell: repeat both with other seeds."
    return f"About {_figure(max(1.0, math.ceil(loss.more)))} more {loss.unit}s would tell."


def _share(part: float) -> str:
    return f"{part:.1%} of" if part < 1 else f"{part:.3g} times"


def _figure(value: float | None) -> str:
    return "?" if value is None else f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# What the settings of two runs differ in, and what of it makes their comparison mean less.


UNSET = "unset"
"""What is shown of a field that one side does not have."""

_TELL_NOTHING = (
    "name",
    "tags",
    "output",
    "limits",
    "checkpoint",
    "metrics",
    "ignore",
    "role_arn",
    "bucket",
    "request",
)
"""Fields that change where a run is kept, how long it may last and what is said of it, not how it learns; and
what follows from the others."""

_ONE_BY_ONE = ("hyperparameters", "environment", "inputs")
"""Sections each of whose fields is a thing of its own; all that differs in another section is one thing."""

_DATA = ("inputs", "data")
_BATCHES = ("batch_size", "batch-size", "per_device_train_batch_size")
_ACCUMULATED = ("gradient_accumulation_steps", "gradient-accumulation-steps")


@frozen
class RunDifference:
    """A field, with its dotted name, that two runs have with different values, as they are shown."""

    field: str
    first: str
    second: str

    @property
    def thing(self) -> str:
        """What it is a part of: `resources`, or `hyperparameters.lr`."""
        section = self.field.partition(".")[0]
        return self.field if section in _ONE_BY_ONE else section


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[RunDifference]:
    """The fields of two nested mappings that differ, in the order of their names."""
    a, b = dict(_flat(first, "")), dict(_flat(second, ""))
    return [
        RunDifference(name, a.get(name, UNSET), b.get(name, UNSET))
        for name in sorted({*a, *b})
        if a.get(name, UNSET) != b.get(name, UNSET)
    ]


def cautions(found: Sequence[RunDifference], batches: tuple[int | None, int | None]) -> list[str]:
    """Whole sentences on what makes a comparison of two runs with these differences mean less.

    `batches` are the samples in a step of all processes of each, where they are known.
    """
    telling = [each for each in found if each.field.partition(".")[0] not in _TELL_NOTHING]
    things = list(dict.fromkeys(each.thing for each in telling))
    said = []
    if not things:
        said.append("Nothing differs that could matter: what differs between the runs is chance.")
    if len(things) > 1:
        said.append(
            f"{len(things)} things differ ({', '.join(things)}): what differs between the runs cannot be "
            "put down to one of them."
        )
    if any("seed" in each.field.rpartition(".")[2].lower() for each in telling):
        said.append("The seeds differ: part of what differs between the runs is chance.")
    if any(each.field.partition(".")[0] in _DATA for each in telling):
        said.append("The data differ: their losses need not be alike even where the runs learn alike.")
    first, second = batches
    if first is not None and second is not None and first != second:
        said.append(
            f"A step is {first} samples in A and {second} in B: the losses are compared after as many "
            "samples, and the learning rate that suits one may not suit the other."
        )
    return said


def samples_per_step(
    batch: int | None, hyperparameters: Mapping[str, Any], world_size: int | None
) -> int | None:
    """The samples that all processes of a run take in a step; None where that cannot be known.

    `batch` is that of one process where the job file has it. Else it is a hyperparameter that scripts mostly
    call so, times the steps whose gradients are accumulated.
    """
    size = batch or _number(hyperparameters, _BATCHES)
    if size is None or world_size is None:
        return None
    return size * world_size * (_number(hyperparameters, _ACCUMULATED) or 1)


def _number(hyperparameters: Mapping[str, Any], names: Sequence[str]) -> int | None:
    for name in names:
        # The service's hyperparameters are texts, of some strategies in quotes.
        text = str(hyperparameters.get(name, "")).strip('"')
        if text.isascii() and text.isdecimal() and len(text) < 10 and int(text) > 0:
            return int(text)
    return None


def _flat(value: Any, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        yield name, ", ".join(map(str, value)) or "none"
    elif value is not None:
        yield name, str(value)
