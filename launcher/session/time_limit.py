"""An end to what takes too long, in CPU time: a busy machine changes nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TakesTooLongError(Exception):
    """The time is up."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TakesTooLongError in the block once this process has worked so long on it.

    Only in a process's main thread, where Python can interrupt it; elsewhere the block takes its time.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise TakesTooLongError

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
