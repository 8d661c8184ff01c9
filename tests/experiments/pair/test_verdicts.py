"""What a comparison says, in sentences."""

from __future__ import annotations

import math

import pytest

from launcher.experiments.pair.comparison import Judgement, LossComparison, RunComparison, SpeedComparison
from launcher.experiments.pair.estimates import Estimate
from launcher.experiments.pair.rates import SpeedRatio
from launcher.experiments.pair.verdicts import ON_ONE_MACHINE, ONE_RUN_EACH, on_loss, on_speed, verdicts

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
    assert says in on_loss(compared)


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
    assert says in on_speed(compared)


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
