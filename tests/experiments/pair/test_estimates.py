"""How far the mean of values that hang together can be trusted."""

from __future__ import annotations

import random

import pytest

from launcher.experiments.pair.estimates import Estimate, mean_of_correlated, student_t


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


@pytest.mark.parametrize("count", [16, 60, 200])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_an_interval_leaves_out_the_truth_in_at_most_5_of_100_cases(count: int, correlation: float) -> None:
    chance = random.Random(count)
    missed = sum(mean_of_correlated(noise(count, correlation, chance)).excludes_zero for _ in range(200))
    assert missed <= 10


def test_an_interval_is_not_so_wide_that_it_holds_everything() -> None:
    chance = random.Random(1)
    found = sum(
        mean_of_correlated([1 + value for value in noise(60, 0.0, chance)]).excludes_zero for _ in range(50)
    )
    assert found == 50


def test_correlated_values_give_a_wider_interval_than_independent_ones() -> None:
    chance = random.Random(2)
    alone = mean_of_correlated(noise(100, 0.0, chance)).half_width
    assert mean_of_correlated(noise(100, 0.9, chance)).half_width > 2 * alone


def test_a_difference_that_shrinks_is_no_noise() -> None:
    chance = random.Random(3)
    values = [5 - 3 * number / 40 + value / 5 for number, value in enumerate(noise(40, 0.0, chance))]
    assert mean_of_correlated(values).excludes_zero


def test_equal_values_leave_no_doubt() -> None:
    assert mean_of_correlated([0.25] * 10) == Estimate(0.25, 0.0)


def test_too_few_values_have_no_interval() -> None:
    with pytest.raises(ValueError, match="5 values"):
        mean_of_correlated([1.0] * 5)
