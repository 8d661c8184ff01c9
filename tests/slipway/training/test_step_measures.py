"""What is measured of steps: losses and pace, and how they travel between the ranks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from slipway.training.agreement import Rows
from slipway.training.guard import Watch
from slipway.training.step_measures import (
    BLOCK_SECONDS,
    FINITE,
    INFINITE,
    MOST_STEPS_IN_BLOCK,
    NAN,
    NEGATIVE,
    SLOW_FACTOR,
    STEPS_PER_PACE_LOOK,
    AgreedSteps,
    ForwardTimes,
    Loss,
    StepBlock,
    StepMeasures,
    block_length,
    not_finite_text,
    slow_ranks,
)

QUICK, SLOW = BLOCK_SECONDS / MOST_STEPS_IN_BLOCK / 2, 2 * BLOCK_SECONDS


class LateLoss(Loss):
    """A loss that a device has yet to compute, without a device."""

    @property
    def is_late(self) -> bool:
        return True


class Exchange:
    """What all ranks gave, by the order in which each gave it: two ranks of one process, step by step."""

    def __init__(self) -> None:
        self.given: list[list[Sequence[float]]] = [[], []]

    def rows(self, number: int) -> Rows:
        assert all(len(given) > number for given in self.given), "a rank waits for what another has not given"
        return [list(given[number]) for given in self.given]


class Answer:
    def __init__(self, exchange: Exchange, number: int) -> None:
        self._exchange, self._number = exchange, number

    def wait(self) -> Rows:
        return self._exchange.rows(self._number)


class OneRank:
    """Stands for the group: gives its rows to the exchange."""

    def __init__(self, exchange: Exchange, rank: int) -> None:
        self._exchange, self._rank = exchange, rank

    def begin(self, row: Sequence[float]) -> Answer:
        given = self._exchange.given[self._rank]
        given.append(row)
        return Answer(self._exchange, len(given) - 1)


class Alone(OneRank):
    """A world of one rank."""

    def __init__(self) -> None:
        super().__init__(Exchange(), 0)

    def begin(self, row: Sequence[float]) -> Any:
        self._exchange.given = [[*self._exchange.given[0], row]] * 2
        return Answer(self._exchange, len(self._exchange.given[0]) - 1)

    def ask(self, row: Sequence[float]) -> Rows:
        rows: Rows = self.begin(row).wait()
        return rows


def steps_of(group: Any, seconds: Sequence[float] = (), most: int = MOST_STEPS_IN_BLOCK) -> AgreedSteps:
    """Steps that take so many seconds each, from the first on, and QUICK ones after them."""
    pending = [0]
    taken = itertools.chain(seconds, itertools.repeat(QUICK))

    class Timed(AgreedSteps):
        def check_later(self, loss: Loss) -> list[StepBlock]:
            pending[0] += 1
            return super().check_later(loss)

    def measured() -> StepMeasures:
        count, pending[0] = pending[0], 0
        return StepMeasures(0.0, 0.0, [], sum(itertools.islice(taken, count)))

    return Timed(group, measured, most)


def test_quick_steps_are_told_of_by_ten_after_the_first_ones() -> None:
    steps = steps_of(Alone())
    blocks = [block for _ in range(2 * MOST_STEPS_IN_BLOCK + 4) for block in steps.check_later(Loss(1.0))]
    assert [len(block) for block in blocks] == [1, 1, MOST_STEPS_IN_BLOCK, MOST_STEPS_IN_BLOCK]
    assert [block.first for block in blocks] == [1, 2, 3, 3 + MOST_STEPS_IN_BLOCK]


def test_slow_steps_are_told_of_one_by_one() -> None:
    steps = steps_of(Alone(), [SLOW] * 20)
    assert [len(block) for _ in range(20) for block in steps.check_later(Loss(1.0))] == [1] * 19


def test_where_each_step_must_be_known_quick_ones_are_told_of_one_by_one_too() -> None:
    steps = steps_of(Alone(), most=1)
    assert [len(block) for _ in range(20) for block in steps.check_later(Loss(1.0))] == [1] * 19


@given(broken=st.integers(1, 40), late=st.booleans(), seconds=st.lists(st.sampled_from([QUICK, SLOW])))
def test_a_broken_step_is_known_by_its_number_at_most_so_many_steps_later(
    broken: int, late: bool, seconds: list[float]
) -> None:
    kind = LateLoss if late else Loss
    steps = steps_of(Alone(), seconds)
    for step in range(1, 60):
        blocks = steps.check_later(kind(math.nan if step == broken else 1.0))
        found = [block.not_finite() for block in blocks if block.not_finite() is not None]
        if found:
            assert found == [(broken, [NAN, NAN])]
            assert broken < step <= broken + MOST_STEPS_IN_BLOCK + late
            return
    pytest.fail("it was never found")


@given(steps=st.integers(0, 40), late=st.lists(st.booleans(), min_size=40, max_size=40))
def test_every_step_is_told_of_once_and_in_order(steps: int, late: list[bool]) -> None:
    agreed = steps_of(Alone(), [SLOW] * 3)
    blocks = [
        block for number in range(steps) for block in agreed.check_later((Loss, LateLoss)[late[number]](1.0))
    ]
    blocks += agreed.wait_for_rest()
    told = [block.first + offset for block in blocks for offset in range(len(block))]
    assert told == list(range(1, steps + 1))
    assert agreed.wait_for_rest() == []


@given(
    late=st.lists(st.booleans(), min_size=60, max_size=60),
    seconds=st.lists(st.sampled_from([QUICK, BLOCK_SECONDS / 3, SLOW])),
)
def test_ranks_tell_of_the_same_steps_though_a_device_computes_the_loss_of_only_one(
    late: list[bool], seconds: list[float]
) -> None:
    exchange = Exchange()
    first, second = (steps_of(OneRank(exchange, rank), seconds) for rank in (0, 1))
    blocks: tuple[list[StepBlock], list[StepBlock]] = ([], [])
    for number in range(60):
        # The rank that is late gives its row in the next step: there the other one would wait for it.
        blocks[1].extend(second.check_later((Loss, LateLoss)[late[number]](1.0)))
        blocks[0].extend(first.check_later(Loss(1.0)))
    shared = min(len(one) for one in blocks)
    assert shared > 5
    assert [(one.first, len(one)) for one in blocks[0][:shared]] == [
        (one.first, len(one)) for one in blocks[1][:shared]
    ]


def test_the_first_of_the_broken_steps_counts_and_only_the_ranks_that_broke_in_it() -> None:
    block = StepBlock([Loss(1.0)] * 5, 11, StepMeasures(0.0, 0.0, [], 0.0))
    block.rows = [[14, INFINITE, 0, 0, 0], [0, FINITE, 0, 0, 0], [12, NAN, 0, 0, 0]]
    assert block.not_finite() == (12, [FINITE, FINITE, NAN])
    block.rows = [[0, FINITE, 0, 0, 0]] * 3
    assert block.not_finite() is None


def test_a_row_tells_of_the_first_broken_loss() -> None:
    losses = [Loss(1.0), Loss(-math.inf), Loss(math.nan)]
    assert StepBlock(losses, 11, StepMeasures(1.0, 2.0, [], 4.0)).row() == [12, 3, 1.0, 2.0, 4.0]


@given(st.floats(0, 1e6))
def test_a_block_takes_no_longer_than_the_delay_unless_it_is_one_step(seconds: float) -> None:
    length = block_length(seconds, MOST_STEPS_IN_BLOCK)
    assert 1 <= length <= MOST_STEPS_IN_BLOCK
    assert length == 1 or length * seconds <= BLOCK_SECONDS * (1 + 1e-9)


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        (1.5, FINITE),
        (math.nan, NAN),
        (-math.inf, NEGATIVE),
        (torch.tensor(2.0, requires_grad=True), FINITE),
        (torch.tensor([math.inf]), INFINITE),
        (torch.tensor(70000.0).half(), INFINITE),
        (torch.tensor(1e300, dtype=torch.float64), FINITE),
        (torch.tensor([3e38, 3e38]), FINITE),
        (torch.tensor([1.0, math.nan]), NAN),
        (torch.tensor(3), FINITE),
    ],
)
def test_a_loss_of_any_kind_is_judged(loss: object, kind: int) -> None:
    assert Loss(loss).kind() == kind


def test_a_loss_on_the_processor_is_read_in_its_own_step() -> None:
    loss = torch.tensor(1.0)
    assert not Loss(loss).is_late


def test_a_loss_on_a_gpu_is_read_later() -> None:
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    loss = Loss(torch.tensor(math.nan, device="cuda"))
    assert loss.is_late
    assert loss.kind() == NAN


def test_the_first_rank_is_named_and_the_others_are_counted() -> None:
    hosts = ["algo-1", "algo-1", "algo-2", "algo-2"]
    assert not_finite_text(5, [0, 0, 2, 0], hosts) == "the loss of rank 2 on algo-2 is inf in step 5"
    assert not_finite_text(5, [0, 3, 1, 0], hosts) == (
        "the loss of rank 1 on algo-1 is -inf in step 5, and of 1 more ranks of 4 not finite"
    )


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
    assert all(forward[rank] > SLOW_FACTOR * min(forward) for rank in slow)
    rest = [seconds for rank, seconds in enumerate(forward) if rank not in slow]
    assert all(forward[rank] > min(rest) for rank in slow)


def told(number: int, *forwards: float, steps: int = 1) -> StepBlock:
    block = StepBlock([Loss(1.0)] * steps, number, StepMeasures(0.0, 0.0, [], 0.0))
    block.rows = [[0.0, 0.0, 0.0, steps * seconds, steps * 0.020] for seconds in forwards]
    return block


def test_a_rank_is_named_after_so_many_steps_and_only_once(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(None, ["algo-1", "algo-2", "algo-3"], 0)
    for number in range(STEPS_PER_PACE_LOOK - 1):
        watch.look(told(number, 0.010, 0.010, 0.015))
    assert "is slow" not in capsys.readouterr().err
    for number in range(2 * STEPS_PER_PACE_LOOK):
        watch.look(told(number, 0.010, 0.010, 0.015))
    assert capsys.readouterr().err.count("rank 2 on algo-3 is slow: 15.0 ms") == 1


def test_steps_that_are_told_of_at_once_count_as_many(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(None, ["algo-1", "algo-2", "algo-3"], 0)
    for number in range(STEPS_PER_PACE_LOOK // 7):
        watch.look(told(7 * number, 0.010, 0.010, 0.015, steps=7))
    assert "is slow" not in capsys.readouterr().err
    watch.look(told(STEPS_PER_PACE_LOOK, 0.010, 0.010, 0.015, steps=7))
    assert "rank 2 on algo-3 is slow: 15.0 ms" in capsys.readouterr().err


def test_a_single_slow_step_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(None, ["algo-1", "algo-2", "algo-3"], 0)
    for number in range(STEPS_PER_PACE_LOOK):
        watch.look(told(number, 0.010, 0.010, 0.100 if number == 7 else 0.010))
    assert "is slow" not in capsys.readouterr().err


def test_another_rank_than_the_first_says_nothing_of_pace(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch(None, ["algo-1", "algo-2"], 1)
    for number in range(STEPS_PER_PACE_LOOK):
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
