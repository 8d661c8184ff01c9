"""Follow a job to its end: its states and what it prints, through whatever passes by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from launcher.aws.bounded import SHOW_SECONDS, bounded
from launcher.aws.faults import CredentialsExpired, Outage
from launcher.backends.interface import Backend, Cursor, JobStatus, LogBatch, LogLine
from launcher.failure_modes.refusal import AwsRefusal
from launcher.text.durations import duration_in_words

_FIRST_WAIT = 1.0
_LONGEST_WAIT = 30.0


class Display(Protocol):
    """What a follower hands on at each look at the job."""

    def status(self, status: JobStatus) -> None:
        """The job's state at this look; called at every one, changed or not."""
        ...

    def lines(self, lines: Sequence[LogLine]) -> None:
        """The hosts printed these lines since the last look, in the order of their times."""
        ...

    def trouble(self, text: str | None) -> None:
        """Nothing can be seen for now, and why; None when it can again."""
        ...


@dataclass(frozen=True, slots=True)
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
        what = "AWS limits the rate of calls" if outage.throttled else "no connection to AWS"
        self._wait(outage, self._pace.outage, f"{what}, trying again")

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
