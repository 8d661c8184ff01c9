"""`slipway.guard`: what a training loop calls once a step, so that trouble on one rank is known on all.

It also tells of ranks that are slower than the others, and of memory that is close to its limit.
"""

from __future__ import annotations

import os
import sys
import time
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipway.errors import SlipwayError
from slipway.training.agreement import BATCH_ACTIVITY, SideGroup, host_name, rank_and_world_size
from slipway.training.split_batches import Splitting, exhaustion_of
from slipway.training.step_measures import (
    MOST_STEPS_IN_BLOCK,
    STEPS_PER_PACE_LOOK,
    AgreedSteps,
    Fetching,
    ForwardTimes,
    Loss,
    Measured,
    StepBlock,
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
            loss = self._whole(batch, loss_of)
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
            return self._judge(self._steps.now(Loss(loss)))
        return self._judge_all(self._steps.later(Loss(loss)))

    def settle(self) -> bool:
        """Wait for what all ranks found so far, as before a save; whether every loss was finite.

        Raises as `check`.
        """
        return self._judge_all(self._steps.rest())

    def __enter__(self) -> TrainingGuard:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.settle()

    def _whole(self, batch: Any, loss_of: Callable[[Any], Any]) -> Any:
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
            print(f"slipway: NUM001 {found}: {done} on all ranks", file=sys.stderr, flush=True)
        if self._restore is not None:
            # Steps that were computed with the broken weights count no more, and all ranks forget the same.
            self._steps.rest()
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

    def measured(self) -> Measured:
        """What was measured since the last time."""
        now = time.perf_counter()
        whole, self._since = now - self._since, now
        seconds, events = self._forwards.take()
        return Measured(self._fetching.take(), seconds, events, whole)

    def look(self, block: StepBlock) -> None:
        """Count steps that all ranks have told of; where these are STEPS steps or more by now, judge."""
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
                _say(slow.text(self._hosts[slow.rank]))
            self._slow.add(slow.rank)

    def _judge_memory(self) -> None:
        for memory in memories_here(with_host=is_first_on_host()):
            found = near_limit_text(memory)
            if found is not None and memory.what not in self._full:
                self._full.add(memory.what)
                _say(f"{NEAR_LIMIT_MODE} rank {self._rank} on {self._hosts[self._rank]}: {found}")


def _say(line: str) -> None:
    print(f"slipway: {line}", file=sys.stderr, flush=True)


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
        f"{memory.what} is close to its limit: {_size(memory.used)} of {_size(memory.limit)} "
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
    total, available = _meminfo(read("/proc/meminfo") or "")
    for limit_file, used_file, stat_file, cached in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ):
        limit, used = (_number(read(f"/sys/fs/cgroup/{file}")) for file in (limit_file, used_file))
        # Version 1 without a limit has the largest number of pages; the host's memory bounds it as well.
        if limit is not None and used is not None and (not total or limit < total):
            spare = _field(read(f"/sys/fs/cgroup/{stat_file}") or "", cached)
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


def _number(text: str | None) -> int | None:
    stripped = (text or "").strip()
    return int(stripped) if stripped.isdigit() else None


def _meminfo(text: str) -> tuple[int, int]:
    return 1024 * _field(text, "MemTotal:"), 1024 * _field(text, "MemAvailable:")


def _field(text: str, name: str) -> int:
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == name and words[1].isdigit():
            return int(words[1])
    return 0


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
