"""A managed run for those who look at it from outside: its attempts so far, which is the newest, and its end.

A run is called by the name of its first attempt; `NAME/N` is attempt N of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from launcher.backends.interface import Backend, FoundJob, JobState, JobStatus, UnknownJob
from launcher.failure_modes.model import AwsRefusal
from launcher.frozen import frozen
from launcher.planning.next_attempt import managed_attempt, managed_budget, name_attempt
from launcher.planning.request_view import RequestView
from launcher.session.managed.notices import decision_in_words
from launcher.session.managed.records import AttemptRecord, ManagedPlan, Records, StartClaim, runs_below

WAITING = "waiting"
"""How a run is whose last attempt has ended and whose next one has not started."""

MOST_LISTED = 100
"""Runs of a list, the newest; each is read by itself."""


@frozen
class ManagedRun:
    """What is known of a run: what it was handed over with, the attempts that have ended, the number of the
    newest attempt that was started, and who has stopped it, if anybody has."""

    plan: ManagedPlan
    attempts: tuple[AttemptRecord, ...]
    newest: int
    stop: StartClaim | None = None

    @property
    def first(self) -> str:
        """The first attempt's name, which is the run's."""
        return self.plan.first

    @property
    def usd(self) -> float | None:
        """What the attempts that have ended cost, in US dollars; None where a price is not known."""
        known = [each.usd for each in self.attempts if each.usd is not None]
        return sum(known) if len(known) == len(self.attempts) else None

    @property
    def max_usd(self) -> float | None:
        """What all attempts together may cost."""
        return managed_budget(self.plan.requests)

    @property
    def state(self) -> str:
        """How the run is, in words: that of its last attempt, unless another one follows."""
        if self.newest > len(self.attempts):
            return "running"
        last = self.attempts[-1]
        if self.stop is not None:
            return "stopped"
        return WAITING if last.following is not None else last.state.lower()

    def to_json(self) -> dict[str, Any]:
        """The shape that `launch status --output json` prints of a run."""
        return {
            "first": self.first,
            "job": self.plan.job,
            "state": self.state,
            "newest_attempt": self.newest,
            "usd": self.usd,
            "max_usd": self.max_usd,
            "stopped_by": self.stop.who if self.stop else None,
            "attempts": [_attempt_json(each) for each in self.attempts],
        }


def _attempt_json(record: AttemptRecord) -> dict[str, Any]:
    return {
        "number": record.number,
        "name": record.name,
        "state": record.state,
        "verdict": record.verdict,
        "cause": record.cause,
        "message": record.message,
        "rank": record.rank,
        "host": record.host,
        "instance_type": record.instance_type,
        "step": record.step,
        "usd": record.usd,
        "billable_seconds": record.billable_seconds,
        "ended": record.ended,
        "decision": decision_in_words(record),
        "next_attempt_not_before": record.not_before if record.following else None,
    }


def read_run(records: Records) -> ManagedRun | None:
    """What is known of a run; None of one that was never handed over. Raises AwsRefusal where AWS refuses."""
    plan = records.plan()
    if plan is None:
        return None
    newest = _newest(records)
    return ManagedRun(plan, tuple(records.attempts()), newest, records.start_of(newest + 1))


def find_attempt(backend: Backend, status: JobStatus, s3: Callable[[], Any], number: str = "") -> FoundJob:
    """The attempt of a run that was asked for, by the status of the job whose name was given.

    By the first attempt's name that is the newest, else the job itself; `number` is that of an attempt, empty
    where none was given. Raises UnknownJob where there is no such attempt.
    """
    attempt = managed_attempt(status.request or RequestView({}))
    if attempt is None or (not number and attempt.number > 1):
        return FoundJob(backend, status)
    if number:
        if not number.isdecimal() or int(number) < 1:
            raise UnknownJob(
                f"{number!r} is not the number of an attempt of {attempt.first}.",
                f"Write it as {attempt.first}/2; `launch status {attempt.first}` shows them.",
            )
        return FoundJob(backend, backend.describe(name_attempt(attempt.first, int(number))))
    records = Records(s3(), attempt.bucket, attempt.first)
    try:
        newest = _newest(records)
    except AwsRefusal as refusal:
        return FoundJob(backend, status, f"this is the first attempt of a managed run: {refusal.message}")
    if newest == 1:
        return FoundJob(backend, status)
    found = _describe_newest(backend, attempt.first, newest)
    return FoundJob(backend, found, f"attempt {newest} of the managed run {attempt.first}: {found.name}")


def records_of(status: JobStatus, s3: Callable[[], Any]) -> Records | None:
    """The records of the run that a job is an attempt of; None of a job of no run."""
    attempt = managed_attempt(status.request or RequestView({}))
    return None if attempt is None else Records(s3(), attempt.bucket, attempt.first)


def _newest(records: Records) -> int:
    """The number of the newest attempt that was started."""
    number = 1
    while (claim := records.start_of(number + 1)) is not None and not claim.stops:
        number += 1
    return number


def _describe_newest(backend: Backend, first: str, number: int) -> JobStatus:
    """How the newest attempt is that the service knows: one that is just being started may not be there."""
    try:
        return backend.describe(name_attempt(first, number))
    except UnknownJob:
        return backend.describe(name_attempt(first, number - 1))


def stop_run(backend: Backend, records: Records, who: str, now: Callable[[], float] = time.time) -> JobState:
    """End a run for ever: no attempt starts after this, and the newest one is asked to stop.

    The right to start the next attempt is taken, which the controller then cannot have. Where it had just
    taken that itself, the right to the one after is taken, and the attempt that starts is stopped by who
    finds it first, this call or the controller. Returns how the newest attempt was. Raises AwsRefusal where
    AWS refuses.
    """
    number = 2
    while not records.claim_start(StartClaim(number, who, now(), stops=True)).stops:
        number += 1
    newest = name_attempt(records.first, number - 1)
    try:
        state = backend.describe(newest).state
    except UnknownJob:
        return JobState.IN_PROGRESS  # The controller is about to start it, and sees that the run is stopped.
    if not state.is_final:
        backend.stop(newest, who)
    return state


def list_runs(s3: Any, bucket: str, owner: str | None = None) -> list[ManagedRun]:
    """The runs whose records are in a bucket, newest first, at most `MOST_LISTED`.

    Raises AwsRefusal where AWS refuses.
    """
    # The unique parts of names sort by the time at which they were made.
    names = sorted(runs_below(s3, bucket, owner), key=lambda name: name[-17:], reverse=True)
    found = (read_run(Records(s3, bucket, name, owner)) for name in names[:MOST_LISTED])
    return [run for run in found if run is not None]


def rows_of_run(run: ManagedRun, status: JobStatus | None = None) -> list[Sequence[str]]:
    """The attempts as rows of a table: number, type, state, cause, what followed and what it cost.

    `status` is that of the newest attempt, for one that has not ended.
    """
    rows = [_row(each) for each in run.attempts]
    if run.newest > len(run.attempts):
        kind = (status.request.instance_type if status and status.request else None) or ""
        phase = status.phase if status else "being started"
        rows.append([str(run.newest), kind, phase, "", "", ""])
    return rows


HEADINGS = ("attempt", "type", "state", "cause", "decision", "USD")


def _row(record: AttemptRecord) -> Sequence[str]:
    who = "" if record.rank is None else f" rank {record.rank}"
    usd = "?" if record.usd is None else f"{record.usd:,.2f}"
    return [
        str(record.number),
        record.instance_type,
        record.state,
        f"{record.cause or ''}{who}",
        decision_in_words(record),
        usd,
    ]


def totals_of_run(run: ManagedRun) -> Mapping[str, str]:
    """What stands below the table: what the run cost, and who has stopped it."""
    found = {}
    if run.usd is not None:
        within = "" if run.max_usd is None else f" of {run.max_usd:,.2f} USD"
        ended = "an attempt that has" if len(run.attempts) == 1 else f"{len(run.attempts)} attempts that have"
        found["spent"] = f"{run.usd:,.2f} USD{within}, in {ended} ended"
    if run.stop is not None:
        found["stopped"] = f"by {run.stop.who}: no attempt starts any more"
    return found
