"""How the ranks of a job agree beside the training: on a gloo group of their own, or over the job's store.

Over the group all ranks put a row of numbers together, or a small value each. The numbers travel by the
CPU, whatever the training's backend is: nothing waits for a device, and no collective of the training's can
come between. Over the store a thread beside the training may do it, and rank 0 decides.
"""

from __future__ import annotations

import inspect
import json
import os
import socket
import sys
import time
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.errors import CheckpointError

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
        self.rank, self.world_size = rank_and_world_size()
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


def rank_and_world_size() -> tuple[int, int]:
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


def ranks_in_words(numbers: Sequence[int]) -> str:
    """The ranks in words, the first sixteen by number: "ranks 0, 3"."""
    shown = ", ".join(str(rank) for rank in numbers[:16]) + (", …" if len(numbers) > 16 else "")
    return f"rank {shown}" if len(numbers) == 1 else f"ranks {shown}"


def _own_group() -> Any:
    import torch.distributed as dist

    # Since torch 2.4 a group has a description, by which a flight recorder's reader knows whose it is.
    described = "group_desc" in inspect.signature(dist.new_group).parameters
    return dist.new_group(backend="gloo", **({"group_desc": "slipway"} if described else {}))


# All ranks bring a value to the same point, rank 0 decides over all of them, and each gets the decision.
#
# Over the store alone, so that a thread beside the training may do it, and with a deadline, so that a rank
# which does not come is named by those who did. Nobody waits inside of the store: a look at it is short.


ROLL_CALL_PATIENCE = 480.0
"""Seconds for which ranks wait for each other: less than the 10 minutes after which NCCL ends a collective
(torch/distributed/constants.py), so that the missing rank is named before the others are ended."""

_SHORTEST, _LONGEST = 0.001, 0.25
"""Seconds between two looks at the store: the first, and the last after many."""

_GRACE = 30.0
"""Seconds for which the others wait longer than rank 0 does, whose decision names who is missing."""

Decide = typing.Callable[["list[Any]"], Any]


class RollCall:
    """The ranks of a job, meeting at one point after another. One thread at a time may use it.

    `store` is a connection of its own (None for one rank alone), `prefix` the same text on all ranks and
    on no other roll-call. Values are what JSON takes.
    """

    def __init__(
        self, store: Any, rank: int, world_size: int, prefix: str, patience: float = ROLL_CALL_PATIENCE
    ) -> None:
        self.rank, self.world_size, self.patience = rank, world_size, patience
        self._store, self._prefix = store, prefix
        self._meetings = 0

    def meet(self, where: str, value: Any, decide: Decide, *, each: bool = False) -> Any:
        """What rank 0's `decide` makes of all ranks' values, by rank; `where` is for people: "save(step=5)".

        With `each`, the decision is a list with one answer for each rank. A CheckpointError that rank 0
        raises is raised by all. Raises CheckpointError (CKPT003) where ranks do not come in time.
        """
        self._meetings += 1
        if self.world_size == 1:
            decision = decide([value])
            return decision[0] if each else decision
        self._store.set(self._key(self._meetings, f"value/{self.rank}"), json.dumps(value))
        if self.rank == 0:
            self._decide_as_leader(where, decide, each)
        answer = self._read_decision(where, each)
        if "code" in answer:
            raise CheckpointError(answer["code"], answer["message"])
        return answer["decision"]

    def part(self, seconds: float) -> None:
        """On rank 0: wait that long for the others to have heard the last decision, as the store may end."""
        if self.rank == 0 and self.world_size > 1 and self._meetings:
            heard = self._key(self._meetings, "heard")
            self._wait(lambda: self._store.add(heard, 0) >= self.world_size, seconds)

    def _decide_as_leader(self, where: str, decide: Decide, each: bool) -> None:
        here = [self._key(self._meetings, f"value/{rank}") for rank in range(self.world_size)]
        if not self._wait(lambda: self._store.check(here), self.patience):
            self._publish(self._refusal(self._absence(where)))
            return
        values = [json.loads(self._store.get(key)) for key in here]
        # All have come, so all have heard what was decided the last time.
        for key in here:
            self._store.delete_key(key)
        self._forget_the_last()
        try:
            decision = decide(values)
        except CheckpointError as error:
            self._publish(self._refusal(error))
            return
        except Exception as error:
            self._publish(self._refusal(CheckpointError("CKPT004", f"{where} failed on rank 0: {error!r}")))
            return
        if each:
            for rank, own in enumerate(decision):
                self._publish({"decision": own}, rank)
        else:
            self._publish({"decision": decision})

    def _read_decision(self, where: str, each: bool) -> dict[str, Any]:
        keys = [self._key(self._meetings, "answer")]
        keys += [self._key(self._meetings, f"answer/{self.rank}")] if each else []
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [key for key in keys if self._store.check([key])]
            return bool(found)

        if not self._wait(is_there, self.patience + _GRACE):
            raise self._absence(where)
        answer: dict[str, Any] = json.loads(self._store.get(found[0]))
        self._store.add(self._key(self._meetings, "heard"), 1)
        return answer

    def _absence(self, where: str) -> CheckpointError:
        came: list[int] = []
        absent: list[int] = []
        for rank in range(self.world_size):
            there = self._store.check([self._key(self._meetings, f"value/{rank}")])
            (came if there else absent).append(rank)
        if not absent:
            return CheckpointError("CKPT003", f"rank 0 did not decide over {where} in {self.patience:g} s")
        missing, waiting = ranks_in_words(absent), ranks_in_words(came)
        return CheckpointError(
            "CKPT003",
            f"{missing} did not come to {where} in {self.patience:g} s, {waiting} did, and would "
            "have waited for ever. Call it on every rank, not under `if rank == 0`",
        )

    def _publish(self, answer: dict[str, Any], rank: int | None = None) -> None:
        name = "answer" if rank is None else f"answer/{rank}"
        self._store.set(self._key(self._meetings, name), json.dumps(answer))

    @staticmethod
    def _refusal(error: CheckpointError) -> dict[str, Any]:
        return {"code": error.code, "message": error.message}

    def _forget_the_last(self) -> None:
        names = ["answer", "heard", *(f"answer/{rank}" for rank in range(self.world_size))]
        keys = [self._key(self._meetings - 1, name) for name in names]
        for key in keys:
            if self._store.check([key]):
                self._store.delete_key(key)

    def _key(self, meeting: int, name: str) -> str:
        return f"{self._prefix}/{meeting}/{name}"

    @staticmethod
    def _wait(condition: Callable[[], bool], seconds: float) -> bool:
        deadline, pause = time.monotonic() + seconds, _SHORTEST
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)
        return True


# A connection of one's own to the store in which the ranks of a job leave each other messages.
#
# A client that waits in `get` holds a lock, so that on torch's own one the training thread would wait with
# it, and two ranks could wait for each other for ever. `store.clone()` makes a second client; where a
# version of torch has none, one is made for the same server.


def own_connection() -> Any:
    """A client of the store of the default process group that nobody else uses. Raises RuntimeError."""
    from torch.distributed import distributed_c10d

    store = distributed_c10d._get_default_store()
    return store.clone() if hasattr(store, "clone") else _second_client(store)


def _second_client(store: Any) -> Any:
    from torch.distributed import FileStore, PrefixStore, TCPStore

    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if isinstance(store, FileStore):
        client = FileStore(store.path, -1)
    else:
        # Before torch 2.0 a store does not tell what it wraps, but where torchrun put it is told.
        address = getattr(store, "host", None) or os.environ["MASTER_ADDR"]
        port = getattr(store, "port", None) or int(os.environ["MASTER_PORT"])
        client = TCPStore(address, port, is_master=False)
    # The prefix of a restart is lost with the wrapping; a store may outlive the ranks that were before.
    return PrefixStore(f"slipway/{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", client)


# What even_batches is doing in this process, for who measures or needs all ranks.


@dataclass
class BatchActivity:
    """`fetching`: seconds spent in loaders so far; `joining`: ranks may have left (mode="join")."""

    fetching: float = 0.0
    joining: bool = False


BATCH_ACTIVITY = BatchActivity()
