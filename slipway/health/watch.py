"""The pace of all ranks and this one's memory, looked at every so many steps and told once."""

from __future__ import annotations

import sys
import time
from typing import Any

from slipway.health.memory import is_first_on_host, memories_here, too_full
from slipway.health.pace import STEPS, Fetching, ForwardTimes, slow_ranks
from slipway.health.steps import Measured, StepBlock

CLOSE_TO_LIMIT = "MEM003"
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
        if self._counted < STEPS:
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
            found = too_full(memory)
            if found is not None and memory.what not in self._full:
                self._full.add(memory.what)
                _say(f"{CLOSE_TO_LIMIT} rank {self._rank} on {self._hosts[self._rank]}: {found}")


def _say(line: str) -> None:
    print(f"slipway: {line}", file=sys.stderr, flush=True)
