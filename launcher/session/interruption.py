"""Signals that ask this process to end, as interruptions: so that what runs here can be ended in order."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ASKING = (signal.SIGTERM, signal.SIGHUP)
"""Besides Ctrl-C: what schedulers and `timeout` send, and what a closed terminal sends."""


class Terminated(KeyboardInterrupt):
    """A signal asked this process to end; `signal` is which."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)
        super().__init__(self.signal.name)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Within this, SIGTERM and SIGHUP raise Terminated, where they would end the process on the spot.

    Where somebody ignores or handles them, as `nohup` does, and in other threads than the main one, which
    alone gets signals, they stay as they are.
    """
    taken = []
    if threading.current_thread() is threading.main_thread():
        taken = [number for number in _ASKING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def who_interrupted(interruption: KeyboardInterrupt) -> str:
    """Such as `Ctrl-C in its launcher (process 4711)`."""
    how = f"{interruption.signal.name} to" if isinstance(interruption, Terminated) else "Ctrl-C in"
    return f"{how} its launcher (process {os.getpid()})"


def exit_code_of(interruption: KeyboardInterrupt) -> int:
    """What shells give a command that ended by the signal: 128 and its number."""
    number = interruption.signal if isinstance(interruption, Terminated) else signal.SIGINT
    return 128 + number


def _raise(number: int, frame: FrameType | None) -> None:
    raise Terminated(number)
