"""How long the launcher waits for AWS, and the threads in which it asks.

A timeout of a connection begins anew with every byte, so that waiting has bounds of its own, which hold
whatever the network does.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from threading import Thread
from typing import ParamSpec, TypeVar

from launcher.failure_modes.model import Unreachable

LOOK_SECONDS = 40.0
"""For all that a command asks that only looks: with its start and its output it ends within a minute, also
where the machine has much else to do."""

FIND_SECONDS = 15.0
"""For the first of two things that such a command asks."""

SHOW_SECONDS = 25.0
"""For the second, and for each part of what comes in parts: while something comes, it may take longer."""

T = TypeVar("T")
P = ParamSpec("P")


def bounded(seconds: float, action: str, call: Callable[[], T]) -> T:
    """What the call returns, or raises; Unreachable where it has done neither after so many seconds."""
    answer: Future[T] = DaemonPool(1).submit(call)
    try:
        return answer.result(seconds)
    except TimeoutError:
        if answer.done():
            raise
        raise Unreachable(
            f"could not {action} within {seconds:g} s: AWS, or the network, answers too slowly.",
            "Check the network, then try again.",
        ) from None


class DaemonPool(Executor):
    """Threads that do not keep the process from ending, as those of the standard library's pools do.

    They end with their last call once nobody holds the pool: a notebook that asks for hours has few of them.
    """

    def __init__(self, threads: int) -> None:
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._to_start = threads
        weakref.finalize(self, self._waiting.put, None).atexit = False

    def submit(self, call: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> Future[T]:
        """Call it in one of the threads, as soon as one is free."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call(*arguments, **named))
            except BaseException as error:  # handed over, not swallowed
                future.set_exception(error)

        self._waiting.put(run)
        if self._to_start > 0:
            self._to_start -= 1
            Thread(target=_work_off, args=(self._waiting,), name="slipway-aws", daemon=True).start()
        return future


def _work_off(waiting: SimpleQueue[Callable[[], None] | None]) -> None:
    """Make the calls that wait, until there is None, which is left to the other threads."""
    while call := waiting.get():
        call()
    waiting.put(None)
