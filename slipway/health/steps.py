"""Steps whose numbers are on their way between the ranks, looked at in one order and at one time on all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slipway.agreement.group import PendingAnswer, Rows, SideGroup
from slipway.health.losses import Loss
from slipway.health.pace import elapsed


class Measured:
    """What a rank measured of a step; `events` are pairs of CUDA's that have yet to pass."""

    def __init__(
        self, fetching: float, forward: float, events: Sequence[tuple[Any, Any]], whole: float
    ) -> None:
        self.fetching, self.forward, self.events, self.whole = fetching, forward, events, whole

    def row(self) -> list[float]:
        """Seconds in the loader, in the forward, and of the step; waits for the device."""
        if self.events:
            self.events[-1][1].synchronize()
        return [self.fetching, self.forward + elapsed(self.events), self.whole]


class Step:
    """A step by its number, from 1; `rows` are all ranks', once they are here."""

    def __init__(self, number: int, loss: Loss, measured: Measured) -> None:
        self.number, self.loss, self.measured = number, loss, measured
        self.rows: Rows = []

    @property
    def kinds(self) -> list[int]:
        """By rank, whether the loss is finite, as `slipway.health.losses` counts it."""
        return [int(row[0]) for row in self.rows]

    def row(self) -> list[float]:
        """What this rank tells; waits for the device where it has not come that far."""
        return [self.loss.kind(), *self.measured.row()]


class AgreedSteps:
    """At most two steps are on their way: one that a device has yet to compute, one between the ranks.

    So a step's numbers are known in the next step, and where a device computes the loss in the one after:
    by then it has long been computed, and nothing waits.
    """

    def __init__(self, agreement: SideGroup) -> None:
        self._agreement = agreement
        self._late: Step | None = None
        self._sent: tuple[Step, PendingAnswer] | None = None

    def now(self, step: Step) -> Step:
        """This very step, told by all ranks: it waits for the device and for them."""
        step.rows = self._agreement.ask(step.row())
        return step

    def later(self, step: Step) -> list[Step]:
        """Tell of this step, or of the one before; gives the step that is known by now, if any."""
        late, self._late = self._late, step if step.loss.is_late else None
        ready = late if step.loss.is_late else step
        known = self._known()
        if ready is not None:
            self._sent = (ready, self._agreement.begin(ready.row()))
        return known

    def rest(self) -> list[Step]:
        """All that were told of and not given yet, in their order; waits for them."""
        known = self._known()
        late, self._late = self._late, None
        return known if late is None else [*known, self.now(late)]

    def _known(self) -> list[Step]:
        if self._sent is None:
            return []
        (step, pending), self._sent = self._sent, None
        step.rows = pending.wait()
        return [step]
