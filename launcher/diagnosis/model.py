"""What goes into a diagnosis beside the lines, and what it is: plain data.

How the place where a job ran says that it ended; the root cause with what followed from it, what is known of
each rank, and whether to run again. Backends import it to say how a job ended, so it loads nothing of the
diagnosis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from enum import StrEnum
from typing import Any

from launcher.failure_modes.model import Finding, Retry
from launcher.frozen import frozen


class StopCause(StrEnum):
    """What ended a job from outside."""

    ASKED = "asked"
    """Somebody or something asked for it: Ctrl-C, `launch stop`, a signal, StopTrainingJob."""
    MAX_RUNTIME = "max-runtime"
    """It ran for as long as its limits allow."""
    MAX_USD = "max-usd"
    """It ran for as long as its budget pays for."""
    MAX_WAIT = "max-wait"
    """A spot job waited and ran for as long as its limits allow."""
    SPOT = "spot"
    """Its spot hosts were taken away for good."""
    LAUNCHER = "launcher"
    """A local run whose launcher was killed."""
    QUEUE = "queue"
    """It was taken out of its queue before any host was started for it."""


@frozen
class Stop:
    """What ended a job from outside, and when.

    `who` says it in words, such as `Ctrl-C in its launcher (process 4711)`; None where the place does not
    know. `at` is in seconds since the epoch, `limit` the limit that was reached, in seconds.
    """

    cause: StopCause
    who: str | None = None
    at: float | None = None
    limit: float | None = None


class End(StrEnum):
    """What the place says of a job's end."""

    NOT_TOLD = "not-told"
    """Nobody says: there are only the lines."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


@frozen
class Ending:
    """How a job ended, as its place tells it; by default nobody does.

    `job` is the name under which the launcher can resume it, None where it cannot. `stop` is what ended, or
    is about to end, the job from outside. `checkpoints` is False where it is known to have left none.
    `restarted` is when its place started all its hosts anew for the last time, `trains_at` when that said
    that it still trains, by the clock of its lines; both in seconds since the epoch.
    """

    end: End = End.NOT_TOLD
    job: str | None = None
    stop: Stop | None = None
    checkpoints: bool = True
    restarted: float | None = None
    trains_at: float | None = None


class Verdict(StrEnum):
    """What became of a job, in a word; part of the command line's JSON."""

    FAILED = "failed"
    """It failed, or its lines show a failure: the root cause says of what."""
    HEALTHY = "healthy"
    """It completed, or nothing has failed so far, and something shows that it is well."""
    STOPPED = "stopped"
    """It was ended from outside (STOP001), and nothing had failed before."""
    UNKNOWN = "unknown"
    """It failed of something that is not known here, or nothing shows whether it did."""

    @property
    def is_bad(self) -> bool:
        """Whether something failed, or nobody knows that nothing did."""
        return self in (Verdict.FAILED, Verdict.UNKNOWN)


class Confidence(StrEnum):
    """How sure a root cause is, in a word; part of the command line's JSON."""

    SURE = "sure"
    LIKELY = "likely"
    UNSURE = "unsure"


@frozen
class Sureness:
    """How sure a root cause is, and why."""

    confidence: Confidence
    why: str


_TOLD = Sureness(Confidence.SURE, "the place where it ran tells it")


@frozen
class RootCause:
    """The failure that came first: the finding, who failed, and the lines that show it.

    `rank` is global, None where no line tells; `log_line` is the line that shows the failure,
    `evidence` a few lines around it. Both are printable and hold no secrets.
    """

    finding: Finding
    rank: int | None
    host: str | None
    log_line: str
    evidence: tuple[str, ...]
    sureness: Sureness = _TOLD

    def to_json(self) -> dict[str, Any]:
        """The finding's shape and who, where and how it shows."""
        return {
            **self.finding.to_json(),
            "rank": self.rank,
            "host": self.host,
            "log_line": self.log_line,
            "evidence": list(self.evidence),
            "confidence": self.sureness.confidence.value,
            "confidence_reason": self.sureness.why,
        }


class CheckOutcome(StrEnum):
    """What the account shows of a possible cause, in a word; part of the command line's JSON."""

    WRONG = "wrong"
    """It is as it must not be: it may well be the cause."""
    RIGHT = "right"
    """It is as it should be: this is not the cause."""
    NOT_VERIFIED = "not-verified"
    """It could not be seen, such as for want of a permission."""


@frozen
class AccountCheck:
    """What the account shows, after a failure, of a failure mode that may lie behind it.

    `message` says it in words, `remedy` what to do where it is wrong or could not be seen.
    """

    code: str
    outcome: CheckOutcome
    message: str
    remedy: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The check as the JSON of `launch diagnose` has it."""
        return {
            "code": self.code,
            "outcome": self.outcome.value,
            "message": self.message,
            "remedy": self.remedy,
        }


@frozen
class CollectiveCall:
    """A collective operation of a process group: its name, such as `ALLREDUCE`, the number that its group
    counts it by (from 1), the group's name, and how many elements go in. None is what is not known."""

    name: str
    sequence: int | None = None
    group: str | None = None
    elements: int | None = None


@frozen
class RankState:
    """A rank as the evidence shows it last; None is what is not known.

    `rank` is global. `last_output` is in seconds since the epoch and `step` is the script's own count.
    `enqueued` and `completed` are the last collectives that it called and that ended; `exit` is how its
    process ended, such as `exit code 1` or `SIGKILL`; `state` is what its process does, such as `stopped`;
    `frame` is the innermost frame of the user's code, such as `train.py:88 in step`.
    """

    rank: int
    host: str | None = None
    last_output: float | None = None
    step: int | None = None
    enqueued: CollectiveCall | None = None
    completed: CollectiveCall | None = None
    exit: str | None = None
    state: str | None = None
    frame: str | None = None

    @property
    def is_silent(self) -> bool:
        """Whether nothing was read of the rank."""
        return self == RankState(self.rank)

    def to_json(self) -> dict[str, Any]:
        """The row as the JSON of `launch diagnose` has it."""
        return asdict(self)


def table_of(rows: Iterable[RankState]) -> tuple[RankState, ...]:
    """One row a rank, in the order of the ranks: what a later row knows replaces what an earlier one knew."""
    table: dict[int, RankState] = {}
    for row in rows:
        known = table.get(row.rank)
        table[row.rank] = row if known is None else _newer_over(known, row)
    return tuple(table[rank] for rank in sorted(table))


def _newer_over(known: RankState, newer: RankState) -> RankState:
    told = {each.name: value for each in fields(newer) if (value := getattr(newer, each.name)) is not None}
    return replace(known, **told)


@frozen
class Diagnosis:
    """Why a job failed.

    `verdict` says whether it did. `root_cause` is None for a healthy job and where nothing known was met;
    `consequences` are findings of the same failure on other ranks or in other words; `findings` are all, the
    root cause first. Of a job that was stopped the root cause is STOP001. `ranks` is what is known of each
    rank, in their order. `runner_up` is what else may have been the cause, where that is not sure. Of an
    unknown verdict `summary` says what was read, and `unusual` are the last lines that nobody has explained.
    `checked` is what the account was asked about the root cause: nothing for log files and runs here.
    `retry_known` is False where nobody can say what another attempt would do, as of a process of which only
    the exit code is known; `retry` is what the launcher does then.
    """

    verdict: Verdict
    root_cause: RootCause | None
    consequences: tuple[Finding, ...]
    findings: tuple[Finding, ...]
    retry: Retry
    ranks: tuple[RankState, ...] = ()
    runner_up: Finding | None = None
    summary: str | None = None
    unusual: tuple[str, ...] = ()
    checked: tuple[AccountCheck, ...] = ()
    retry_known: bool = True

    def to_json(self) -> dict[str, Any]:
        """The shape that `launch diagnose --output json` prints."""
        return {
            "verdict": self.verdict.value,
            "root_cause": self.root_cause.to_json() if self.root_cause else None,
            "consequences": [finding.to_json() for finding in self.consequences],
            "findings": [finding.to_json() for finding in self.findings],
            # Where nothing failed, or nothing is known, nobody can say what another attempt would do.
            "retry": self.retry.value if self.root_cause and self.retry_known else None,
            "runner_up": self.runner_up.to_json() if self.runner_up else None,
            "ranks": [row.to_json() for row in self.ranks],
            "summary": self.summary,
            "unusual": list(self.unusual),
            "checked": [each.to_json() for each in self.checked],
        }
