"""What is measured of each step, and how the ranks tell each other: whether its loss is finite, its pace.

All ranks look at the numbers of a step in one order and at one time, some steps later, so that no step
waits for them.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.training.agreement import BATCH_ACTIVITY, PendingAnswer, Rows, SideGroup

MOST_STEPS_IN_BLOCK = 10
"""Steps that are told of at once, at most: so many steps later at the latest is a loss known to all."""

BLOCK_SECONDS = 0.1
"""Seconds that steps which are told of at once may take: where one alone takes longer, each is told of."""


class StepMeasures:
    """What a rank measured of steps; `events` are pairs of CUDA's that have yet to pass."""

    def __init__(
        self, fetching: float, forward: float, events: Sequence[tuple[Any, Any]], whole: float
    ) -> None:
        self.fetching, self.forward, self.events, self.whole = fetching, forward, events, whole

    def row(self) -> list[float]:
        """Seconds in the loader, in the forward, and of the steps; waits for the device."""
        if self.events:
            self.events[-1][1].synchronize()
        return [self.fetching, self.forward + elapsed_seconds(self.events), self.whole]


class StepBlock:
    """Steps that follow each other and are told of at once; `rows` are all ranks', once they are here.

    A row is the number of the first step, from 1, whose loss is not finite, 0 where all are; what that loss
    is; and the seconds of all steps as `StepMeasures.row` has them.
    """

    def __init__(self, losses: Sequence[Loss], first: int, measured: StepMeasures) -> None:
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
        """By rank, the seconds of all steps as `StepMeasures.row` has them."""
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

    def __init__(self, agreement: SideGroup, measured: Callable[[], StepMeasures], most: int) -> None:
        """`measured` is asked what was measured since it was asked last; `most` steps make a block."""
        self._agreement, self._measured, self._most = agreement, measured, most
        self._losses: list[Loss] = []
        self._next = 1
        self._late: StepBlock | None = None
        self._sent: tuple[StepBlock, PendingAnswer] | None = None
        # Of the blocks to come, as far as they are known. An answer says how long the block after the next
        # one is: where only some ranks compute on a device, these have closed that one when they hear it.
        self._lengths = [1, 1]

    def check_now(self, loss: Loss) -> StepBlock:
        """This very step, told by all ranks: it waits for the device and for them."""
        self._losses.append(loss)
        return self._ask(self._closed())

    def check_later(self, loss: Loss) -> list[StepBlock]:
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

    def wait_for_rest(self) -> list[StepBlock]:
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
    """How many steps of so many seconds make a block: as many as fit into BLOCK_SECONDS, from 1 to `most`.

    >>> block_length(0.010, 10), block_length(0.040, 10), block_length(3.0, 10), block_length(0.0, 10)
    (10, 2, 1, 10)
    """
    return max(1, int(min(most, BLOCK_SECONDS / max(seconds, 1e-9))))


# Which rank is slower than the others by itself, and not because it waits for them.
#
# A rank's own time is what it spends in its loader and in the model's forward: no rank waits for another
# one there, as it does in the backward, whose end is the end of the slowest.


STEPS_PER_PACE_LOOK = 50
"""Steps over which times are added up before ranks are compared; a few more where several come at once."""

SLOW_FACTOR = 1.3
"""How many times the median's own time makes a rank slow."""

SLOW_SHARE_OF_STEP = 0.02
"""The part of a step that the difference must come to: less, and nobody would notice."""


SLOW_SECONDS = 0.001
"""Seconds that the difference must come to: less is the jitter of a processor's turns."""


@dataclass(frozen=True)
class Slow:
    """A rank that the others wait for; times are seconds a step."""

    rank: int
    fetching: float
    forward: float
    median: float

    def text(self, host: str) -> str:
        """The warning about this rank, in words."""
        own = self.fetching + self.forward
        where = "loader" if self.fetching > self.forward else "forward"
        look = (
            "its loader's workers, its disk and how much data it has"
            if where == "loader"
            else "its device's clock and temperature, other processes there, and longer samples"
        )
        times = f"{own / self.median:.1f} times the median of {1000 * self.median:.1f} ms"
        return (
            f"rank {self.rank} on {host} is slow: {1000 * own:.1f} ms a step of its own (loader "
            f"{1000 * self.fetching:.1f}, forward {1000 * self.forward:.1f}), {times}, over the last "
            f"{STEPS_PER_PACE_LOOK} steps or so. All others wait for it. Look at {look}"
        )


def slow_ranks(fetching: Sequence[float], forward: Sequence[float], step: float) -> list[Slow]:
    """Those whose own time is more than SLOW_FACTOR times the median's; `step` is a step's seconds.

    Of an even number of ranks the lower one of the two in the middle counts, so that of two one can be slow.
    """
    own = [one + other for one, other in zip(fetching, forward)]
    median = statistics.median_low(own)
    return [
        Slow(rank, fetching[rank], forward[rank], median)
        for rank, seconds in enumerate(own)
        if median > 0
        and seconds > SLOW_FACTOR * median
        and seconds - median > max(SLOW_SECONDS, SLOW_SHARE_OF_STEP * step)
    ]


class ForwardTimes:
    """The time of a model's forwards, by hooks: on CUDA the device's, else the processor's."""

    def __init__(self, model: Any) -> None:
        """What wraps the model in collectives of its own (DistributedDataParallel) is left out.

        A sharded model's forward gathers parameters from other ranks, and would count waiting: its forward
        is not measured.
        """
        self._since: Any = None
        self._seconds = 0.0
        self._events: list[tuple[Any, Any]] = []
        if model is None:
            return
        inner = _without_ddp(model)
        if not _is_own(model, inner):
            return
        inner.register_forward_pre_hook(self._before)
        inner.register_forward_hook(self._after)

    def take(self) -> tuple[float, list[tuple[Any, Any]]]:
        """Seconds and pairs of CUDA events since the last time that this was asked."""
        seconds, events = self._seconds, self._events
        self._seconds, self._events = 0.0, []
        return seconds, events

    def _before(self, module: Any, inputs: Any) -> None:
        self._since = _mark(inputs)

    def _after(self, module: Any, inputs: Any, outputs: Any) -> None:
        since, self._since = self._since, None
        if since is None:
            return
        if isinstance(since, float):
            self._seconds += time.perf_counter() - since
        else:
            end = type(since)(enable_timing=True)
            end.record()
            self._events.append((since, end))


class Fetching:
    """The time that loaders of even_batches took, since the last time that it was asked."""

    def __init__(self) -> None:
        self._last = BATCH_ACTIVITY.fetching

    def take(self) -> float:
        """Seconds in loaders since this was asked last."""
        taken, self._last = BATCH_ACTIVITY.fetching - self._last, BATCH_ACTIVITY.fetching
        return taken


def elapsed_seconds(events: Sequence[tuple[Any, Any]]) -> float:
    """Seconds between pairs of CUDA events that have passed."""
    return sum((float(begin.elapsed_time(end)) for begin, end in events), 0.0) / 1000


def _mark(inputs: Any) -> Any:
    """Now: an event on the device where the inputs are on one, else the time."""
    import torch

    if torch.cuda.is_initialized():
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event
    return time.perf_counter()


def _without_ddp(model: Any) -> Any:
    from torch.nn.parallel import DistributedDataParallel

    return model.module if isinstance(model, DistributedDataParallel) else model


def _is_own(model: Any, inner: Any) -> bool:
    """Whether a model's forward needs no other rank, and runs hooks as Python (not compiled in place)."""
    from torch.nn.modules.batchnorm import SyncBatchNorm

    sharded = any(
        any(kind.__name__ in ("FullyShardedDataParallel", "FSDPModule") for kind in type(module).__mro__)
        for module in model.modules()
    )
    compiled = getattr(inner, "_compiled_call_impl", None) is not None
    return (
        not sharded
        and not compiled
        and not any(isinstance(module, SyncBatchNorm) for module in inner.modules())
    )


# Whether a loss is finite, without waiting for the device that computes it.


FINITE, NAN, INFINITE, NEGATIVE = 0, 1, 2, 3
_WORDS = {NAN: "nan", INFINITE: "inf", NEGATIVE: "-inf"}


class Loss:
    """A loss that is read later: on CUDA its copy is on its way when this returns."""

    def __init__(self, loss: Any) -> None:
        """`loss` is a tensor, of one element or more, or a number."""
        self._event: Any = None
        self._number: Any = loss
        if not hasattr(loss, "detach"):
            return
        if loss.numel() == 1 and not loss.is_cuda:
            self._number = loss.item()
            return
        import torch

        with torch.no_grad():
            number = loss.detach()
            if number.numel() != 1:
                # The sum of many could overflow although each is finite.
                number = torch.where(torch.isfinite(number), 0.0, math.nan).sum()
            number = number.reshape(())
            if number.is_cuda:
                kept = torch.empty((), dtype=number.dtype, pin_memory=True)
                self._number = kept.copy_(number, non_blocking=True)
                self._event = torch.cuda.Event()
                self._event.record(torch.cuda.current_stream(number.device))
            else:
                self._number = number

    @property
    def is_late(self) -> bool:
        """Whether a device has yet to compute it, so that reading it at once would wait for the device."""
        return self._event is not None

    def kind(self) -> int:
        """FINITE, NAN, INFINITE or NEGATIVE; waits for the device where it has not come that far."""
        if self._event is not None:
            self._event.synchronize()
        return kind_of_loss(float(self._number))


def kind_of_loss(number: float) -> int:
    """FINITE, NAN, INFINITE or NEGATIVE, by a loss' number."""
    if math.isfinite(number):
        return FINITE
    if math.isnan(number):
        return NAN
    return INFINITE if number > 0 else NEGATIVE


def not_finite_text(step: int, kinds: Sequence[int], hosts: Sequence[str]) -> str:
    """Which ranks' losses are not finite in a step, in words; at least one is not.

    >>> not_finite(7, [0, 1], ["algo-1", "algo-2"])
    'the loss of rank 1 on algo-2 is nan in step 7'
    """
    found = [rank for rank, kind in enumerate(kinds) if kind != FINITE]
    first = found[0]
    others = f", and of {len(found) - 1} more ranks of {len(kinds)} not finite" if len(found) > 1 else ""
    return f"the loss of rank {first} on {hosts[first]} is {_WORDS[kinds[first]]} in step {step}{others}"
