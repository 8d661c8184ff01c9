"""A launched job in a program's hands: how it is, what it prints, how it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from launcher.api.card import card, lines_as_html
from launcher.api.sdk_resource import sdk_resource
from launcher.api.telling import tell
from launcher.aws.bounded import LOOK_SECONDS, bounded
from launcher.backends.interface import Backend, JobStatus, LogLine
from launcher.diagnosis.model import Diagnosis
from launcher.failure_modes.refusal import Refusal
from launcher.planning.training_plan import Operation
from launcher.session.diagnosis import Check, diagnose_job
from launcher.session.following.log_filter import log_filter
from launcher.session.following.progress import TrainingProgress
from launcher.session.following.stall import Moving, Stall
from launcher.session.outcome import Outcome, outcome_of
from launcher.session.run import Interrupted, follow, pace_of, show_logs
from launcher.text.controls import without_controls
from launcher.text.durations import elapsed_time


class Job:
    """A job that was launched, on SageMaker or on this machine. Each method looks at it anew.

    `name` is the job's, `region` where it runs, None on this machine. All methods raise UnknownJob, a
    Refusal, where there is no such job any more, and AwsRefusal where AWS refuses.
    """

    def __init__(
        self,
        backend: Backend,
        name: str,
        region: str | None = None,
        operation: Operation = "CreateTrainingJob",
        check: Check | None = None,
    ) -> None:
        self.name = name
        self.region = region
        self._backend = backend
        self._operation = operation
        self._check = check
        self._ended: Outcome | None = None

    def __repr__(self) -> str:
        place = f"in {self.region}" if self.region else "on this machine"
        return f"<Job {self.name} {place}>"

    def status(self) -> JobStatus:
        """How the job is now: `state`, `phase`, `seconds`, `failure_reason`, where its results are."""
        return self._backend.describe(self.name)

    def logs(
        self,
        *,
        rank: int | None = None,
        host: int | str | None = None,
        grep: str | None = None,
        since: str | None = None,
    ) -> JobLogs:
        """What the job has printed so far, of all hosts in the order of time.

        Only the lines of a global `rank`, of a `host` (2 or "algo-2"), that match the regular expression
        `grep`, or `since` a span or time ("10m", "2026-08-20T11:30Z"); all conditions together. Raises
        Refusal for a rank or a host that the job does not have, and for an expression or a time that is none.
        """
        hosts = () if host is None else (host,)
        chosen = log_filter(self.status(), hosts=hosts, rank=rank, grep=grep, since=since)
        screen = _Gathered()
        show_logs(self._backend, self.name, screen, chosen)
        return JobLogs(screen.gathered)

    def wait(self, timeout: float | None = None, *, logs: bool = False) -> Outcome:
        """Wait until the job has ended, telling of its phases on stderr; how it ended, and why it failed.

        With `logs` its lines are printed as they come. `timeout` is in seconds; TimeoutError, and an
        interruption (KeyboardInterrupt), leave the job running.
        """
        if self._ended is not None:
            return self._ended
        pace = pace_of(self._backend)
        if timeout is not None:
            pace = replace(pace, sleep=_until(time.monotonic() + timeout, self.name, pace.sleep))
        try:
            self._ended = follow(
                self._backend, self.name, _Told(lines_too=logs), pace=pace, check=self._check
            )
        except Interrupted:
            tell(f"{self.name} goes on; end it with stop()")
            raise KeyboardInterrupt from None
        return self._ended

    def stop(self) -> None:
        """Ask the job to stop; returns before it has. Nothing happens to one that has ended."""
        if not self.status().state.is_final:
            self._backend.stop(self.name)

    def diagnosis(self) -> Diagnosis:
        """Why the job failed: the root cause, what followed from it, whether to run again.

        Of a running job, what its lines show so far; `root_cause` is None where nothing known was met. One
        that has long been silent is `unknown`.
        """
        return diagnose_job(self._backend, self.name, self._check, time.time())

    def sdk_resource(self) -> Any:
        """The SageMaker SDK's own resource: a TrainingJob, or a HyperParameterTuningJob.

        Raises Refusal for a job on this machine, and where the SDK, the extra `sdk`, is not installed.
        """
        if self._backend.runs_here:
            raise Refusal(
                f"{self.name} runs on this machine, and the SageMaker SDK knows nothing of it.",
                "Use the other methods of its handle, or launch it without `local`.",
            )
        return sdk_resource(self.name, self._operation, self.region)

    def _repr_html_(self) -> str:
        """The job in a notebook: state, name, time, and the cause of a failure."""
        try:
            return card(bounded(LOOK_SECONDS, f"look at {self.name}", self._outcome))
        except Refusal as refusal:
            return card(None, self.name, f"{refusal.message} {refusal.remedy}")

    def _outcome(self) -> Outcome:
        """How the job is, or how it ended, which is read once."""
        if self._ended is not None:
            return self._ended
        outcome = outcome_of(self._backend, self.status(), check=self._check)
        if outcome.status.state.is_final:
            self._ended = outcome
        return outcome


class JobLogs(tuple[LogLine, ...]):
    """Lines of a job; printed, and shown in a notebook, as a log."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(_shown(line) for line in self)

    def _repr_html_(self) -> str:
        return lines_as_html(str(self))


def _shown(line: LogLine) -> str:
    return f"{line.host} {without_controls(line.text)}".rstrip("\n")


def _until(deadline: float, name: str, sleep: Callable[[float], None]) -> Callable[[float], None]:
    """A sleep that ends with TimeoutError at the deadline (monotonic)."""

    def bounded_sleep(seconds: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{name} has not ended in time; it goes on")
        sleep(min(seconds, left))

    return bounded_sleep


class _Gathered:
    """A screen that keeps the lines, and shows nothing."""

    def __init__(self) -> None:
        self.gathered: list[LogLine] = []

    def status(self, status: JobStatus) -> None:
        """Nobody asked how the job is."""

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Keep the lines."""
        self.gathered += lines

    def trouble(self, text: str | None) -> None:
        """Reading what is there waits for nothing, so that no trouble passes."""

    def progress(self, progress: TrainingProgress) -> None:
        """The lines tell it."""

    def stall(self, change: Stall | Moving) -> None:
        """One look shows no stall."""


class _Told:
    """A screen of lines: phases and troubles on stderr, and if wanted what the job prints on stdout."""

    def __init__(self, *, lines_too: bool) -> None:
        self._lines_too = lines_too
        self._phase: str | None = None
        self._in_trouble = False

    def status(self, status: JobStatus) -> None:
        """Tell of a new phase."""
        if status.phase != self._phase:
            self._phase = status.phase
            after = f" after {elapsed_time(status.seconds)}" if status.seconds else ""
            tell(f"[{status.phase}]{after}")

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Print the lines, where they were asked for."""
        if self._lines_too:
            print(JobLogs(lines), flush=True)

    def trouble(self, text: str | None) -> None:
        """Tell why nothing can be seen, once, and when it can again."""
        if (text is not None) != self._in_trouble:
            self._in_trouble = text is not None
            tell(text or "connected again")

    def progress(self, progress: TrainingProgress) -> None:
        """The lines tell it."""

    def stall(self, change: Stall | Moving) -> None:
        """Tell that the job stands still, or moves again."""
        if isinstance(change, Moving):
            tell(f"{change.job_name} moves again")
        else:
            tell(f"warning: {change.message}\n  → {change.remedy}")
