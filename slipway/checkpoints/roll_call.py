"""All ranks bring a value to the same point, rank 0 decides over all of them, and each gets the decision.

Over the store alone, so that a thread beside the training may do it, and with a deadline, so that a rank
which does not come is named by those who did. Nobody waits inside of the store: a look at it is short.
"""

from __future__ import annotations

import json
import time
import typing
from collections.abc import Callable
from typing import Any

from slipway.checkpoints.errors import CheckpointError

PATIENCE = 480.0
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
        self, store: Any, rank: int, world_size: int, prefix: str, patience: float = PATIENCE
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
            self._lead(where, decide, each)
        answer = self._answer(where, each)
        if "code" in answer:
            raise CheckpointError(answer["code"], answer["message"])
        return answer["decision"]

    def part(self, seconds: float) -> None:
        """On rank 0: wait that long for the others to have heard the last decision, as the store may end."""
        if self.rank == 0 and self.world_size > 1 and self._meetings:
            heard = self._key(self._meetings, "heard")
            self._wait(lambda: self._store.add(heard, 0) >= self.world_size, seconds)

    def _lead(self, where: str, decide: Decide, each: bool) -> None:
        here = [self._key(self._meetings, f"value/{rank}") for rank in range(self.world_size)]
        if not self._wait(lambda: self._store.check(here), self.patience):
            self._tell(self._refusal(self._absence(where)))
            return
        values = [json.loads(self._store.get(key)) for key in here]
        # All have come, so all have heard what was decided the last time.
        for key in here:
            self._store.delete_key(key)
        self._forget_the_last()
        try:
            decision = decide(values)
        except CheckpointError as error:
            self._tell(self._refusal(error))
            return
        except Exception as error:
            self._tell(self._refusal(CheckpointError("CKPT004", f"{where} failed on rank 0: {error!r}")))
            return
        if each:
            for rank, own in enumerate(decision):
                self._tell({"decision": own}, rank)
        else:
            self._tell({"decision": decision})

    def _answer(self, where: str, each: bool) -> dict[str, Any]:
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
        return CheckpointError(
            "CKPT003",
            f"{_named(absent)} did not come to {where} in {self.patience:g} s, {_named(came)} did, and would "
            "have waited for ever. Call it on every rank, not under `if rank == 0`",
        )

    def _tell(self, answer: dict[str, Any], rank: int | None = None) -> None:
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


def _named(ranks: list[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:16]) + (", …" if len(ranks) > 16 else "")
    return f"rank {shown}" if len(ranks) == 1 else f"ranks {shown}"
