"""Follow a job to its end: its states and what it prints, through whatever passes by itself.

`Follower` looks at a job again and again and hands what it sees to a `Display`. `Monitor` is such a display:
it lets the chosen lines through, reads the progress from all of them, notices when the job stands still, and
hands the result to a `Screen`. Signals that ask this process to end come as interruptions, so that what runs
here can be ended in order.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from launcher.aws.bounded_calls import SHOW_SECONDS, bounded
from launcher.aws.errors import CredentialsExpired, Outage
from launcher.backends.interface import Backend, Cursor, JobStatus, LogBatch, LogLine
from launcher.diagnosis.diagnose import SuccessReader
from launcher.failure_modes.model import AwsRefusal, Finding, Refusal
from launcher.frozen import frozen
from launcher.session.runs.diagnose_job import Check, Outcome, outcome_of
from launcher.session.runs.estimate_end import LimitWatch, NearLimit, goals_of
from launcher.session.runs.read_job_lines import Moving, ProgressReader, Stall, StallWatch, TrainingProgress
from launcher.text.values import duration_in_words


class Interrupted(Exception):
    """The user interrupted the following; `status` is the job as it was last seen, `remedy` how to go on.

    `outcome` is how a job ended that ran here, and ended with it; `exit_code` is what a command then gives.
    """

    def __init__(
        self,
        name: str,
        status: JobStatus | None,
        remedy: str,
        outcome: Outcome | None = None,
        exit_code: int = 128 + signal.SIGINT,
    ) -> None:
        super().__init__(remedy)
        self.name = name
        self.status = status
        self.remedy = remedy
        self.outcome = outcome
        self.exit_code = exit_code


class OutputLost(Refusal):
    """A run went on to its end and could not be shown to its end."""

    exit_code = 1


def follow_local_run(
    backend: Backend, start: Callable[[], str], screen: Screen, choice: LineChoice | None = None
) -> Outcome:
    """Start a job that runs here and ends with this process, and follow it; close the backend afterwards.

    Raises Interrupted on Ctrl-C, SIGTERM or SIGHUP, after the job was stopped, had time to save a checkpoint,
    and left no process behind; OutputLost after the end of a job that could not be shown, as on a full disk,
    which is no reason to stop it; and what `start` raises.
    """
    shown = _LosableScreen(screen)
    monitor = Monitor(shown, choice)
    with ended_in_order():
        name = start()
        follower = Follower(backend, name, monitor, pace_of(backend))
        try:
            status = follower.until_end()
            monitor.finish()
        except KeyboardInterrupt as interruption:
            backend.stop(name, who_interrupted(interruption))
            status = follower.until_end()
            monitor.finish()
            raise Interrupted(
                name,
                status,
                f"Resume it with: launch resume {name}, or from its checkpoints with "
                f"--set checkpoint.resume_from={name}",
                outcome_of(backend, status, monitor.furthest_step),
                exit_code_of(interruption),
            ) from None
        if shown.lost is not None:
            raise OutputLost(
                f"what {name} printed could not be shown to its end: {shown.lost.strerror}. The run went on "
                f"without that and is {status.state}.",
                f"Free some of the disk that the output goes to; `launch logs {name}` shows it again, and "
                f"`launch diagnose {name}` how it ended.",
            ) from shown.lost
        return outcome_of(backend, status, monitor.furthest_step, monitor.warnings)


def follow(
    backend: Backend,
    name: str,
    screen: Screen,
    choice: LineChoice | None = None,
    pace: Pace | None = None,
    check: Check | None = None,
) -> Outcome:
    """Follow a job that runs without this terminal. Raises Interrupted on Ctrl-C, which leaves it running.

    `check` holds the diagnosis of one that failed against its account.
    """
    monitor = Monitor(screen, choice)
    follower = Follower(backend, name, monitor, pace or pace_of(backend))
    try:
        status = follower.until_end()
        monitor.finish()
        return outcome_of(backend, status, monitor.furthest_step, monitor.warnings, check)
    except KeyboardInterrupt:
        raise Interrupted(name, follower.seen, f"Come back with: launch logs {name} --follow") from None


def show_logs(backend: Backend, name: str, screen: Screen, choice: LineChoice | None = None) -> JobStatus:
    """Show what a job has printed so far; return its status."""
    display = Monitor(screen, choice)
    return Follower(backend, name, display, pace_of(backend)).what_is_there()


def pace_of(backend: Backend) -> Pace:
    """How a backend's jobs are followed: as often as it may be asked about them."""
    polling = backend.polling
    return Pace(poll=polling.seconds, poll_per_host=polling.seconds_per_host, end_reads=polling.end_reads)


_FIRST_WAIT = 1.0
_LONGEST_WAIT = 30.0


class Display(Protocol):
    """What a follower hands on at each look at the job; a class may leave methods out."""

    def status(self, status: JobStatus) -> None:
        """The job's state at this look; called at every one, changed or not."""
        return

    def lines(self, lines: Sequence[LogLine]) -> None:
        """The hosts printed these lines since the last look, in the order of their times."""
        return

    def trouble(self, text: str | None) -> None:
        """Nothing can be seen for now, and why; None when it can again."""
        return


@frozen
class Pace:
    """How a job is followed; all times are seconds.

    `poll` is the time between two looks, and at least `poll_per_host` for each host, so that a large job
    does not use up the account's quota of calls. After a final state, logs are read until `end_reads`
    reads in a row bring nothing: log services deliver with a delay. An outage is waited out for `outage`,
    expired credentials for `renewal`, a hundred-odd looks for somebody to sign in. Only time that was
    waited here counts: a laptop may sleep as long as it likes.
    """

    poll: float = 5.0
    poll_per_host: float = 0.2
    end_reads: int = 2
    outage: float = 12 * 3600.0
    renewal: float = 3600.0
    sleep: Callable[[float], None] = time.sleep

    def between_looks(self, hosts: int | None) -> float:
        """The wait before the next look at a job of so many hosts."""
        return max(self.poll, self.poll_per_host * (hosts or 0))


class Follower:
    """Follows one job; after an interruption it goes on where it was, and shows nothing twice.

    `seen` is the job as it was last seen.
    """

    def __init__(self, backend: Backend, job_name: str, display: Display, pace: Pace | None = None) -> None:
        self.seen: JobStatus | None = None
        self._backend = backend
        self._job_name = job_name
        self._display = display
        self._pace = pace or Pace()
        self._cursor: Cursor = {}
        self._waited = 0.0
        self._tries = 0
        self._empty_reads = 0

    def until_end(self) -> JobStatus:
        """Show the job until it has ended and all that it printed is shown; return its final status.

        Outages and expired credentials are waited out. Raises AwsRefusal where they last too long or AWS
        refuses for good; the job goes on then, and the message says so.
        """
        self._empty_reads = 0
        while True:
            wait = self.advance()
            if wait is None and self.seen is not None:
                return self.seen
            if wait:
                self._pace.sleep(wait)

    def advance(self) -> float | None:
        """One look at the job, shown: the seconds to wait before the next, None where it was the last.

        Raises as `until_end`.
        """
        look = self._look()
        if look is None:
            return 0.0
        status, batch = look
        if batch.lines:
            self._empty_reads = 0
        elif status.state.is_final:
            self._empty_reads += 1
            if self._empty_reads >= self._pace.end_reads:
                return None
        return 0.0 if batch.more else self._pace.between_looks(status.hosts)

    def what_is_there(self) -> JobStatus:
        """Show what the job has printed so far; return its status.

        Waits for nothing that passes: raises AwsRefusal at the first look that fails, or that takes longer
        than `SHOW_SECONDS`.
        """
        while True:
            seen = bounded(SHOW_SECONDS, f"read the logs of {self._job_name}", self._see)
            status, batch = self._show(*seen)
            if not batch.lines:
                return status

    def _look(self) -> tuple[JobStatus, LogBatch] | None:
        """One look, shown; None where nothing could be seen and some time was waited instead."""
        try:
            status, batch = self._see()
        except Outage as outage:
            self._wait_out(outage)
            return None
        except CredentialsExpired as expired:
            self._wait_for_credentials(expired)
            return None
        except AwsRefusal as refusal:
            raise self._left_alone(refusal) from refusal
        if self._tries:
            self._display.trouble(None)
        self._waited, self._tries = 0.0, 0
        return self._show(status, batch)

    def _see(self) -> tuple[JobStatus, LogBatch]:
        # The state first: what was printed before it became final is then read after.
        status = self._backend.describe(self._job_name)
        self.seen = status
        return status, self._backend.read_logs(self._job_name, self._cursor)

    def _show(self, status: JobStatus, batch: LogBatch) -> tuple[JobStatus, LogBatch]:
        # An interruption from here on must not show lines again.
        self._cursor = batch.cursor
        self._display.status(status)
        if batch.lines:
            self._display.lines(batch.lines)
        return status, batch

    def _wait_out(self, outage: Outage) -> None:
        self._wait(outage, self._pace.outage, f"{outage.reason}, trying again")

    def _wait_for_credentials(self, expired: CredentialsExpired) -> None:
        self._wait(
            expired,
            self._pace.renewal,
            "the credentials have expired: renew them in another terminal (`aws sso login`) to go on here",
        )
        try:
            self._backend.renew()
        except AwsRefusal:
            # Such as a profile that is being written; the next look tells.
            return

    def _wait(self, refusal: AwsRefusal, longest: float, what: str) -> None:
        if self._waited >= longest:
            raise self._left_alone(refusal) from refusal
        since = f" (for {duration_in_words(self._waited)} now)" if self._waited >= 1 else ""
        self._display.trouble(f"{what}{since}; the job is not affected")
        wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2**self._tries, longest - self._waited)
        self._tries = min(self._tries + 1, 16)
        self._pace.sleep(wait)
        self._waited += wait

    def _left_alone(self, refusal: AwsRefusal) -> AwsRefusal:
        """The refusal, with what is true of the job in spite of it."""
        if self.seen is None:
            return refusal
        gone_on = "" if self.seen.state.is_final else " The job goes on."
        return AwsRefusal(
            f"{refusal.message}{gone_on}",
            f"{refusal.remedy} Come back with: launch logs {self._job_name} --follow",
        )


Notice = Stall | Moving | NearLimit
"""What is said of a job beside its lines: each with a `message` and a `remedy`, but for Moving."""


class Screen(Display, Protocol):
    """Where the user sees a followed job: a display that also shows progress, stalls and near limits."""

    def progress(self, progress: TrainingProgress) -> None:
        """The training has come so far; `progress` holds the newest values and the curve."""
        return

    def notice(self, notice: Notice) -> None:
        """The job stands still, moves again after that, or its limit is near."""
        return


class _LosableScreen(Screen):
    """A screen that may be lost, as where its output goes to a full disk: `lost` says why, and from then on
    nothing is shown. A reader who has gone (`| head`) is another matter: nobody waits for the run then."""

    def __init__(self, screen: Screen) -> None:
        self.lost: OSError | None = None
        self._screen = screen

    def status(self, status: JobStatus) -> None:
        """As Display."""
        self._show(lambda: self._screen.status(status))

    def lines(self, lines: Sequence[LogLine]) -> None:
        """As Display."""
        self._show(lambda: self._screen.lines(lines))

    def trouble(self, text: str | None) -> None:
        """As Display."""
        self._show(lambda: self._screen.trouble(text))

    def progress(self, progress: TrainingProgress) -> None:
        """As Screen."""
        self._show(lambda: self._screen.progress(progress))

    def notice(self, notice: Notice) -> None:
        """As Screen."""
        self._show(lambda: self._screen.notice(notice))

    def _show(self, what: Callable[[], None]) -> None:
        if self.lost is not None:
            return
        try:
            what()
        except BrokenPipeError:
            raise
        except OSError as error:
            self.lost = error


class LineChoice(Protocol):
    """Which lines of a job are shown."""

    def keep(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """Those to show now, in their order."""
        ...

    def rest(self) -> list[LogLine]:
        """Those held back so far, at the job's end."""
        ...


class Monitor:
    """A follower's display that reads along: progress, stalls and near limits are judged by all lines, shown
    or not.

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
        self._limit = LimitWatch()
        self._remaining: float | None = None
        self._success = SuccessReader()
        self._look: tuple[float, JobStatus] | None = None

    def status(self, status: JobStatus) -> None:
        """Show the status; what was printed by then comes next, if anything was."""
        if self._reader is None:
            goals = goals_of(status.request)
            self._reader = ProgressReader(status.metrics, status.processes_per_host, goals)
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
        self._remaining = progress.remaining
        if progress.step is not None:
            self.furthest_step = max(progress.step, self.furthest_step or progress.step)

    def _judge(self, lines: Sequence[LogLine], *, stepped: bool) -> None:
        """Judge the last look, once: by its lines, or when the next one comes and there were none."""
        if self._look is None:
            return
        time, status = self._look
        self._look = None
        for notice in (
            self._stalls.look(time, status, lines, stepped=stepped),
            self._limit.look(status, self._remaining),
        ):
            if notice is not None:
                self._screen.notice(notice)


# Signals that ask this process to end, as interruptions.


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
