"""Two runs held against each other: same, differs or cannot tell, which is faster, and that in sentences."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.experiments.run_comparison import (
    ON_ONE_MACHINE,
    ONE_RUN_EACH,
    Judgement,
    LossComparison,
    RunComparison,
    RunDifference,
    RunSide,
    SpeedComparison,
    cautions,
    compare,
    compare_losses,
    compare_speeds,
    differences,
    loss_verdict,
    samples_per_step,
    speed_verdict,
    verdicts,
)
from launcher.experiments.run_measures import Estimate, Point, Series, SpeedRatio, Unit

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))


def side(
    label: str = "A",
    *,
    seed: int = 0,
    points: int = 100,
    every: int = 10,
    above: float = 0.0,
    noise: float = 0.02,
    correlation: float = 0.0,
    seconds: float = 1.0,
    speed: float | None = None,
    batch: int | None = None,
    world_size: int | None = 4,
    learning: float = 1.0,
    compiled: bool = False,
    unit: Unit = Unit.STEP,
) -> RunSide:
    """A run whose loss falls from 3 towards 1, and stays `above` it, with noise of that deviation.

    A point comes every so many steps and `seconds`; `learning` is how fast the loss falls by samples.
    """
    chance, wandering, time, found = random.Random(seed), 0.0, 0.0, []
    for number in range(1, points + 1):
        wandering = correlation * wandering + chance.gauss(0, noise * math.sqrt(1 - correlation**2))
        samples = number * every * (batch or 64)
        loss = 1 + above + 2 * math.exp(-learning * samples / 20_000) + wandering
        time += seconds * chance.uniform(0.9, 1.1)
        printed = speed and speed * chance.uniform(0.95, 1.05)
        found.append(Point(number * every, time, loss, printed))
    return RunSide(label, Series(unit, found), world_size, batch, compiled)


NOISY: dict[str, Any] = {"points": 30, "noise": 0.5}
LOSSES: dict[str, tuple[RunSide, RunSide, Judgement, dict[str, Any]]] = {
    "runs that learn alike": (
        side(seed=1), side("B", seed=2), Judgement.SAME, {"unit": "step", "common": 100, "last": 1000},
    ),
    "a loss that stays higher": (
        side(seed=1), side("B", seed=2, above=0.1), Judgement.DIFFERS, {"is_worse": True},
    ),
    "a loss that stays lower": (
        side(seed=1), side("B", seed=2, above=-0.1), Judgement.DIFFERS, {"is_worse": False},
    ),
    "steps of another size, by samples": (
        side(batch=64, points=200), side("B", batch=128, points=100, seed=1), Judgement.SAME,
        {"unit": "sample", "last": 128_000},
    ),
    "places that only one run has, met between the others": (
        side(every=1, points=1000, noise=0.0, batch=64), side("B", every=7, points=140, noise=0.0, batch=64),
        Judgement.SAME, {"common": 140},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("first", "second", "judgement", "told"), LOSSES.values(), ids=LOSSES)
def test_how_losses_compare(
    first: RunSide, second: RunSide, judgement: Judgement, told: dict[str, Any]
) -> None:
    found = compare_losses(first, second)
    assert found.judgement is judgement
    assert {name: getattr(found, name) for name in told} == told


def test_how_large_a_difference_is_and_how_many_more_steps_would_tell() -> None:
    higher = compare_losses(side(seed=1), side("B", seed=2, above=0.1)).difference
    assert higher is not None and higher.low < 0.1 < higher.high
    twice = compare_losses(side(), side("B"))
    assert twice.judgement is Judgement.SAME
    assert twice.difference is not None and twice.difference.half_width == 0
    found = compare_losses(side(seed=1, **NOISY), side("B", seed=4, **NOISY))
    assert found.judgement is Judgement.UNCLEAR
    assert found.more is not None and found.more > 0


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("points", [32, 120])
def test_equal_runs_are_told_apart_in_at_most_5_of_100_cases(points: int, correlation: float) -> None:
    wrong = 0
    for seed in range(100):
        first = side(seed=2 * seed, points=points, noise=0.1, correlation=correlation)
        second = side("B", seed=2 * seed + 1, points=points, noise=0.1, correlation=correlation)
        wrong += compare_losses(first, second).judgement is Judgement.DIFFERS
    assert wrong <= 5


def test_a_real_difference_is_found_in_most_cases() -> None:
    found = 0
    for seed in range(50):
        first = side(seed=2 * seed, noise=0.1, correlation=0.5)
        second = side("B", seed=2 * seed + 1, noise=0.1, correlation=0.5, above=0.25)
        found += compare_losses(first, second).is_worse
    assert found >= 45


def test_too_few_steps_in_common_give_no_verdict() -> None:
    found = compare_losses(side(points=3), side("B", points=100))
    assert found.judgement is Judgement.UNCLEAR
    assert found.why == (
        "not enough points: 3 steps in common, and 20 are needed; train longer, or print the loss more often"
    )


def test_runs_that_share_no_step_give_no_verdict() -> None:
    late = RunSide("B", Series(Unit.STEP, [Point(5000 + n, n, 1.0) for n in range(30)]))
    assert str(compare_losses(side(), late).why).startswith("not enough points: 0 steps in common")


def test_a_run_without_losses_is_named() -> None:
    found = compare_losses(side(), RunSide("B", Series(Unit.STEP, [])))
    assert str(found.why).startswith(
        "no loss was found in what B printed; where the script does print one, `metrics`"
    )


def test_steps_are_not_compared_with_epochs() -> None:
    found = compare_losses(side(), side("B", unit=Unit.EPOCH))
    assert found.why == "A prints its losses by step, B by epoch"


def test_a_loss_that_becomes_no_number_differs() -> None:
    good = side()
    points = [p if p.place < 500 else Point(p.place, p.time, math.nan) for p in side("B").series.points]
    found = compare_losses(good, RunSide("B", Series(Unit.STEP, points)))
    assert (found.judgement, found.is_worse) == (Judgement.DIFFERS, True)
    assert found.why == "the loss of B is no number (nan or inf) from step 500 on"
    assert not compare_losses(RunSide("B", Series(Unit.STEP, points)), good).is_worse


def test_the_faster_run_is_found_by_the_times_of_its_lines() -> None:
    found = compare_speeds(side(batch=64, seed=1), side("B", batch=64, seconds=0.5, seed=2))
    assert (found.judgement, found.unit) == (Judgement.DIFFERS, "samples/s")
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(2, rel=0.05)
    assert found.first == pytest.approx(640, rel=0.05)


def test_what_the_runs_print_themselves_goes_first_where_their_worlds_are_alike() -> None:
    # Steps per second do where nobody knows their size.
    assert compare_speeds(side(), side("B", seconds=2)).unit == "steps/s"
    found = compare_speeds(side(speed=100), side("B", speed=100, seconds=9, seed=1))
    assert (found.judgement, found.unit) == (Judgement.SAME, "samples/s")
    larger = side("B", speed=100, batch=64, world_size=8, seconds=2)
    assert compare_speeds(side(speed=100, batch=64), larger).judgement is Judgement.DIFFERS


def test_the_warm_up_does_not_count() -> None:
    slow_start = side(batch=64, seed=1)
    points = [
        Point(p.place, p.time + (500 if n > 5 else 0), p.loss) for n, p in enumerate(slow_start.series.points)
    ]
    found = compare_speeds(RunSide("A", Series(Unit.STEP, points), 4, 64), side("B", batch=64, seed=2))
    assert found.judgement is Judgement.SAME


@pytest.mark.parametrize(
    ("seconds", "judgement"),
    [(1.8, "cannot tell"), (0.55, "cannot tell"), (3.0, "differs"), (0.3, "differs")],
)
def test_on_this_machine_only_speeds_that_are_far_apart_differ(seconds: float, judgement: str) -> None:
    first, second = side(batch=64, seed=1), side("B", batch=64, seconds=seconds, seed=2)
    assert compare(first, second).speed.judgement == "differs"
    assert compare(first, second, here=True).speed.judgement == judgement


def test_on_this_machine_a_run_that_staggers_has_no_speed_to_compare() -> None:
    steady, staggering = side(batch=64, seed=1), side("B", batch=64, seconds=4, seed=2)
    points, late = [], 0.0
    for n, point in enumerate(staggering.series.points):
        late += 60 if 40 <= n < 70 else 0
        points.append(Point(point.place, point.time + late, point.loss))
    found = compare(steady, RunSide("B", Series(Unit.STEP, points), 4, 64), here=True).speed
    assert found.ratio is not None and found.ratio.high < 1 / 2
    assert found.judgement is Judgement.UNCLEAR


def test_a_short_run_has_no_speed() -> None:
    found = compare_speeds(side(points=9), side("B"))
    assert found.why == "not enough points: 9 in the shorter run, and 10 are needed"


def codes(first: RunSide, second: RunSide) -> list[str]:
    return [finding.code for finding in compare(first, second).findings]


def test_a_compiled_run_that_learns_worse_and_is_no_faster_is_named() -> None:
    compiled = side("B", seed=2, above=0.2, compiled=True)
    assert codes(side(seed=1), compiled) == ["XLA007", "XLA008"]
    assert codes(compiled, side(seed=1)) == ["XLA007", "XLA008"]
    assert codes(side(seed=1), side("B", seed=2, compiled=True, seconds=0.5)) == []
    assert codes(side(seed=1), side("B", seed=2, above=0.2)) == [], "nothing is said without the compiler"


JOB: dict[str, Any] = {
    "name": "digits",
    "distribution": {"strategy": "torchrun", "processes_per_host": 8},
    "hyperparameters": {"lr": 0.1, "seed": 1},
    "resources": {"instance_count": 2},
    "secrets": None,
}


def changed(**sections: Any) -> list[RunDifference]:
    return differences(JOB, {**JOB, **sections})


def test_fields_that_differ_are_named_with_both_values() -> None:
    found = changed(hyperparameters={"lr": 0.2, "seed": 1, "warmup": [1, 2]})
    assert found == [
        RunDifference("hyperparameters.lr", "0.1", "0.2"),
        RunDifference("hyperparameters.warmup", "unset", "1, 2"),
    ]


def test_one_thing_that_differs_needs_no_caution_and_a_name_or_a_limit_is_nothing_that_matters() -> None:
    one = changed(distribution={"strategy": "torch_xla", "processes_per_host": 4})
    assert cautions(one, (None, None)) == []
    (said,) = cautions(changed(name="other", limits={"max_runtime": 60}), (8, 8))
    assert said.startswith("Nothing differs that could matter")


@pytest.mark.parametrize(("sections", "says"), CASES["cautions"])
def test_what_makes_a_comparison_mean_less_is_said(sections: dict[str, Any], says: str) -> None:
    assert says in " ".join(cautions(changed(**sections), (8, 8)))


def test_steps_of_different_sizes_are_said() -> None:
    (said,) = cautions(changed(resources={"instance_count": 4}), (512, 1024))
    assert "512 samples in A and 1024 in B" in said


@pytest.mark.parametrize(("batch", "hyperparameters", "world_size", "samples"), CASES["samples"])
def test_the_samples_of_a_step_are_those_of_all_processes(
    batch: int | None, hyperparameters: dict[str, Any], world_size: int | None, samples: int | None
) -> None:
    assert samples_per_step(batch, hyperparameters, world_size) == samples


SAME, DIFFERS, UNCLEAR = Judgement.SAME, Judgement.DIFFERS, Judgement.UNCLEAR


def loss(judgement: Judgement, value: float, half_width: float, more: float | None = None) -> LossComparison:
    return LossComparison(judgement, "step", 40, 500.0, 1000.0, 2.0, Estimate(value, half_width), more)


@pytest.mark.parametrize(
    ("compared", "says"),
    [
        (
            loss(DIFFERS, 0.1, 0.02),
            "B learns worse than A: its loss is higher by 0.1 ± 0.02 (over steps 500 to 1,000, 5.0% of A's",
        ),
        (loss(DIFFERS, -0.1, 0.02), "B learns better than A: its loss is lower by 0.1 ± 0.02"),
        (loss(DIFFERS, 8.0, 0.1), "higher by 8 ± 0.1 (over steps 500 to 1,000, 4 times A's 2)."),
        (loss(SAME, 0.01, 0.01), "B learns as A does: its loss is higher by 0.01 ± 0.01"),
        (loss(SAME, 0, 0), "B learns as A does, to the last digit printed (over steps 500 to 1,000)."),
        (loss(UNCLEAR, 0.1, 0.2, more=1500.4), "About 1,501 more steps would tell."),
        (loss(UNCLEAR, 0.001, 0.2, more=90_000), "repeat both with other seeds"),
        (
            LossComparison(UNCLEAR, "step", 3, why="not enough points: 3 steps in common"),
            "Whether B learns as A does cannot be told: not enough points: 3 steps in common.",
        ),
        (
            LossComparison(DIFFERS, "step", 9, 5, 9, difference=Estimate(math.inf, 0), why="B is nan"),
            "B learns worse than A: B is nan.",
        ),
    ],
)  # fmt: skip
def test_the_loss_is_told_with_how_much_and_how_sure(compared: LossComparison, says: str) -> None:
    assert says in loss_verdict(compared)


@pytest.mark.parametrize(
    ("compared", "says"),
    [
        (
            SpeedComparison(DIFFERS, "samples/s", 640, 1280, SpeedRatio(2.0, 1.9, 2.1)),
            "B is faster than A: 2.00 times (1.90 to 2.10) its speed, 1,280 samples/s against 640.",
        ),
        (SpeedComparison(DIFFERS, "steps/s", 2, 1, SpeedRatio(0.5, 0.4, 0.6)), "B is slower than A: 0.50"),
        (SpeedComparison(SAME, "steps/s", 2, 2, SpeedRatio(1.0, 0.99, 1.01)), "B is as fast as A"),
        (SpeedComparison(UNCLEAR, "steps/s", 2, 2, SpeedRatio(1.1, 0.7, 1.6)), "faster cannot be told"),
        (SpeedComparison(UNCLEAR, why="no times"), "Which is faster cannot be told: no times."),
    ],
)  # fmt: skip
def test_the_speed_is_told_with_both_medians(compared: SpeedComparison, says: str) -> None:
    assert says in speed_verdict(compared)


def test_a_difference_comes_with_what_the_interval_cannot_know() -> None:
    speed = SpeedComparison(UNCLEAR, why="no times")
    assert verdicts(RunComparison(loss(DIFFERS, 0.1, 0.02), speed))[-1] == ONE_RUN_EACH
    assert ONE_RUN_EACH not in verdicts(RunComparison(loss(SAME, 0.0, 0.0), speed))


@pytest.mark.parametrize("judgement", [DIFFERS, UNCLEAR])
def test_a_speed_that_is_not_the_same_here_is_told_with_a_caution(judgement: Judgement) -> None:
    speed = SpeedComparison(judgement, "steps/s", 2, 1, SpeedRatio(0.5, 0.4, 0.6))
    compared = RunComparison(loss(SAME, 0.0, 0.0), speed)
    assert verdicts(compared, here=True)[-1] == ON_ONE_MACHINE
    assert ON_ONE_MACHINE not in verdicts(compared)
