"""The losses of a run over its steps, and how far a mean of values that hang together can be trusted."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

import pytest

from launcher.experiments import run_measures
from launcher.experiments.run_measures import (
    Estimate,
    Point,
    SeriesReader,
    Unit,
    mean_of_correlated,
    student_t,
)


def read(*lines: Mapping[str, float]) -> SeriesReader:
    reader = SeriesReader()
    for time, values in enumerate(lines):
        reader.read(float(time), values)
    return reader


def places(reader: SeriesReader) -> list[tuple[float, float]]:
    return [(point.place, point.loss) for point in reader.series().points]


def test_a_loss_stands_at_its_step_and_time() -> None:
    found = read({"step": 10, "loss": 2.5, "samples/s": 80}, {"step": 20, "loss": 2.0}).series()
    assert found.unit is Unit.STEP
    assert list(found.points) == [Point(10, 0.0, 2.5, 80), Point(20, 1.0, 2.0)]
    assert found.span == (10, 20)


def test_a_loss_that_left_all_bounds_is_infinite() -> None:
    losses = (1e308, -1e308, 1e30)
    reader = read(*({"step": step, "loss": loss} for step, loss in enumerate(losses, 1)))
    assert places(reader) == [(1, math.inf), (2, -math.inf), (3, 1e30)]


def test_a_step_that_was_printed_before_its_loss_counts_and_its_first_loss() -> None:
    steps = [(1, 3.0), (2, 2.0)]
    assert places(read({"step": 1}, {"loss": 3.0}, {"step": 2}, {"loss": 2.0})) == steps
    assert places(read({"step": 1, "loss": 3.0}, {"loss": 9.0}, {"step": 2, "loss": 2.0})) == steps
    # What a restart repeats counts once and as it was repeated.
    repeated = [(1, 1.0), (2, 1.0), (3, 1.0), (2, 5.0), (3, 5.0)]
    reader = read(*({"step": step, "loss": loss} for step, loss in repeated))
    assert places(reader) == [(1, 1.0), (2, 5.0), (3, 5.0)]


def test_steps_that_begin_again_in_each_epoch_are_counted_on() -> None:
    reader = read(*({"epoch": e, "step": s, "loss": 10.0 - e} for e in range(3) for s in (0, 10, 20)))
    assert [place for place, _ in places(reader)] == [0, 10, 20, 30, 40, 50, 60, 70, 80]


@pytest.mark.parametrize(
    ("lines", "unit", "span"),
    [
        ([{"epoch": 0.5, "loss": 2.0}, {"epoch": 1.0, "loss": 1.0}], Unit.EPOCH, (0.5, 1.0)),
        ([{"epoch": 1, "loss": 1.0}] * 5, Unit.PRINT, (1, 5)),
    ],
    ids=[
        "parts of epochs do where no steps are printed",
        "prints are counted where nothing tells them apart",
    ],
)
def test_what_a_loss_is_placed_by(
    lines: list[dict[str, float]], unit: Unit, span: tuple[float, float]
) -> None:
    found = read(*lines).series()
    assert (found.unit, found.span) == (unit, span)


def test_nothing_printed_is_no_series() -> None:
    found = read({"step": 1}).series()
    assert (list(found.points), found.span) == ([], None)


def test_a_long_run_keeps_a_bounded_number_of_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_measures, "MOST_POINTS", 100)
    found = read(*({"step": s, "loss": 1.0} for s in range(1000))).series()
    assert 50 <= len(found.points) <= 101
    assert found.span is not None
    assert found.span[1] > 980


def noise(count: int, correlation: float, random: random.Random) -> list[float]:
    """Noise of deviation 1, each value of which resembles the one before."""
    value, values = random.gauss(0, 1), []
    for _ in range(count):
        values.append(value)
        value = correlation * value + random.gauss(0, (1 - correlation**2) ** 0.5)
    return values


@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.706), (2, 4.303), (3, 3.182), (10, 2.228), (120, 1.980)]
)
def test_students_t_is_that_of_the_tables(freedom: int, value: float) -> None:
    assert student_t(freedom) == pytest.approx(value, abs=0.002)


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize("count", [16, 60, 200])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_an_interval_leaves_out_the_truth_in_at_most_5_of_100_cases(count: int, correlation: float) -> None:
    chance = random.Random(count)
    missed = sum(mean_of_correlated(noise(count, correlation, chance)).excludes_zero for _ in range(200))
    assert missed <= 10


def test_an_interval_is_not_so_wide_that_it_holds_everything() -> None:
    chance = random.Random(1)
    samples = [[1 + value for value in noise(60, 0.0, chance)] for _ in range(50)]
    assert all(mean_of_correlated(values).excludes_zero for values in samples)


def test_correlated_values_give_a_wider_interval_than_independent_ones() -> None:
    chance = random.Random(2)
    alone = mean_of_correlated(noise(100, 0.0, chance)).half_width
    assert mean_of_correlated(noise(100, 0.9, chance)).half_width > 2 * alone


def test_a_difference_that_shrinks_is_no_noise() -> None:
    chance = random.Random(3)
    values = [5 - 3 * number / 40 + value / 5 for number, value in enumerate(noise(40, 0.0, chance))]
    assert mean_of_correlated(values).excludes_zero


def test_equal_values_leave_no_doubt_and_too_few_have_no_interval() -> None:
    assert mean_of_correlated([0.25] * 10) == Estimate(0.25, 0.0)
    with pytest.raises(ValueError, match="5 values"):
        mean_of_correlated([1.0] * 5)
