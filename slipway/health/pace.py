"""Which rank is slower than the others by itself, and not because it waits for them.

A rank's own time is what it spends in its loader and in the model's forward: no rank waits for another one
there, as it does in the backward, whose end is the end of the slowest.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slipway.batches.now import NOW

STEPS = 50
"""Steps over which times are added up before ranks are compared; a few more where several come at once."""

FACTOR = 1.3
"""How many times the median's own time makes a rank slow."""

WORTH = 0.02
"""The part of a step that the difference must come to: less, and nobody would notice."""


LEAST = 0.001
"""Seconds that the difference must come to: less is the jitter of a processor's turns."""


@dataclass(frozen=True)
class Slow:
    """A rank that the others wait for; times are seconds a step."""

    rank: int
    fetching: float
    forward: float
    median: float

    def text(self, host: str) -> str:
        """What is said of it."""
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
            f"{1000 * self.fetching:.1f}, forward {1000 * self.forward:.1f}), {times}, over the last {STEPS} "
            f"steps or so. All others wait for it. Look at {look}"
        )


def slow_ranks(fetching: Sequence[float], forward: Sequence[float], step: float) -> list[Slow]:
    """Those whose own time is more than FACTOR times the median's; `step` is what a step takes, in seconds.

    Of an even number of ranks the lower one of the two in the middle counts, so that of two one can be slow.
    """
    own = [one + other for one, other in zip(fetching, forward)]
    median = statistics.median_low(own)
    return [
        Slow(rank, fetching[rank], forward[rank], median)
        for rank, seconds in enumerate(own)
        if median > 0 and seconds > FACTOR * median and seconds - median > max(LEAST, WORTH * step)
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
        self._last = NOW.fetching

    def take(self) -> float:
        """Seconds."""
        taken, self._last = NOW.fetching - self._last, NOW.fetching
        return taken


def elapsed(events: Sequence[tuple[Any, Any]]) -> float:
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
