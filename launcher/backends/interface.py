"""The one interface of the places where a plan can run.

A backend submits a plan once, and from then on answers three questions about the job by its name:
how is it, what has it printed since, stop it. Following, retrying and rendering are the session's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

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
class JobStatus:
    """A job at one moment.

    `phase` is the secondary status (Starting, Downloading, Training ...); `failure_reason` is in the
    service's form, `AlgorithmError: <content of /opt/ml/output/failure>, exit code: N`; the three
    paths are URIs on AWS and local paths otherwise; `seconds` is the time since the start, billable
    or not.
    """

    name: str
    state: JobState
    phase: str
    failure_reason: str | None = None
    checkpoints: str | None = None
    output: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line that a host printed: `time` is seconds since the epoch, `host` as in `algo-2`."""

    time: float
    host: str
    text: str


Cursor = Mapping[str, str]
"""Where reading stopped, per log stream; opaque to everybody but the backend that made it."""


@dataclass(frozen=True, slots=True)
class LogBatch:
    """The lines since a cursor, in the order of their times, and the cursor to go on from."""

    lines: Sequence[LogLine]
    cursor: Cursor


class Backend(Protocol):
    """A place where plans run. All methods raise `Refusal` for what the user can act on."""

    name: str

    def submit(self, plan: TrainingPlan) -> str:
        """Start the plan's request once and return the job's name."""
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
        """Ask the job to stop; returns before it has."""
        ...


class BackendError(Refusal):
    """The place where the job should run cannot take it as it is; exit code 2.

    What AWS itself refuses is an `AwsRefusal`.
    """
