"""A forward and backward that may run out of memory on some ranks: then all compute their batch in parts.

What a rank alone must not do is try again: the others wait in the backward's all-reduce for it. So the
backward runs without any, the ranks agree on how it went, and only then the gradients are averaged.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from slipway.errors import SlipwayError
from slipway.training.agreement import SideGroup, rank_and_world_size

_FINE, _OUT_OF_MEMORY, _CANNOT = 0, 1, 2


class Splitting:
    """Steps of one model; `parts` is in how many parts a batch is computed, the same on all ranks."""

    def __init__(self, model: Any, agreement: SideGroup, hosts: list[str]) -> None:
        """Raises TypeError for a model whose forward or backward needs the others: all but DDP."""
        from torch.nn.parallel import DistributedDataParallel

        if rank_and_world_size()[1] > 1 and not isinstance(model, DistributedDataParallel):
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
            out = exhaustion_of(error)
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


# The average of all ranks' gradients, outside of a backward.


BUCKET = 25 * 2**20
"""Bytes that are sent at once, as DistributedDataParallel's `bucket_cap_mb` has it."""


def average_gradients(model: Any, agreement: SideGroup) -> None:
    """Average the gradients of a DistributedDataParallel model over its ranks, in its own group.

    A parameter that no rank used keeps none; where only some did, the others count as zeros, as there.
    """
    import torch
    import torch.distributed as dist

    parameters = [one for one in model.module.parameters() if one.requires_grad]
    used = agreement.any_of([one.grad is not None for one in parameters])
    gradients = []
    for parameter, is_used in zip(parameters, used):
        if is_used and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if is_used:
            gradients.append(parameter.grad)
    group = model.process_group
    for bucket in _buckets(gradients):
        together = torch.cat([gradient.reshape(-1) for gradient in bucket])
        together.div_(agreement.world_size)
        dist.all_reduce(together, group=group)
        for gradient, averaged in zip(bucket, together.split([one.numel() for one in bucket])):
            gradient.copy_(averaged.view_as(gradient))


def _buckets(gradients: list[Any]) -> list[list[Any]]:
    """Neighbours of one type and device, up to BUCKET bytes together; a larger one is alone."""
    buckets: list[list[Any]] = []
    size = 0
    for gradient in gradients:
        own = gradient.numel() * gradient.element_size()
        last = buckets[-1][-1] if buckets else None
        alike = last is not None and (last.dtype, last.device) == (gradient.dtype, gradient.device)
        if alike and size + own <= BUCKET:
            buckets[-1].append(gradient)
            size += own
        else:
            buckets.append([gradient])
            size = own
    return buckets


# A batch in parts of nearly one size, whatever it is made of: tensors, dicts, lists, tuples.


def batch_size(batch: Any) -> int:
    """The number of samples: the length of the tensors' first dimension.

    Raises TypeError where there is none, or where tensors have different ones: which of them counts samples
    (a list of images may have their channels there) is not to be guessed.
    """
    sizes = list(dict.fromkeys(_sizes(batch)))
    if len(sizes) != 1:
        why = f"tensors with {sizes} entries" if sizes else "no tensor with a dimension of samples"
        raise TypeError(
            f"a batch of {type(batch).__name__} with {why} cannot be split into parts. Hand over tensors "
            "whose first dimension is the samples, alone or in dicts, lists and tuples"
        )
    return sizes[0]


def parts_of(batch: Any, parts: int) -> list[Any]:
    """The batch in so many parts, or in as many as it has samples; in order, none empty.

    Tensors are cut, and lists of anything else that are as long; the rest is in each part as it is.
    Raises TypeError as `batch_size`.
    """
    size = batch_size(batch)
    parts = max(1, min(parts, size))
    bounds = [size * part // parts for part in range(parts + 1)]
    return [_cut(batch, begin, end, size) for begin, end in zip(bounds, bounds[1:])]


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "size") and hasattr(value, "dim")


def _sizes(batch: Any) -> Iterator[int]:
    if _is_tensor(batch):
        if batch.dim() > 0:
            yield int(batch.size(0))
    elif isinstance(batch, (dict, list, tuple)):
        for part in batch.values() if isinstance(batch, dict) else batch:
            yield from _sizes(part)


def _cut(batch: Any, begin: int, end: int, size: int) -> Any:
    if _is_tensor(batch):
        return batch[begin:end] if batch.dim() > 0 else batch
    if isinstance(batch, dict):
        cut = {key: _cut(value, begin, end, size) for key, value in batch.items()}
        try:
            return type(batch)(cut)
        except TypeError:
            return cut
    if isinstance(batch, (list, tuple)):
        if len(batch) == size and not any(_sizes(batch)):
            return batch[begin:end]
        cuts = [_cut(value, begin, end, size) for value in batch]
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*cuts)
        return tuple(cuts) if isinstance(batch, tuple) else cuts
    return batch


# What an exception says of memory that ran out: whether it does, how much was asked for and was free.
#
# Texts: c10/cuda/CUDACachingAllocator.cpp of PyTorch 1.11 to 2.13, c10/core/impl/alloc_cpu.cpp, numpy.


_DEVICE = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
_HOST = ("DefaultCPUAllocator: can't allocate", "DefaultCPUAllocator: not enough memory")
_SIZE = r"\d[\d.]{0,20} ?[KMGT]?i?(?:B|bytes)"
_ASKED = re.compile(rf"(?:Tried to allocate|tried to allocate|Unable to allocate) ({_SIZE})")
_FREE = re.compile(rf"({_SIZE})(?: is)? free")


@dataclass(frozen=True)
class Exhaustion:
    """Memory ran out: `code` is MEM001 on a device, MEM002 on the host; sizes as the text has them."""

    code: str
    asked: str | None
    free: str | None

    def text(self) -> str:
        """In words: "ran out of GPU memory (asked for 2.00 GiB with 1.00 GiB free)"."""
        what = "GPU" if self.code == "MEM001" else "host"
        asked = f"asked for {self.asked}" if self.asked else "how much was asked for is not said"
        free = f" with {self.free} free" if self.free else ""
        return f"ran out of {what} memory ({asked}{free})"


def exhaustion_of(error: BaseException) -> Exhaustion | None:
    """What an exception says of memory; None where it is about something else."""
    text = str(error)[:2000]
    if isinstance(error, MemoryError) or any(sign in text for sign in _HOST):
        code = "MEM002"
    elif isinstance(error, RuntimeError) and any(sign in text for sign in _DEVICE):
        code = "MEM001"
    else:
        return None
    asked, free = _ASKED.search(text), _FREE.search(text)
    return Exhaustion(code, asked.group(1) if asked else None, free.group(1) if free else None)
