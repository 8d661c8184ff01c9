"""Processes whose parent has ended: they become this one's, so that they are found and leave no zombie."""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Callable
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they can still be found.

    Linux only (prctl(2), PR_SET_CHILD_SUBREAPER); elsewhere orphans go to the system's first process.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Orphans:
    """Takes note of the end of processes that nobody else waits for; where there is no /proc, of none.

    Whoever starts a process waits for it. One that ended and is still there some seconds later has nobody
    who does.
    """

    PATIENCE_SECONDS = 5.0
    _BETWEEN_LOOKS = 1.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next = 0.0
        self._seen: dict[int, float] = {}

    def reap(self) -> None:
        """Look at most once a second."""
        now = self._clock()
        if now < self._next:
            return
        self._next = now + self._BETWEEN_LOOKS
        ended = _ended_children()
        self._seen = {pid: self._seen.get(pid, now) for pid in ended}
        for pid, since in self._seen.items():
            if now - since >= self.PATIENCE_SECONDS:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)


def _ended_children() -> list[int]:
    """The children of this process that have ended, and that nobody has waited for."""
    with contextlib.suppress(AttributeError, OSError):
        # The system knows at once whether there is any; only then each process is looked at.
        if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return []
    own, found = str(os.getpid()), []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name in parentheses may hold spaces and parentheses itself (proc(5)).
            state, parent = file.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state == "Z" and parent == own:
                found.append(int(file.parent.name))
    return found
