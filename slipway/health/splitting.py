"""A forward and backward that may run out of memory on some ranks: then all compute their batch in parts.

What a rank alone must not do is try again: the others wait in the backward's all-reduce for it. So the
backward runs without any, the ranks agree on how it went, and only then the gradients are averaged.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

from slipway.agreement.group import SideGroup, ranks
from slipway.errors import SlipwayError
from slipway.health.averaging import average_gradients
from slipway.health.exhaustion import Exhaustion, exhaustion
from slipway.health.parts import batch_size, parts_of

_FINE, _OUT_OF_MEMORY, _CANNOT = 0, 1, 2


class Splitting:
    """Steps of one model; `parts` is in how many parts a batch is computed, the same on all ranks."""

    def __init__(self, model: Any, agreement: SideGroup, hosts: list[str]) -> None:
        """Raises TypeError for a model whose forward or backward needs the others: all but DDP."""
        from torch.nn.parallel import DistributedDataParallel

        if ranks()[1] > 1 and not isinstance(model, DistributedDataParallel):
            raise TypeError(
                f'out_of_memory="split" works with DistributedDataParallel, not with {type(model).__name__}: '
                "a rank that runs out of memory within FSDP's collectives cannot come back. Use "
                'out_of_memory="stop", or wrap the model in DistributedDataParallel'
            )
        self.parts = 1
        self._model, self._agreement, self._hosts = model, agreement, hosts

    def run(self, batch: Any, loss_of: Callable[[Any], Any], step: int, clear: Callable[[], object]) -> Any:
        """Forward and backward of a batch, the gradients averaged over ranks; returns the loss, detached.

        `clear` forgets gradients. Raises SlipwayError (MEM001, MEM002) on all ranks where one sample alone
        does not fit, and what `loss_of` raises.
        """
        while True:
            clear()
            loss, out = self._attempt(batch, loss_of)
            state = _FINE
            if out is not None:
                clear()
                _give_back()
                state = _CANNOT if self.parts >= batch_size(batch) else _OUT_OF_MEMORY
            rows = self._agreement.ask([state])
            states = [int(row[0]) for row in rows]
            if max(states) == _FINE:
                if self._agreement.world_size > 1:
                    average_gradients(self._model, self._agreement)
                return loss
            self._tell(states, out, step)
            self.parts *= 2

    def _attempt(self, batch: Any, loss_of: Callable[[Any], Any]) -> tuple[Any, Exhaustion | None]:
        alone = self._model.no_sync() if self._agreement.world_size > 1 else contextlib.nullcontext()
        try:
            with alone:
                return self._in_parts(batch, loss_of), None
        except (RuntimeError, MemoryError) as error:
            out = exhaustion(error)
            if out is None:
                raise
            # What the exception's frames hold is let go with it, at the end of this block.
            return None, out

    def _in_parts(self, batch: Any, loss_of: Callable[[Any], Any]) -> Any:
        if self.parts == 1:
            loss = loss_of(batch)
            loss.backward()
            return loss.detach()
        whole, total = batch_size(batch), None
        for part in parts_of(batch, self.parts):
            loss = loss_of(part) * (batch_size(part) / whole)
            loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
        return total

    def _tell(self, states: list[int], out: Exhaustion | None, step: int) -> None:
        told = self._agreement.gather([out.code, out.text()] if out is not None else None)
        first = next(rank for rank, one in enumerate(told) if one is not None)
        code, text = told[first]
        who = f"rank {first} on {self._hosts[first]} {text} in step {step}"
        cannot = [rank for rank, state in enumerate(states) if state == _CANNOT]
        if cannot:
            raise SlipwayError(
                code,
                f"{who}, and rank {cannot[0]} does with each sample by itself, so there is nothing left to "
                "split. Make the model or the samples smaller, or take an instance type with more memory",
            )
        if self._agreement.rank == 0:
            others = sum(one is not None for one in told) - 1
            more = f" ({others} more ranks too)" if others else ""
            print(
                f"slipway: {code} {who}{more}: from this step on all ranks compute each batch in "
                f"{2 * self.parts} parts, which takes longer; the gradients are the same where the loss is a "
                "mean over samples",
                file=sys.stderr,
                flush=True,
            )


def _give_back() -> None:
    """Let the device have what the failed attempt held."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
