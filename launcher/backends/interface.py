"""The one interface of the places where a plan can run.

A backend submits a plan once, and from then on answers three questions about the job by its name:
how is it, what has it printed since, stop it. Following, retrying and rendering are the session's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from launcher.failure_modes.refusal import Refusal
from launcher.planning.training_plan import TrainingPlan


class JobState(StrEnum):
    """The TrainingJobStatus of the SageMaker API, used by every backend."""

    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPING = "Stopping"
    STOPPED = "Stopped"

    @property
    def is_final(self) -> bool:
        """Whether the job can no longer change."""
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.STOPPED)


@dataclass(frozen=True, slots=True)
class Transition:
    """A phase that a job was in; the times are seconds since the epoch, `ended` None while it lasts."""

    phase: str
    started: float
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job at one moment.

    `phase` is the secondary status (Starting, Downloading, Training ...); `failure_reason` is in the
    service's form, `AlgorithmError: <content of /opt/ml/output/failure>, exit code: N`; the three
    paths are URIs on AWS and local paths otherwise; `seconds` is the time since the start, billable
    or not. `explanation` is what the service says about the phase, `transitions` the phases so far.
    `hosts` and `processes_per_host` are None where the backend does not know them. `metrics` are the
    job's own metric definitions: name to regular expression, whose first group is the value.
    """

    name: str
    state: JobState
    phase: str
    failure_reason: str | None = None
    checkpoints: str | None = None
    output: str | None = None
    seconds: float | None = None
    explanation: str | None = None
    transitions: tuple[Transition, ...] = ()
    hosts: int | None = None
    processes_per_host: int | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)


class LogLine(NamedTuple):
    """One line that a host printed: `time` is seconds since the epoch, `host` as in `algo-2`.

    A tuple, as jobs print millions of them.
    """

    time: float
    host: str
    text: str


Cursor = Mapping[str, str]
"""Where reading stopped, per log stream; opaque to everybody but the backend that made it."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """The lines since a cursor, in the order of their times, and the cursor to go on from.

    `more` where further lines wait already, so that reading on at once is worth it.
    """

    lines: Sequence[LogLine]
    cursor: Cursor
    more: bool = False


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs to list: all conditions hold together, None is no condition.

    `name` is a part of the job's name; `since` asks for jobs created after it, by the clock of the
    backend; `limit` is the highest number of jobs.
    """

    name: str | None = None
    state: JobState | None = None
    since: datetime | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class JobSummary:
    """A job in a list; the times carry their zone."""

    name: str
    state: JobState
    phase: str
    created: datetime
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a submission is: what it does, and how many bytes of how many are done.

    With a `total` of 0 it is news that has no measure, such as code that was uploaded before.
    """

    step: str
    done: int = 0
    total: int = 0


OnProgress = Callable[[Progress], None]
"""Told of a submission's progress, from several threads, one call at a time."""


class Backend(Protocol):
    """A place where plans run. All methods raise `Refusal` for what the user can act on.

    Those that are given the name of a job raise UnknownJob where there is none of that name.
    """

    name: str

    def submit(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> str:
        """Start the plan's request once and return the job's name.

        It is the plan's own name, or that of an interrupted launch of the same request, which this one
        then goes on with. `on_progress` is told of uploads and copies as they go. A refused plan raises
        BackendError, and nothing is created.
        """
        ...

    def describe(self, job_name: str) -> JobStatus:
        """How the job is now."""
        ...

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        """What all hosts printed since the cursor (an empty mapping: since the start).

        Nothing is lost and nothing comes twice as long as each batch's cursor is passed on. A batch
        may be empty while the job still runs; after a final state, an empty batch means the end.
        """
        ...

    def stop(self, job_name: str) -> None:
        """Ask the job to stop; returns before it has. Nothing happens to one that has ended."""
        ...

    def jobs(self, query: JobQuery) -> list[JobSummary]:
        """The jobs that the query asks for, newest first."""
        ...

    def renew(self) -> None:
        """Take up the credentials anew: those in use may have expired."""
        ...


class BackendError(Refusal):
    """The place where the job should run cannot take it as it is; exit code 2.

    What AWS itself refuses is an `AwsRefusal`.
    """


class UnknownJob(BackendError):
    """The backend has no job of that name."""
