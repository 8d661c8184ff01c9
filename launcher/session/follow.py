"""Follow a job to its end: its states and what it prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from launcher.backends.interface import Backend, Cursor, JobStatus, LogLine


class Display(Protocol):
    """Where a followed job is shown."""

    def status(self, status: JobStatus) -> None:
        """The job is like this now; called at every look, changed or not."""
        ...

    def lines(self, lines: Sequence[LogLine]) -> None:
        """The hosts printed these lines."""
        ...


class Follower:
    """Follows one job; after an interruption it goes on where it was, and shows nothing twice."""

    def __init__(self, backend: Backend, job_name: str, display: Display) -> None:
        self._backend = backend
        self._job_name = job_name
        self._display = display
        self._cursor: Cursor = {}

    def until_end(self, pause: Callable[[], None], end_reads: int = 1) -> JobStatus:
        """Show the job until it has ended and all that it printed is shown; return its final status.

        `pause` waits between two looks. After a final state, logs are read until `end_reads` reads in
        a row bring nothing: log services deliver with a delay.
        """
        empty_reads = 0
        while True:
            # The state first: what was printed before it became final is then read after.
            status = self._backend.describe(self._job_name)
            batch = self._backend.read_logs(self._job_name, self._cursor)
            self._cursor = batch.cursor
            self._display.status(status)
            if batch.lines:
                self._display.lines(batch.lines)
                empty_reads = 0
                continue
            if status.state.is_final:
                empty_reads += 1
                if empty_reads >= end_reads:
                    return status
            pause()
