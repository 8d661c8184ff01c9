"""What the screen of a followed job gets: the chosen lines, its progress, a warning when it stands still."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from launcher.backends.interface import JobStatus, LogLine
from launcher.diagnosis.completed import SuccessReader
from launcher.failure_modes.model import Finding
from launcher.session.following.follow import Display
from launcher.session.following.progress import ProgressReader, TrainingProgress
from launcher.session.following.stall import Moving, Stall, StallWatch


class Screen(Display, Protocol):
    """Where the user sees a followed job: a display that also shows progress and stalls."""

    def progress(self, progress: TrainingProgress) -> None:
        """The training has come so far; `progress` holds the newest values and the curve."""
        ...

    def stall(self, change: Stall | Moving) -> None:
        """The job stands still, or moves again after that."""
        ...


class LineChoice(Protocol):
    """Which lines of a job are shown."""

    def keep(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """Those to show now, in their order."""
        ...

    def rest(self) -> list[LogLine]:
        """Those held back so far, at the job's end."""
        ...


class Monitor:
    """A follower's display that reads along: progress and stalls are judged by all lines, shown or not.

    `furthest_step` is the highest step that the job has reported.
    """

    def __init__(
        self,
        screen: Screen,
        choice: LineChoice | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.furthest_step: float | None = None
        self._screen = screen
        self._choice = choice
        self._clock = clock
        self._reader: ProgressReader | None = None
        self._stalls = StallWatch()
        self._success = SuccessReader()
        self._look: tuple[float, JobStatus] | None = None

    def status(self, status: JobStatus) -> None:
        """Show the status; what was printed by then comes next, if anything was."""
        if self._reader is None:
            self._reader = ProgressReader(status.metrics, status.processes_per_host)
        self._judge((), stepped=False)
        self._screen.status(status)
        self._look = (self._clock(), status)

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show those of the lines that are chosen, and the progress that they report."""
        shown = lines if self._choice is None else self._choice.keep(lines)
        if shown:
            self._screen.lines(shown)
        self._success.read(lines)
        progress = self._reader.read(lines) if self._reader else None
        if progress is not None:
            self._advance(progress)
            self._screen.progress(progress)
        self._judge(lines, stepped=progress is not None)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What the lines so far say against the success of a job that completes."""
        return self._success.warnings

    def finish(self) -> None:
        """Show what was held back: nothing more comes."""
        rest = self._choice.rest() if self._choice is not None else []
        if rest:
            self._screen.lines(rest)

    def trouble(self, text: str | None) -> None:
        """Hand on to the screen why nothing can be seen, or None when it can again."""
        self._screen.trouble(text)

    def _advance(self, progress: TrainingProgress) -> None:
        if progress.step is not None:
            self.furthest_step = max(progress.step, self.furthest_step or progress.step)

    def _judge(self, lines: Sequence[LogLine], *, stepped: bool) -> None:
        """Judge the last look, once: by its lines, or when the next one comes and there were none."""
        if self._look is None:
            return
        time, status = self._look
        self._look = None
        change = self._stalls.look(time, status, lines, stepped=stepped)
        if change is not None:
            self._screen.stall(change)
