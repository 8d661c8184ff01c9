"""Work in forked processes: each has the parent's state to itself, and cannot hang, crash or eat up the rest.

To be used from a process of one thread.
"""

from __future__ import annotations

import json
import os
import resource
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """How the work on a task ended: with its `answer`, or in `trouble` (too long, or killed by a signal)."""

    task: T
    answer: Any
    trouble: str | None
    seconds: float


@dataclass(slots=True)
class _Fork(Generic[T]):
    task: T
    process: int
    pipe: int
    began: float
    read: bytes = b""


def in_forks(
    tasks: Iterable[T],
    work: Callable[[T], Any],
    *,
    at_once: int = 2,
    seconds: float = 60.0,
    memory_bytes: int | None = None,
) -> Iterator[Ended[T]]:
    """Work on each task in a process of its own; the answers, which must be JSON, as they come.

    A process is killed after `seconds` of wall clock; more memory than `memory_bytes` is refused to it.
    """
    left, running = iter(tasks), dict[int, _Fork[T]]()
    selector = selectors.DefaultSelector()
    try:
        while True:
            while len(running) < at_once:
                task = next(left, None)
                if task is None:
                    break
                fork = _start(task, work, memory_bytes)
                running[fork.pipe] = fork
                selector.register(fork.pipe, selectors.EVENT_READ)
            if not running:
                return
            for key, _ in selector.select(timeout=0.2):
                fork = running[key.fd]
                chunk = os.read(key.fd, 1 << 16)
                fork.read += chunk
                if not chunk:
                    selector.unregister(key.fd)
                    del running[key.fd]
                    yield _end(fork, None)
            for fork in [each for each in running.values() if time.monotonic() - each.began > seconds]:
                selector.unregister(fork.pipe)
                del running[fork.pipe]
                os.kill(fork.process, signal.SIGKILL)
                yield _end(fork, f"not ended after {seconds:g} s")
    finally:
        for fork in running.values():
            os.kill(fork.process, signal.SIGKILL)
            _end(fork, "stopped")
        selector.close()


def _start(task: T, work: Callable[[T], Any], memory_bytes: int | None) -> _Fork[T]:
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process:
        os.close(theirs)
        return _Fork(task, process, ours, time.monotonic())
    status = 1
    try:
        os.close(ours)
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
        answer = json.dumps(work(task)).encode()
        with os.fdopen(theirs, "wb") as pipe:
            pipe.write(answer)
        status = 0
    finally:
        # No clean-up of what belongs to the parent.
        sys.stderr.flush()
        os._exit(status)


def _end(fork: _Fork[T], trouble: str | None) -> Ended[T]:
    os.close(fork.pipe)
    _, status = os.waitpid(fork.process, 0)
    took = time.monotonic() - fork.began
    code = os.waitstatus_to_exitcode(status)
    if trouble is None and code != 0:
        trouble = f"died of {signal.Signals(-code).name}" if code < 0 else f"the work on it ended with {code}"
    return Ended(fork.task, None if trouble else json.loads(fork.read), trouble, took)
