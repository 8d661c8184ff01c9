"""Work in forked processes: each has the parent's state to itself, and cannot hang, crash or eat up the rest.

To be used from a process of one thread.
"""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Generic, TypeVar

import psutil

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """How the work on a task ended: with its `answer`, or in `trouble` (too long, or killed by a signal)."""

    task: T
    answer: Any
    trouble: str | None
    seconds: float


def in_forks(
    tasks: Iterable[T],
    work: Callable[[T], Any],
    *,
    at_once: int = 2,
    seconds: float = 60.0,
    memory_bytes: int | None = None,
) -> Iterator[Ended[T]]:
    """Work on each task in a process of its own; the answers as they come.

    A process is killed after `seconds` of wall clock; it is refused more than `memory_bytes` of address space
    beside what it has of its parent.
    """
    fork, left, running = get_context("fork"), iter(tasks), dict[Connection, tuple[T, ForkProcess, float]]()
    try:
        while True:
            for task in islice(left, at_once - len(running)):
                ours, theirs = fork.Pipe(duplex=False)
                process = fork.Process(target=_answer, args=(theirs, work, task, memory_bytes), daemon=True)
                process.start()
                theirs.close()
                running[ours] = task, process, time.monotonic()
            if not running:
                return
            ready = wait(list(running), timeout=0.2)
            for pipe, (task, process, began) in list(running.items()):
                took = time.monotonic() - began
                if pipe in ready or took > seconds:
                    answer = _read(pipe) if pipe in ready else None
                    trouble = _trouble(process) if pipe in ready else f"not ended after {seconds:g} s"
                    _end(pipe, process)
                    del running[pipe]
                    yield Ended(task, None if trouble else answer, trouble, took)
    finally:
        for pipe, (_, process, _) in running.items():
            _end(pipe, process)


def _answer(pipe: Connection, work: Callable[[T], Any], task: T, memory_bytes: int | None) -> None:
    if memory_bytes is not None:
        limit = psutil.Process().memory_info().vms + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    pipe.send(work(task))
    pipe.close()


def _read(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except (EOFError, OSError):
        return None


def _trouble(process: ForkProcess) -> str | None:
    process.join()
    code = process.exitcode or 0
    if code < 0:
        return f"died of {signal.Signals(-code).name}"
    return f"the work on it ended with {code}" if code else None


def _end(pipe: Connection, process: ForkProcess) -> None:
    process.kill()
    process.join()
    pipe.close()
