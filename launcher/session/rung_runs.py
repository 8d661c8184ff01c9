"""A rung of a ladder, run: as `launch` runs a job, and ended as soon as it has shown that it trains."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launcher.backends.interface import Backend, JobStatus, LogLine, OnProgress
from launcher.experiments.ladder.results import Climbed, Result
from launcher.failure_modes import distribution
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Finding
from launcher.session.diagnosis import Check
from launcher.session.following.monitor import LineChoice, Screen
from launcher.session.following.progress import TrainingProgress
from launcher.session.following.stall import Moving, Stall
from launcher.session.ladder import ReadyRung
from launcher.session.outcome import Outcome
from launcher.session.run import follow, follow_here
from launcher.text.durations import elapsed_time

_TRAINING = "Training"
"""The phase in which the script runs, here and on SageMaker."""

STILL_SECONDS = 60.0
_SLOWEST_REPORTS = 3
"""A run stands still when nothing has come for a minute and three times the longest pause before."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a rung goes: to its end, after so many reports of progress (None: all), or so many seconds."""

    reports: int | None
    seconds: float


class RungWatch:
    """A job's screen that ends the job as soon as it has shown enough.

    `stop` is given the job's name and who asks, once. `ended_by` says why the job was ended, None where the
    watch did not end it; `stood_still` for how many seconds it had reported nothing then, None where it
    still made steps.
    """

    def __init__(
        self,
        screen: Screen,
        stop: Callable[[str, str], None],
        bound: Bound,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ended_by: str | None = None
        self.stood_still: float | None = None
        self._screen, self._stop, self._bound, self._clock = screen, stop, bound, clock
        self._name = ""
        self._begun: float | None = None
        self._moved = 0.0
        self._longest = 0.0
        self._reports = 0
        self._final = False

    @property
    def reports(self) -> int:
        """How often the job has reported progress."""
        return self._reports

    def status(self, status: JobStatus) -> None:
        """Show the status, and end a job whose script has run for as long as it may."""
        self._name, self._final, now = status.name, status.state.is_final, self._clock()
        if self._begun is None and status.phase == _TRAINING:
            self._begun = self._moved = now
        self._screen.status(status)
        if self._begun is not None and now - self._begun >= self._bound.seconds:
            quiet = now - self._moved
            if not self._reports or quiet > max(STILL_SECONDS, _SLOWEST_REPORTS * self._longest):
                self.stood_still = quiet if self.ended_by is None else self.stood_still
            self._end(f"after {elapsed_time(self._bound.seconds)}")

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show the lines."""
        self._screen.lines(lines)

    def trouble(self, text: str | None) -> None:
        """Show why nothing can be seen."""
        self._screen.trouble(text)

    def stall(self, change: Stall | Moving) -> None:
        """Show that the job stands still, or moves again."""
        self._screen.stall(change)

    def progress(self, progress: TrainingProgress) -> None:
        """Show the progress, and end a job that has reported often enough."""
        now = self._clock()
        if self._reports:
            self._longest = max(self._longest, now - self._moved)
        self._reports, self._moved = self._reports + 1, now
        self._screen.progress(progress)
        if self._bound.reports is not None and self._reports >= self._bound.reports:
            self._end(f"after {self._reports} reports of progress")

    def _end(self, why: str) -> None:
        if self.ended_by is None and not self._final:
            self.ended_by = why
            self._stop(self._name, f"launch ladder {why} (process {os.getpid()})")


def bound_of(ready: ReadyRung, steps: int, seconds: int) -> Bound:
    """How far a rung goes; a script that was told to make few steps ends by itself."""
    return Bound(None if ready.told else steps, seconds)


def climb_here(
    ready: ReadyRung,
    backend: Backend,
    screen: Screen,
    bound: Bound,
    choice: LineChoice | None,
    on_progress: OnProgress | None = None,
) -> tuple[Climbed, Outcome]:
    """Run a rung on this machine, and say what came of it. Raises as `follow_here`."""
    watch = RungWatch(screen, backend.stop, bound)
    outcome = follow_here(backend, lambda: backend.submit(ready.plan, on_progress), watch, choice)
    return climbed_of(ready, outcome, watch), outcome


def climb_on_aws(
    ready: ReadyRung,
    backend: Backend,
    name: str,
    bound: Bound,
    screen: Screen,
    choice: LineChoice | None,
    check: Check | None = None,
) -> tuple[Climbed, Outcome]:
    """Follow a rung's job that was started on AWS, and say what came of it; `check` is as in `follow`.

    Raises as `follow`.
    """
    watch = RungWatch(screen, backend.stop, bound)
    outcome = follow(backend, name, watch, choice, check=check)
    return climbed_of(ready, outcome, watch), outcome


def climbed_of(ready: ReadyRung, outcome: Outcome, watch: RungWatch) -> Climbed:
    """What came of a rung, by how its job ended.

    A job that completed although its ranks never met has not held: each has trained alone.
    """
    alone = next(
        (each for each in outcome.warnings or () if each.code == distribution.RANKS_NEVER_MET.code), None
    )
    finding = outcome.failure.finding if outcome.failure is not None else alone
    if outcome.verdict is not None and outcome.verdict.is_bad:
        result, said = Result.BROKE, _mode(finding) if finding else "of something unknown"
    elif alone is not None:
        result, said = Result.BROKE, _mode(alone)
    elif outcome.succeeded:
        result, said = Result.HELD, "completed"
    elif watch.ended_by is not None and watch.stood_still is None:
        result, said = Result.HELD, f"stopped by the ladder {watch.ended_by}"
    elif watch.ended_by is not None:
        what = "reported nothing" if not watch.reports else "stood still"
        result, said = Result.UNDECIDED, f"{what} for {elapsed_time(watch.stood_still or 0)}"
    else:
        result, said = Result.UNDECIDED, "stopped from outside"
        finding = outcome.cause
    seconds = outcome.status.seconds
    per_hour = ready.cost.per_hour if ready.cost else None
    return Climbed(
        ready.rung,
        result,
        said,
        step=outcome.step,
        seconds=seconds,
        usd=None if per_hour is None or seconds is None else per_hour * seconds / 3600,
        job_name=outcome.status.name,
        finding=finding,
        rank=outcome.failure.rank if outcome.failure else None,
        host=outcome.failure.host if outcome.failure else None,
    )


def _mode(finding: Finding) -> str:
    """Such as `CODE001, the script raised an exception`."""
    mode = CATALOGUE.get(finding.code)
    return f"{finding.code}, {mode.title}" if mode else finding.code
