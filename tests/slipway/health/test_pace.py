"""Which ranks are slow by themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from slipway.health.losses import Loss
from slipway.health.pace import FACTOR, STEPS, ForwardTimes, slow_ranks
from slipway.health.steps import Measured, StepBlock
from slipway.health.watch import Watch

SECONDS = st.floats(0.001, 10)


def test_a_rank_of_more_than_the_factor_is_slow() -> None:
    (slow,) = slow_ranks([0.0, 0.010, 0.0, 0.0], [0.010, 0.004, 0.010, 0.011], 0.030)
    assert (slow.rank, slow.median) == (1, 0.010)
    assert slow.text("algo-2").startswith(
        "rank 1 on algo-2 is slow: 14.0 ms a step of its own (loader 10.0, forward 4.0), 1.4 times the "
        "median of 10.0 ms"
    )
    assert "Look at its loader's workers" in slow.text("algo-2")


def test_what_hardly_lengthens_a_step_is_not_told() -> None:
    assert slow_ranks([0.0, 0.0, 0.0], [0.010, 0.010, 0.015], 0.030) != []
    assert slow_ranks([0.0, 0.0, 0.0], [0.010, 0.010, 0.015], 0.300) == []
    assert slow_ranks([0.0, 0.0, 0.0], [0.0001, 0.0001, 0.0005], 0.001) == []


def test_of_two_ranks_one_can_be_slow() -> None:
    assert [slow.rank for slow in slow_ranks([0.0, 0.0], [0.010, 0.020], 0.030)] == [1]


@given(st.lists(SECONDS, min_size=1, max_size=64), SECONDS)
def test_less_than_half_of_the_ranks_are_slow_and_each_more_than_any_other(
    forward: list[float], step: float
) -> None:
    slow = {one.rank for one in slow_ranks([0.0] * len(forward), forward, step)}
    assert len(slow) <= len(forward) / 2
    assert all(forward[rank] > FACTOR * min(forward) for rank in slow)
    rest = [seconds for rank, seconds in enumerate(forward) if rank not in slow]
    assert all(forward[rank] > min(rest) for rank in slow)


def told(number: int, *forwards: float, steps: int = 1) -> StepBlock:
    block = StepBlock([Loss(1.0)] * steps, number, Measured(0.0, 0.0, [], 0.0))
    block.rows = [[0.0, 0.0, 0.0, steps * seconds, steps * 0.020] for seconds in forwards]
    return block


def test_a_rank_is_named_after_so_many_steps_and_only_once(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(None, ["algo-1", "algo-2", "algo-3"], 0)
    for number in range(STEPS - 1):
        watch.look(told(number, 0.010, 0.010, 0.015))
    assert "is slow" not in capsys.readouterr().err
    for number in range(2 * STEPS):
        watch.look(told(number, 0.010, 0.010, 0.015))
    assert capsys.readouterr().err.count("rank 2 on algo-3 is slow: 15.0 ms") == 1


def test_steps_that_are_told_of_at_once_count_as_many(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(None, ["algo-1", "algo-2", "algo-3"], 0)
    for number in range(STEPS // 7):
        watch.look(told(7 * number, 0.010, 0.010, 0.015, steps=7))
    assert "is slow" not in capsys.readouterr().err
    watch.look(told(STEPS, 0.010, 0.010, 0.015, steps=7))
    assert "rank 2 on algo-3 is slow: 15.0 ms" in capsys.readouterr().err


def test_a_single_slow_step_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(None, ["algo-1", "algo-2", "algo-3"], 0)
    for number in range(STEPS):
        watch.look(told(number, 0.010, 0.010, 0.100 if number == 7 else 0.010))
    assert "is slow" not in capsys.readouterr().err


def test_another_rank_than_the_first_says_nothing_of_pace(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(None, ["algo-1", "algo-2"], 1)
    for number in range(STEPS):
        watch.look(told(number, 0.010, 0.020))
    assert "is slow" not in capsys.readouterr().err


class FullyShardedDataParallel(nn.Linear):
    """By its name alone, as the real one cannot be made without a process group."""


@pytest.mark.parametrize("model", [FullyShardedDataParallel(1, 1), nn.Sequential(nn.SyncBatchNorm(1))])
def test_the_forward_of_a_model_that_gathers_within_it_is_not_measured(model: nn.Module) -> None:
    ForwardTimes(model)
    assert not model._forward_pre_hooks
    plain = nn.Linear(1, 1)
    ForwardTimes(plain)
    assert plain._forward_pre_hooks
