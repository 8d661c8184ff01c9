"""Whether a loss is finite, without waiting for the device that computes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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
        return kind_of(float(self._number))


def kind_of(number: float) -> int:
    """Which of the four a number is."""
    if math.isfinite(number):
        return FINITE
    if math.isnan(number):
        return NAN
    return INFINITE if number > 0 else NEGATIVE


def not_finite(step: int, kinds: Sequence[int], hosts: Sequence[str]) -> str:
    """Which ranks' losses are not finite in a step, in words; at least one is not.

    >>> not_finite(7, [0, 1], ["algo-1", "algo-2"])
    'the loss of rank 1 on algo-2 is nan in step 7'
    """
    found = [rank for rank, kind in enumerate(kinds) if kind != FINITE]
    first = found[0]
    others = f", and of {len(found) - 1} more ranks of {len(kinds)} not finite" if len(found) > 1 else ""
    return f"the loss of rank {first} on {hosts[first]} is {_WORDS[kinds[first]]} in step {step}{others}"
