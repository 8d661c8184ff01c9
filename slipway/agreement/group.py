"""All ranks put a row of numbers together, or a small value each, without touching the training's group.

The numbers travel over gloo, by the CPU, whatever the training's backend is: nothing waits for a device, and
no collective of the training's can come between.
"""

from __future__ import annotations

import inspect
import json
import os
import socket
import sys
import typing
from collections.abc import Sequence
from typing import Any

Rows = typing.List[typing.List[float]]  # noqa: UP006 - Python 3.8
"""A row of numbers of each rank, by rank."""


class PendingAnswer:
    """Rows that are on their way."""

    def __init__(self, together: Any, width: int, work: Any) -> None:
        self._together, self._width, self._work = together, width, work

    def wait(self) -> Rows:
        """The rows of all ranks, once all have given theirs.

        Raises RuntimeError where a rank has ended, or does not come within the group's timeout.
        """
        if self._work is not None:
            self._work.wait()
        numbers = self._together.tolist()
        return [numbers[begin : begin + self._width] for begin in range(0, len(numbers), self._width)]


class SideGroup:
    """A gloo group of all ranks; every rank makes it and asks the same in the same order.

    Without a process group it is this process alone.
    """

    def __init__(self) -> None:
        self.rank, self.world_size = ranks()
        self._group = _own_group() if self.world_size > 1 else None

    def begin(self, row: Sequence[float]) -> PendingAnswer:
        """Give this rank's row and go on; the others have as many numbers in theirs."""
        import torch

        width = len(row)
        numbers = [0.0] * (width * self.world_size)
        numbers[width * self.rank : width * (self.rank + 1)] = row
        # One tensor from one list: each further operation on tensors would cost a step as much again.
        together = torch.tensor(numbers, dtype=torch.float64)
        if self._group is None:
            return PendingAnswer(together, width, None)
        # What dist.all_reduce itself calls, a sum, without its checks: those take as long again.
        return PendingAnswer(together, width, self._group.allreduce([together]))

    def ask(self, row: Sequence[float]) -> Rows:
        """Give this rank's row and wait for the others'. Raises as `PendingAnswer.wait`."""
        return self.begin(row).wait()

    def any_of(self, flags: Sequence[bool]) -> list[bool]:
        """For each flag whether any rank has it set. Raises as `PendingAnswer.wait`."""
        import torch
        import torch.distributed as dist

        if self._group is None:
            return list(flags)
        together = torch.tensor(flags, dtype=torch.uint8)
        dist.all_reduce(together, op=dist.ReduceOp.MAX, group=self._group)
        return [bool(flag) for flag in together.tolist()]

    def gather(self, value: Any) -> list[Any]:
        """What each rank gave, by rank: something small that JSON takes. Raises as `PendingAnswer.wait`."""
        if self._group is None:
            return [value]
        import torch
        import torch.distributed as dist

        own = json.dumps(value).encode()
        sizes = [int(row[0]) for row in self.ask([len(own)])]
        padded = torch.zeros(max(sizes), dtype=torch.uint8)
        padded[: len(own)] = torch.tensor(list(own), dtype=torch.uint8)
        parts = [torch.zeros_like(padded) for _ in sizes]
        dist.all_gather(parts, padded, group=self._group)
        return [json.loads(bytes(part[:size].tolist())) for part, size in zip(parts, sizes)]


def ranks() -> tuple[int, int]:
    """This process' rank and the world size; 0 and 1 without a process group."""
    # Who has not loaded torch has no process group.
    if "torch" not in sys.modules:
        return 0, 1
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def host_name() -> str:
    """This host as SageMaker calls it, else as the system does."""
    return os.environ.get("SM_CURRENT_HOST") or socket.gethostname()


def named(numbers: Sequence[int]) -> str:
    """The ranks in words, the first sixteen by number: "ranks 0, 3"."""
    shown = ", ".join(str(rank) for rank in numbers[:16]) + (", …" if len(numbers) > 16 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"


def _own_group() -> Any:
    import torch.distributed as dist

    # Since torch 2.4 a group has a description, by which a flight recorder's reader knows whose it is.
    described = "group_desc" in inspect.signature(dist.new_group).parameters
    return dist.new_group(backend="gloo", **({"group_desc": "slipway"} if described else {}))
