"""The one interface of the places where a plan can run.

A backend submits a plan once, and from then on answers three questions about the job by its name:
how is it, what has it printed since, stop it. Where places differ (how often to look, whether a job can be
resumed, who tries again), the backend says so; nobody asks which backend it is. Following, retrying and
rendering are the session's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from launcher.diagnosis.model import Stop
from launcher.failure_modes.model import AwsRefusal, Refusal
from launcher.frozen import frozen

if TYPE_CHECKING:
    # Looking at a job needs nothing of what plans one.
    from launcher.planning.request_view import Request, RequestView
    from launcher.planning.training_plan import Operation, TrainingPlan


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


@frozen
class Transition:
    """A phase that a job was in; the times are seconds since the epoch, `ended` None while it lasts."""

    phase: str
    started: float
    ended: float | None = None


@frozen
class JobStatus:
    """A job at one moment.

    `phase` is the secondary status (Starting, Downloading, Training ...); `failure_reason` is in the
    service's form, `AlgorithmError: <content of /opt/ml/output/failure>, exit code: N`; the three
    paths are URIs on AWS and local paths otherwise; `seconds` is the time since the start, billable
    or not, `billable_seconds` what each host is billed for, None where nothing is. `explanation` is what
    the service says about the phase, `transitions` the phases so far. `hosts` and `processes_per_host` are
    None where the backend does not know them. `metrics` are the job's own metric definitions: name to
    regular expression, whose first group is the value. Of a run on this machine `instance_type` is what its
    hosts stand for and `gpus` whether they see any; None elsewhere. `request` is what it was started from,
    None where the place does not tell. `stop` is what ended the job from outside, or is about to, where the
    place tells. `shell` are the commands that lead to a shell in the first of its containers, in turn; none
    where there is no way in.
    """

    name: str
    state: JobState
    phase: str
    failure_reason: str | None = None
    checkpoints: str | None = None
    output: str | None = None
    seconds: float | None = None
    billable_seconds: float | None = None
    explanation: str | None = None
    transitions: tuple[Transition, ...] = ()
    hosts: int | None = None
    processes_per_host: int | None = None
    metrics: Mapping[str, str] = field(default_factory=dict)
    instance_type: str | None = None
    gpus: bool | None = None
    request: RequestView | None = field(default=None, repr=False, compare=False)
    stop: Stop | None = None
    shell: tuple[str, ...] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)


class LogLine(NamedTuple):
    """One line that a host printed: `time` is seconds since the epoch, `host` as in `algo-2`.

    A tuple, as jobs print millions of them.
    """

    time: float
    host: str
    text: str

    @property
    def stream(self) -> str:
        """A host has one stream."""
        return self.host


Cursor = Mapping[str, str]
"""Where reading stopped, per log stream; opaque to everybody but the backend that made it."""


@frozen
class LogBatch:
    """The lines since a cursor, in the order of their times, and the cursor to go on from.

    `more` where other lines wait already, so that reading on at once is worth it.
    """

    lines: Sequence[LogLine]
    cursor: Cursor
    more: bool = False


@frozen
class JobQuery:
    """Which jobs to list: all conditions hold together, None sets no condition.

    `name` is a part of the job's name; `since` asks for jobs created after it, by the clock of the
    backend; `limit` is the highest number of jobs.
    """

    name: str | None = None
    state: JobState | None = None
    since: datetime | None = None
    limit: int | None = None

    def select(self, jobs: Iterable[JobSummary]) -> list[JobSummary]:
        """Those of the jobs that are asked for, newest first."""
        chosen = [
            job
            for job in jobs
            if (self.name is None or self.name in job.name)
            and self.state in (None, job.state)
            and (self.since is None or job.created > self.since)
        ]
        return sorted(chosen, key=lambda job: job.created, reverse=True)[: self.limit]


@frozen
class JobSummary:
    """A job in a list; the times carry their zone."""

    name: str
    state: JobState
    phase: str
    created: datetime
    ended: datetime | None = None


@frozen
class Progress:
    """How far a submission is: what it does, and how many bytes of how many are done.

    With a `total` of 0 it is news that has no measure, such as code that was uploaded before.
    """

    step: str
    done: int = 0
    total: int = 0


OnProgress = Callable[[Progress], None]
"""Called with a submission's progress, from several threads, one call at a time."""


@frozen
class Polling:
    """How often a place may be asked about a job; the times are seconds.

    `seconds` pass between two looks, and at least `seconds_per_host` for each host. After a final state, logs
    are read until `end_reads` reads in a row bring nothing. The defaults are for AWS: five calls for logs a
    second are half of what the smallest quota allows to an account and region, and CloudWatch Logs delivers
    a little late.
    """

    seconds: float = 5.0
    seconds_per_host: float = 0.2
    end_reads: int = 2


class Backend(ABC):
    """A place where plans run. All methods raise `Refusal` for what the user can act on.

    Those that are given the name of a job raise UnknownJob where there is none of that name. What not every
    place can do has a default here: a backend says only where it differs.
    """

    name: ClassVar[str]
    """What people call the place."""

    polling: ClassVar[Polling] = Polling()
    """How often it may be asked about a job."""

    runs_here: ClassVar[bool] = False
    """Whether its jobs run on this machine, cost nothing, and end with the launcher that started them."""

    bills: ClassVar[bool] = True
    """Whether the time of its jobs is paid for at a price that is known here."""

    retries_itself: ClassVar[bool] = False
    """Whether the place itself starts a failed job again; the session then makes no other attempts."""

    @abstractmethod
    def submit(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> str:
        """Start the plan's request, once under its name, and return that name.

        Submitting the same plan again finds its job and starts no second one. `on_progress` is told of
        uploads and copies as they go. A refused plan raises BackendError, and nothing is created;
        UncertainError where it cannot be seen what became of the call.
        """

    @abstractmethod
    def describe(self, job_name: str) -> JobStatus:
        """How the job is now."""

    @abstractmethod
    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        """What all hosts printed since the cursor (an empty mapping: since the start).

        Nothing is lost and nothing comes twice as long as each batch's cursor is passed on. A batch
        may be empty while the job still runs; after a final state, an empty batch means the end.
        """

    @abstractmethod
    def stop(self, job_name: str, who: str | None = None) -> None:
        """Ask the job to stop; returns before it has. Nothing happens to one that has ended.

        `who` says in words who asks, such as `launch stop (process 4711)`: places that can, keep it.
        """

    @abstractmethod
    def jobs(self, query: JobQuery) -> list[JobSummary]:
        """The jobs that the query asks for, newest first."""

    @property
    def queue_arn(self) -> str:
        """The queue through which its jobs go; empty where they go straight."""
        return ""

    def state_of(self, job_name: str, operation: Operation) -> JobState | None:
        """How a job that came of an `operation` is; None where there is none of that name."""
        try:
            return self.describe(job_name).state
        except UnknownJob:
            return None

    def request_of(self, job_name: str) -> Request:
        """The CreateTrainingJob request that a job was started from, for another job that goes on from it.

        Raises BackendError where the place cannot resume the job: the default.
        """
        raise self._unable_to_resume(job_name)

    def resume(self, earlier: str, request: Request, on_progress: OnProgress | None = None) -> str:
        """Start a request that was made from the earlier job's, from that job's newest checkpoint.

        Returns the new job's name; as `submit`, it starts one job under it. Raises BackendError where the
        place cannot resume the job, the default, or the earlier job left no checkpoint or code.
        """
        raise self._unable_to_resume(earlier)

    def has_checkpoint(self, job_name: str) -> bool:
        """Whether a job that has ended left a complete checkpoint for another attempt.

        No by default: of places that resume by themselves, or where no other attempts are made.
        """
        return False

    def release_hosts(self, job_name: str) -> None:  # noqa: B027
        """End the warm pool that a job left, so that no other job gets its hosts; nothing without one."""

    def failed_nodes(self, job_name: str, host: str | None) -> tuple[str, ...]:
        """By which names another attempt is kept off the host of a job that failed; `host` is its name in
        the job, such as algo-2.

        None by default: of places that hand out hosts as they like.
        """
        return ()

    def renew(self) -> None:  # noqa: B027
        """Look for credentials again: those in use may have expired. Nothing where none are needed."""

    def close(self) -> None:  # noqa: B027
        """End what ends with this process; nothing for jobs that run elsewhere."""

    def _unable_to_resume(self, job_name: str) -> BackendError:
        return BackendError(
            f"{job_name} went through {self.name}, which cannot resume a job.",
            f"Launch its job file again, with --set checkpoint.resume_from={job_name}",
        )


@frozen
class FoundJob:
    """A job, the backend that has it, and how it was when it was found; `news` says where it is another one
    than the name that was asked for."""

    backend: Backend
    status: JobStatus
    news: str = ""

    @property
    def name(self) -> str:
        """The job's name."""
        return self.status.name


class BackendError(Refusal):
    """The place where the job should run cannot take it as it is; exit code 2.

    What AWS itself refuses is an `AwsRefusal`.
    """


class UnusablePlan(BackendError):
    """The plan has errors; no backend runs it."""

    def __init__(self) -> None:
        super().__init__("the plan has errors and cannot be run.", "Fix what `launch check` finds first.")


class UnknownJob(BackendError):
    """The backend has no job of that name."""


class UncertainError(AwsRefusal):
    """A call failed, and whether it created the job cannot be seen for sure."""


class NameTakenError(BackendError):
    """There is a job of that name, and it is not the one that was sent."""
