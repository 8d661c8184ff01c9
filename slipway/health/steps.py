"""Steps whose numbers are on their way between the ranks, looked at in one order and at one time on all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from slipway.agreement.group import PendingAnswer, Rows, SideGroup
from slipway.health.losses import FINITE, Loss
from slipway.health.pace import elapsed

MOST = 10
"""Steps that are told of at once, at most: so many steps later at the latest is a loss known to all."""

DELAY = 0.1
"""Seconds that steps which are told of at once may take: where one alone takes longer, each is told of."""


class Measured:
    """What a rank measured of steps; `events` are pairs of CUDA's that have yet to pass."""

    def __init__(
        self, fetching: float, forward: float, events: Sequence[tuple[Any, Any]], whole: float
    ) -> None:
        self.fetching, self.forward, self.events, self.whole = fetching, forward, events, whole

    def row(self) -> list[float]:
        """Seconds in the loader, in the forward, and of the steps; waits for the device."""
        if self.events:
            self.events[-1][1].synchronize()
        return [self.fetching, self.forward + elapsed(self.events), self.whole]


class StepBlock:
    """Steps that follow each other and are told of at once; `rows` are all ranks', once they are here.

    A row is the number of the first step, from 1, whose loss is not finite, 0 where all are; what that loss
    is; and the seconds of all steps as `Measured.row` has them.
    """

    def __init__(self, losses: Sequence[Loss], first: int, measured: Measured) -> None:
        self.first, self.losses, self.measured = first, losses, measured
        self.rows: Rows = []

    def __len__(self) -> int:
        """How many steps these are."""
        return len(self.losses)

    @property
    def is_late(self) -> bool:
        """Whether a device has yet to compute the last loss."""
        return self.losses[-1].is_late

    def row(self) -> list[float]:
        """What this rank tells; waits for the device where it has not come that far."""
        for step, loss in enumerate(self.losses, start=self.first):
            kind = loss.kind()
            if kind != FINITE:
                return [step, kind, *self.measured.row()]
        return [0, FINITE, *self.measured.row()]

    def times(self) -> Rows:
        """By rank, the seconds of all steps as `Measured.row` has them."""
        return [row[2:] for row in self.rows]

    def not_finite(self) -> tuple[int, list[int]] | None:
        """The first step in which a loss is not finite, and by rank what its loss is; None without one."""
        steps = [int(row[0]) for row in self.rows if row[0]]
        if not steps:
            return None
        return min(steps), [int(row[1]) if row[0] == min(steps) else FINITE for row in self.rows]


class AgreedSteps:
    """At most two blocks are on their way: one that a device has yet to compute, one between the ranks.

    A block is sent with its last step, or in the next one where a device computes the loss: by then it has
    long been computed. It is known in the step after that one. Nothing waits.
    """

    def __init__(self, agreement: SideGroup, measured: Callable[[], Measured], most: int) -> None:
        """`measured` is asked what was measured since it was asked last; `most` steps make a block."""
        self._agreement, self._measured, self._most = agreement, measured, most
        self._losses: list[Loss] = []
        self._next = 1
        self._late: StepBlock | None = None
        self._sent: tuple[StepBlock, PendingAnswer] | None = None
        # Of the blocks to come, as far as they are known. An answer says how long the block after the next
        # one is: where only some ranks compute on a device, these have closed that one when they hear it.
        self._lengths = [1, 1]

    def now(self, loss: Loss) -> StepBlock:
        """This very step, told by all ranks: it waits for the device and for them."""
        self._losses.append(loss)
        return self._ask(self._closed())

    def later(self, loss: Loss) -> list[StepBlock]:
        """Add a step; gives the block that is known by now, if any."""
        known = self._known()
        self._losses.append(loss)
        late, self._late = self._late, None
        if late is not None:
            self._send(late)
        if len(self._losses) >= self._lengths[0]:
            block = self._closed()
            # One that follows a late one waits its turn, whoever computes it: only one is sent in a step.
            if block.is_late or late is not None:
                self._late = block
            else:
                self._send(block)
        return known

    def rest(self) -> list[StepBlock]:
        """All that was told of and not given yet, in its order; waits for it."""
        known = self._known()
        late, self._late = self._late, None
        if late is not None:
            known.append(self._ask(late))
        if self._losses:
            known.append(self._ask(self._closed()))
        return known

    def _closed(self) -> StepBlock:
        block = StepBlock(self._losses, self._next, self._measured())
        self._next += len(block)
        self._losses = []
        self._lengths.pop(0)
        return block

    def _send(self, block: StepBlock) -> None:
        self._sent = (block, self._agreement.begin(block.row()))

    def _ask(self, block: StepBlock) -> StepBlock:
        return self._heard(block, self._agreement.ask(block.row()))

    def _known(self) -> list[StepBlock]:
        if self._sent is None:
            return []
        (block, pending), self._sent = self._sent, None
        return [self._heard(block, pending.wait())]

    def _heard(self, block: StepBlock, rows: Rows) -> StepBlock:
        block.rows = rows
        # The rows are the same on all ranks, to the last bit, so this is one number on all of them.
        slowest = max(times[-1] for times in block.times())
        self._lengths.append(block_length(slowest / len(block), self._most))
        return block


def block_length(seconds: float, most: int) -> int:
    """How many steps of so many seconds make a block: as many as fit into DELAY, from 1 to `most`.

    >>> block_length(0.010, 10), block_length(0.040, 10), block_length(3.0, 10), block_length(0.0, 10)
    (10, 2, 1, 10)
    """
    return max(1, int(min(most, DELAY / max(seconds, 1e-9))))
