"""A launched job in a program's hands: how it is, what it prints, how it ends.

Also what a notebook shows of it: a card, on which all that is said is escaped, and lines on stderr while
something takes long.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import escape
from types import TracebackType
from typing import Any

from launcher.account.facts import FileSystem
from launcher.aws.session import LOOK_SECONDS, bounded
from launcher.backends.interface import Backend, JobState, JobStatus, LogLine, Progress
from launcher.diagnosis.logs.lines import redacted
from launcher.diagnosis.model import Diagnosis
from launcher.failure_modes.model import Finding
from launcher.failure_modes.refusal import Refusal
from launcher.planning.training_plan import Operation
from launcher.session.runs.diagnose_job import Check, Outcome, diagnose_job, outcome_of
from launcher.session.runs.follow_job import Interrupted, follow, pace_of, show_logs
from launcher.session.runs.read_job_lines import Moving, Stall, TrainingProgress, log_filter
from launcher.text.values import elapsed_time, size_in_words, without_controls


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
        screen = _GatheredLines()
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
            pace = replace(pace, sleep=_sleep_until(time.monotonic() + timeout, self.name, pace.sleep))
        try:
            self._ended = follow(
                self._backend, self.name, _PrintedScreen(lines_too=logs), pace=pace, check=self._check
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


def _sleep_until(deadline: float, name: str, sleep: Callable[[float], None]) -> Callable[[float], None]:
    """A sleep that ends with TimeoutError at the deadline (monotonic)."""

    def bounded_sleep(seconds: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"{name} has not ended in time; it goes on")
        sleep(min(seconds, left))

    return bounded_sleep


class _GatheredLines:
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


class _PrintedScreen:
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


_COLOURS = {JobState.COMPLETED: "#1a7f37", JobState.FAILED: "#cf222e"}
_OTHERS = "#9a6700"


def card(outcome: Outcome | None, name: str = "", trouble: str = "") -> str:
    """The HTML of a job by how it is or ended; of one that cannot be seen, its name and why."""
    if outcome is None:
        return _block(f"<b>{_plain(name)}</b>", _plain(trouble))
    status, cause = outcome.status, outcome.cause
    state = f'<b style="color:{_COLOURS.get(status.state, _OTHERS)}">{_plain(_state(status))}</b>'
    took = f" {elapsed_time(status.seconds)}" if status.seconds is not None else ""
    rows = [f"{state} <code>{_plain(status.name)}</code>{took}"]
    if cause is not None:
        rows += _finding_rows(cause)
    elif status.failure_reason:
        rows.append(_plain(redacted(status.failure_reason)))
    elif status.explanation:
        rows.append(_plain(status.explanation))
    for warning in outcome.warnings or ():
        rows += _finding_rows(warning)
    return _block(*rows)


def lines_as_html(text: str) -> str:
    """Log lines as preformatted text."""
    return f"<pre>{_plain(text)}</pre>"


def _finding_rows(finding: Finding) -> tuple[str, str]:
    return f"<b>{_plain(finding.code)}</b> {_plain(finding.message)}", f"→ {_plain(finding.remedy)}"


def _state(status: JobStatus) -> str:
    return status.state if status.phase == status.state else f"{status.state} ({status.phase})"


def _block(*rows: str) -> str:
    return f"<div>{'<br>'.join(rows)}</div>"


def _plain(text: str) -> str:
    return escape(without_controls(text))


LONG_SECONDS = 2.0
"""After so long without a word people begin to wonder."""

_LINE_EVERY_SECONDS = 10.0


def tell(text: str) -> None:
    """Say it in a line of stderr, which notebooks show below the cell."""
    print(without_controls(text), file=sys.stderr, flush=True)


class Telling:
    """Tells how far a look into the account and a submission are, from the third second on, now and then.

    News, such as the name under which a job was submitted, are told at once.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, tell: Callable[[str], None] = tell
    ) -> None:
        self._clock = clock
        self._tell = tell
        self._next = clock() + LONG_SECONDS

    def __enter__(self) -> Telling:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing was opened."""

    def reading(self, read: int, total: int) -> None:
        """So many bytes of the code have been read."""
        share = 100 * read // total if total else 100
        self._now_and_then(f"reading {size_in_words(total)} of code: {share}%")

    def progress(self, answered: int, asked: int, waiting_for: str) -> None:
        """AWS has given so many of the answers that were asked for."""
        waiting = f", waiting for {waiting_for}" if waiting_for else ""
        self._now_and_then(f"looking at the account: {answered} of {asked} answers{waiting}")

    def waiting(self, file_system: FileSystem, seconds: float) -> None:
        """The file system is still being created, after a wait of so many seconds."""
        self._now_and_then(
            f"{file_system.id} is {file_system.lifecycle}, waiting for AVAILABLE ({seconds / 60:.0f} min)"
        )

    def submission(self, progress: Progress) -> None:
        """A submission has come so far."""
        if not progress.total:
            self._tell(progress.step)
            return
        share = 100 * progress.done // progress.total
        self._now_and_then(f"{progress.step}: {share}% of {size_in_words(progress.total)}")

    def _now_and_then(self, text: str) -> None:
        if self._clock() >= self._next:
            self._next = self._clock() + _LINE_EVERY_SECONDS
            self._tell(text)


def sdk_resource(name: str, operation: Operation, region: str | None) -> Any:
    """The SDK's TrainingJob, or HyperParameterTuningJob, of a job that is there.

    Raises Refusal where version 3 of the SDK cannot be imported, which takes a second where it can.
    """
    try:
        from sagemaker.core.resources import HyperParameterTuningJob, TrainingJob
    except ImportError as error:
        raise Refusal(
            f"the SageMaker SDK, version 3, cannot be imported: {error}. The job {name} is not affected.",
            "Install the package's extra `sdk`, or `sagemaker>=3.27`; all else that the job's handle does "
            "needs no SDK.",
        ) from error
    if operation == "CreateTrainingJob":
        return TrainingJob.get(training_job_name=name, region=region)
    return HyperParameterTuningJob.get(hyper_parameter_tuning_job_name=name, region=region)
