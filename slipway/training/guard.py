"""`slipway.guard`: what a training loop calls once a step, so that trouble on one rank is known on all.

It also tells of ranks that are slower than the others, and of memory that is close to its limit. Where a
forward and backward may run out of memory on some ranks, all compute their batch in parts.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.errors import SlipwayError, say
from slipway.training.agreement import BATCH_ACTIVITY, SideGroup, host_name, rank_and_world_size
from slipway.training.step_measures import (
    MOST_STEPS_IN_BLOCK,
    STEPS_PER_PACE_LOOK,
    AgreedSteps,
    Fetching,
    ForwardTimes,
    Loss,
    StepBlock,
    StepMeasures,
    not_finite_text,
    slow_ranks,
)

NOT_FINITE = ("stop", "skip", "restore")
OUT_OF_MEMORY = ("stop", "split")

MOST_IN_A_ROW = 20
"""Skipped steps, or restores, without one good step between them, after which the training is ended."""


def guard(
    model: Any = None,
    optimizer: Any = None,
    *,
    not_finite: str = "stop",
    restore: Callable[[], object] | None = None,
    out_of_memory: str = "stop",
) -> TrainingGuard:
    """A guard of this training; all ranks make one, and call it once a step.

    `not_finite` is for a loss that is nan or infinite on any rank: "stop" raises SlipwayError (NUM001) on
    all, "skip" leaves out the optimizer's step on all, "restore" calls `restore` on all, which goes back to
    the last checkpoint. `out_of_memory`: "stop" raises SlipwayError (MEM001, MEM002 for host memory) on the
    rank, "split" computes the batch in halves on all. Raises ValueError or TypeError for what cannot be.
    """
    if not_finite not in NOT_FINITE:
        raise ValueError(f"not_finite={not_finite!r} is not one of {', '.join(NOT_FINITE)}")
    if out_of_memory not in OUT_OF_MEMORY:
        raise ValueError(f"out_of_memory={out_of_memory!r} is not one of {', '.join(OUT_OF_MEMORY)}")
    if (restore is not None) != (not_finite == "restore"):
        raise ValueError('restore= and not_finite="restore" belong together: what goes back to a checkpoint')
    return TrainingGuard(model, optimizer, not_finite, restore, out_of_memory)


class TrainingGuard:
    """As a context manager it also looks at the last steps, when its block ends without an exception."""

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        action: str,
        restore: Callable[[], object] | None,
        out_of_memory: str,
    ) -> None:
        self.optimizer = optimizer
        self._action, self._restore = action, restore
        self._agreement = SideGroup()
        self._hosts = [str(host) for host in self._agreement.gather(host_name())]
        self._watch = Watch(model, self._hosts, self._agreement.rank)
        # Whoever goes on after a broken step wants to know of it at once; an end may come some steps later.
        most = MOST_STEPS_IN_BLOCK if action == "stop" else 1
        self._steps = AgreedSteps(self._agreement, self._watch.measured, most)
        self._splitting = Splitting(model, self._agreement, self._hosts) if out_of_memory == "split" else None
        self._step = 0
        self._in_a_row = 0

    def step(self, batch: Any, loss_of: Callable[[Any], Any]) -> Any:
        """A whole step: zero_grad, `loss_of(batch)`, backward, the check, the optimizer's step.

        Returns the loss, detached. `loss_of` makes the forward and returns the loss; with
        out_of_memory="split" it may be called with parts of the batch. Raises as `check`; SlipwayError
        (MEM001, MEM002) where memory ran out; what `loss_of` raises.
        """
        if self.optimizer is None:
            raise TypeError("step() needs the optimizer: slipway.guard(model, optimizer)")
        if self._splitting is not None:
            loss = self._splitting.run(batch, loss_of, self._step + 1, self.optimizer.zero_grad)
        else:
            loss = self._compute_whole_batch(batch, loss_of)
        if self.check(loss):
            self.optimizer.step()
        return loss

    def check(self, loss: Any) -> bool:
        """For a loop of one's own: after the backward, before the optimizer's step, once a step.

        Returns whether the optimizer is to make its step. Raises SlipwayError (NUM001) on all ranks where a
        loss was not finite and the action is "stop" (steps that are quicker than BLOCK_SECONDS of
        `slipway.training.step_measures` are told of by several at once, so up to MOST_STEPS_IN_BLOCK + 1
        steps later), or where the others did not help MOST_IN_A_ROW times.
        """
        self._see_all_ranks()
        self._step += 1
        if self._action == "skip":
            return self._judge(self._steps.check_now(Loss(loss)))
        return self._judge_all(self._steps.check_later(Loss(loss)))

    def settle(self) -> bool:
        """Wait for what all ranks found so far, as before a save; whether every loss was finite.

        Raises as `check`.
        """
        return self._judge_all(self._steps.wait_for_rest())

    def __enter__(self) -> TrainingGuard:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.settle()

    def _compute_whole_batch(self, batch: Any, loss_of: Callable[[Any], Any]) -> Any:
        self.optimizer.zero_grad()
        try:
            loss = loss_of(batch)
            loss.backward()
        except (RuntimeError, MemoryError) as error:
            out = exhaustion_of(error)
            if out is None:
                raise
            rank = self._agreement.rank
            raise SlipwayError(
                out.code,
                f"rank {rank} on {self._hosts[rank]} {out.text()} in step {self._step + 1}. A smaller batch "
                'with more accumulation needs less; out_of_memory="split" halves it on all ranks by itself',
            ) from error
        return loss.detach()

    def _judge_all(self, seen: list[StepBlock]) -> bool:
        sound = True
        for block in seen:
            if not self._judge(block):
                sound = False
                if self._restore is not None:
                    # The later ones were computed with weights that are gone.
                    break
        return sound

    def _judge(self, seen: StepBlock) -> bool:
        """What follows of steps that all ranks have told of; whether the training may go on from them."""
        self._watch.look(seen)
        first = seen.not_finite()
        if first is None:
            self._in_a_row = 0
            return True
        found = not_finite_text(*first, self._hosts)
        if self._action == "stop":
            raise SlipwayError("NUM001", f"{found}: from there on the weights are lost, so training ends")
        self._in_a_row += 1
        done = "the step is skipped" if self._action == "skip" else "back to the last checkpoint"
        if self._in_a_row > MOST_IN_A_ROW:
            raise SlipwayError(
                "NUM001", f"{found}, after {MOST_IN_A_ROW} times in a row in which {done} did not help"
            )
        if self._agreement.rank == 0:
            say(f"NUM001 {found}: {done} on all ranks")
        if self._restore is not None:
            # Steps that were computed with the broken weights count no more, and all ranks forget the same.
            self._steps.wait_for_rest()
            self._restore()
        return False

    def _see_all_ranks(self) -> None:
        """Raises RuntimeError where this guard cannot know of all ranks."""
        if BATCH_ACTIVITY.joining:
            raise RuntimeError(
                'guard and even_batches(mode="join") do not go together: a rank that has left does not tell '
                'of its loss, and the others would wait for it. Use mode="pad" or mode="drop"'
            )
        if self._agreement.world_size == 1 and rank_and_world_size()[1] > 1:
            raise RuntimeError(
                "slipway.guard was made before the process group, so it knows of this rank alone. Call it "
                "after init_process_group"
            )


# The pace of all ranks and this one's memory, looked at every so many steps and told once.


NEAR_LIMIT_MODE = "MEM003"
"""The code of a memory within 3 % of its limit."""


class Watch:
    """What one rank measures; rank 0 says which ranks are slow, each rank what it has of memory."""

    def __init__(self, model: Any, hosts: list[str], rank: int) -> None:
        self._forwards, self._fetching = ForwardTimes(model), Fetching()
        self._hosts, self._rank = hosts, rank
        self._since = time.perf_counter()
        self._sums: list[list[float]] = []
        self._counted = 0
        self._slow: set[int] = set()
        self._full: set[str] = set()

    def measured(self) -> StepMeasures:
        """What was measured since the last time."""
        now = time.perf_counter()
        whole, self._since = now - self._since, now
        seconds, events = self._forwards.take()
        return StepMeasures(self._fetching.take(), seconds, events, whole)

    def look(self, block: StepBlock) -> None:
        """Count steps that all ranks have told of; once these are STEPS_PER_PACE_LOOK steps, judge."""
        times = block.times()
        sums = self._sums or [[0.0] * len(row) for row in times]
        self._sums = [[a + b for a, b in zip(one, other)] for one, other in zip(sums, times)]
        self._counted += len(block)
        if self._counted < STEPS_PER_PACE_LOOK:
            return
        means = [[seconds / self._counted for seconds in one] for one in self._sums]
        self._sums, self._counted = [], 0
        self._judge_pace(means)
        self._judge_memory()

    def _judge_pace(self, means: list[list[float]]) -> None:
        fetching, forward, whole = zip(*means)
        for slow in slow_ranks(fetching, forward, max(whole)):
            if slow.rank not in self._slow and self._rank == 0:
                say(slow.text(self._hosts[slow.rank]))
            self._slow.add(slow.rank)

    def _judge_memory(self) -> None:
        for memory in memories_here(with_host=is_first_on_host()):
            found = near_limit_text(memory)
            if found is not None and memory.what not in self._full:
                self._full.add(memory.what)
                say(f"{NEAR_LIMIT_MODE} rank {self._rank} on {self._hosts[self._rank]}: {found}")


# How close a host and its devices come to their memory's limit (MEM003).
#
# Of the device's memory counts what training cannot do without: what torch keeps only to use it again is
# free in truth, and so is a host's memory that holds copies of files.


MEMORY_LIMIT = 0.97
"""The part of a memory from which on it is close to its limit."""

Read = typing.Callable[[str], "str | None"]


@dataclass(frozen=True)
class Memory:
    """`what` is for people: "GPU 0"; sizes are bytes."""

    what: str
    used: int
    limit: int


def near_limit_text(memory: Memory) -> str | None:
    """What is said of a memory within 3 % of its limit; None of any other."""
    if memory.limit <= 0 or memory.used < MEMORY_LIMIT * memory.limit:
        return None
    return (
        f"{memory.what} is close to its limit: {_gibibytes(memory.used)} of {_gibibytes(memory.limit)} "
        f"({100 * memory.used / memory.limit:.1f} %). The same job may run out of memory on other hosts, "
        "or with longer samples"
    )


def device_memory(free: int, total: int, reserved: int, allocated_at_most: int, device: int) -> Memory:
    """A device's: what is used there at all, less what torch keeps and never needed.

    `free` and `total` are cudaMemGetInfo's, the others torch's statistics of its allocator, in bytes.
    """
    spare = max(0, reserved - allocated_at_most)
    return Memory(f"GPU {device}", total - free - spare, total)


def host_memory(read: Read) -> Memory | None:
    """The host's, by the container's control group, else by the system; None where neither says.

    `read` gives the text of a file, None where there is none. Files: memory.max, memory.current and
    memory.stat of control groups version 2, those of version 1 below memory/ (the kernel's
    admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst), and /proc/meminfo.
    """
    host = read("/proc/meminfo") or ""
    total, available = (1024 * _meminfo_field(host, name) for name in ("MemTotal:", "MemAvailable:"))
    for limit_file, used_file, stat_file, cached in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ):
        limit, used = (_parse_number(read(f"/sys/fs/cgroup/{file}")) for file in (limit_file, used_file))
        # Version 1 without a limit has the largest number of pages; the host's memory bounds it as well.
        if limit is not None and used is not None and (not total or limit < total):
            spare = _meminfo_field(read(f"/sys/fs/cgroup/{stat_file}") or "", cached)
            return Memory("the container's memory", max(0, used - spare), limit)
    return Memory("the host's memory", total - available, total) if total else None


def memories_here(*, with_host: bool) -> list[Memory]:
    """Those of this rank: its device's where it has one, and `with_host` the host's."""
    found = []
    import torch

    if torch.cuda.is_initialized():
        device = torch.cuda.current_device()
        free, total = torch.cuda.mem_get_info(device)
        reserved, highest = torch.cuda.memory_reserved(device), torch.cuda.max_memory_allocated(device)
        found.append(device_memory(free, total, reserved, highest, device))
    host = host_memory(_text_of) if with_host else None
    return [*found, host] if host is not None else found


def is_first_on_host() -> bool:
    """Whether this rank speaks for its host; by LOCAL_RANK, as torchrun sets it."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def _text_of(file: str) -> Any:
    try:
        return Path(file).read_text("ascii", "replace")
    except OSError:
        return None


def _parse_number(text: str | None) -> int | None:
    stripped = (text or "").strip()
    return int(stripped) if stripped.isdigit() else None


def _meminfo_field(text: str, name: str) -> int:
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == name and words[1].isdigit():
            return int(words[1])
    return 0


def _gibibytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


# A forward and backward that may run out of memory on some ranks: then all compute their batch in parts.
#
# What a rank alone must not do is try again: the others wait in the backward's all-reduce for it. So the
# backward runs without any, the ranks agree on how it went, and only then the gradients are averaged.


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
                _free_cached_memory()
                state = _CANNOT if self.parts >= batch_size(batch) else _OUT_OF_MEMORY
            rows = self._agreement.ask([state])
            states = [int(row[0]) for row in rows]
            if max(states) == _FINE:
                if self._agreement.world_size > 1:
                    average_gradients(self._model, self._agreement)
                return loss
            self._report_outcome(states, out, step)
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

    def _report_outcome(self, states: list[int], out: Exhaustion | None, step: int) -> None:
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
            say(
                f"{code} {who}{more}: from this step on all ranks compute each batch in "
                f"{2 * self.parts} parts, which takes longer; the gradients are the same where the loss is a "
                "mean over samples"
            )


def _free_cached_memory() -> None:
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
