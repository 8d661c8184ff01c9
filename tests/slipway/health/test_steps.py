"""Steps are told of by several at once, and still by their own numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.agreement.group import Rows
from slipway.health.losses import FINITE, INFINITE, NAN, Loss
from slipway.health.steps import DELAY, MOST, AgreedSteps, Measured, StepBlock, block_length

QUICK, SLOW = DELAY / MOST / 2, 2 * DELAY


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


def steps_of(group: Any, seconds: Sequence[float] = (), most: int = MOST) -> AgreedSteps:
    """Steps that take so many seconds each, from the first on, and QUICK ones after them."""
    pending = [0]
    taken = itertools.chain(seconds, itertools.repeat(QUICK))

    class Timed(AgreedSteps):
        def later(self, loss: Loss) -> list[StepBlock]:
            pending[0] += 1
            return super().later(loss)

    def measured() -> Measured:
        count, pending[0] = pending[0], 0
        return Measured(0.0, 0.0, [], sum(itertools.islice(taken, count)))

    return Timed(group, measured, most)


def test_quick_steps_are_told_of_by_ten_after_the_first_ones() -> None:
    steps = steps_of(Alone())
    blocks = [block for _ in range(2 * MOST + 4) for block in steps.later(Loss(1.0))]
    assert [len(block) for block in blocks] == [1, 1, MOST, MOST]
    assert [block.first for block in blocks] == [1, 2, 3, 3 + MOST]


def test_slow_steps_are_told_of_one_by_one() -> None:
    steps = steps_of(Alone(), [SLOW] * 20)
    assert [len(block) for _ in range(20) for block in steps.later(Loss(1.0))] == [1] * 19


def test_where_each_step_must_be_known_quick_ones_are_told_of_one_by_one_too() -> None:
    steps = steps_of(Alone(), most=1)
    assert [len(block) for _ in range(20) for block in steps.later(Loss(1.0))] == [1] * 19


@given(broken=st.integers(1, 40), late=st.booleans(), seconds=st.lists(st.sampled_from([QUICK, SLOW])))
def test_a_broken_step_is_known_by_its_number_at_most_so_many_steps_later(
    broken: int, late: bool, seconds: list[float]
) -> None:
    kind = LateLoss if late else Loss
    steps = steps_of(Alone(), seconds)
    for step in range(1, 60):
        blocks = steps.later(kind(math.nan if step == broken else 1.0))
        found = [block.not_finite() for block in blocks if block.not_finite() is not None]
        if found:
            assert found == [(broken, [NAN, NAN])]
            assert broken < step <= broken + MOST + late
            return
    pytest.fail("it was never found")


@given(steps=st.integers(0, 40), late=st.lists(st.booleans(), min_size=40, max_size=40))
def test_every_step_is_told_of_once_and_in_order(steps: int, late: list[bool]) -> None:
    agreed = steps_of(Alone(), [SLOW] * 3)
    blocks = [block for number in range(steps) for block in agreed.later((Loss, LateLoss)[late[number]](1.0))]
    blocks += agreed.rest()
    told = [block.first + offset for block in blocks for offset in range(len(block))]
    assert told == list(range(1, steps + 1))
    assert agreed.rest() == []


@given(
    late=st.lists(st.booleans(), min_size=60, max_size=60),
    seconds=st.lists(st.sampled_from([QUICK, DELAY / 3, SLOW])),
)
def test_ranks_tell_of_the_same_steps_though_a_device_computes_the_loss_of_only_one(
    late: list[bool], seconds: list[float]
) -> None:
    exchange = Exchange()
    first, second = (steps_of(OneRank(exchange, rank), seconds) for rank in (0, 1))
    blocks: tuple[list[StepBlock], list[StepBlock]] = ([], [])
    for number in range(60):
        # The rank that is late gives its row in the next step: there the other one would wait for it.
        blocks[1].extend(second.later((Loss, LateLoss)[late[number]](1.0)))
        blocks[0].extend(first.later(Loss(1.0)))
    shared = min(len(one) for one in blocks)
    assert shared > 5
    assert [(one.first, len(one)) for one in blocks[0][:shared]] == [
        (one.first, len(one)) for one in blocks[1][:shared]
    ]


def test_the_first_of_the_broken_steps_counts_and_only_the_ranks_that_broke_in_it() -> None:
    block = StepBlock([Loss(1.0)] * 5, 11, Measured(0.0, 0.0, [], 0.0))
    block.rows = [[14, INFINITE, 0, 0, 0], [0, FINITE, 0, 0, 0], [12, NAN, 0, 0, 0]]
    assert block.not_finite() == (12, [FINITE, FINITE, NAN])
    block.rows = [[0, FINITE, 0, 0, 0]] * 3
    assert block.not_finite() is None


def test_a_row_tells_of_the_first_broken_loss() -> None:
    losses = [Loss(1.0), Loss(-math.inf), Loss(math.nan)]
    assert StepBlock(losses, 11, Measured(1.0, 2.0, [], 4.0)).row() == [12, 3, 1.0, 2.0, 4.0]


@given(st.floats(0, 1e6))
def test_a_block_takes_no_longer_than_the_delay_unless_it_is_one_step(seconds: float) -> None:
    length = block_length(seconds, MOST)
    assert 1 <= length <= MOST
    assert length == 1 or length * seconds <= DELAY * (1 + 1e-9)
