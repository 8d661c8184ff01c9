"""Run a plan: submit it once, follow it, and say how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from launcher.account.aws import aws_client, caller_account
from launcher.account.cluster_manifest import fetch_manifest
from launcher.backends.interface import Backend, JobState, JobStatus, OnProgress
from launcher.backends.local.backend import LocalBackend
from launcher.cluster.manifest_store import cache_manifest, is_path
from launcher.diagnosis.failure_reason import finding_of
from launcher.failure_modes.model import Finding
from launcher.jobs.load import LoadedJob
from launcher.planning.training_plan import TrainingPlan
from launcher.session.follow import Follower, Pace
from launcher.session.jobs import LOCAL_HOME, sagemaker_backend
from launcher.session.log_filter import LogFilter
from launcher.session.monitor import Monitor, Screen
from launcher.session.preparation import prepare

LOCAL_POLL_SECONDS = 0.2
AWS_POLL_SECONDS = 5.0
AWS_POLL_SECONDS_PER_HOST = 0.2
"""Five calls for logs a second: half of what the smallest quota allows to an account and region."""

AWS_END_READS = 2
"""CloudWatch Logs delivers a little late: after the end, this many reads in a row must bring nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a followed job ended; `failure` is what its container found, where it found something."""

    status: JobStatus
    failure: Finding | None

    @property
    def succeeded(self) -> bool:
        """Whether the job completed."""
        return self.status.state is JobState.COMPLETED


class Interrupted(Exception):
    """The user pressed Ctrl-C; `status` is the job as it was last seen, `remedy` how to go on."""

    def __init__(self, name: str, status: JobStatus | None, remedy: str) -> None:
        super().__init__(remedy)
        self.name = name
        self.status = status
        self.remedy = remedy


def run_here(
    plan: TrainingPlan, inputs: Mapping[str, Path], screen: Screen, home: Path = LOCAL_HOME
) -> Outcome:
    """Run the plan on this machine; `inputs` gives a folder per channel.

    Raises Interrupted on Ctrl-C, after the job was stopped, had time to save a checkpoint, and left
    no process behind.
    """
    with closing(LocalBackend(home=home, inputs=inputs)) as backend:
        name = backend.submit(plan)
        follower = Follower(backend, name, Monitor(screen), _local_pace())
        try:
            status = follower.until_end()
        except KeyboardInterrupt:
            backend.stop(name)
            status = follower.until_end()
            raise Interrupted(
                name,
                status,
                f"Resume it with: launch resume {name}, or from its checkpoints with "
                f"--set checkpoint.resume_from={name}",
            ) from None
        return outcome_of(backend, status)


def follow(
    backend: Backend, name: str, screen: Screen, log_filter: LogFilter | None = None, pace: Pace | None = None
) -> Outcome:
    """Follow a job that runs without this terminal. Raises Interrupted on Ctrl-C, which leaves it running."""
    follower = Follower(backend, name, Monitor(screen, log_filter), pace or _pace_of(backend))
    try:
        return outcome_of(backend, follower.until_end())
    except KeyboardInterrupt:
        raise Interrupted(name, follower.seen, f"Come back with: launch logs {name} --follow") from None


def show_logs(backend: Backend, name: str, screen: Screen, log_filter: LogFilter | None = None) -> JobStatus:
    """Show what a job has printed so far; return its status."""
    display = Monitor(screen, log_filter)
    return Follower(backend, name, display, _pace_of(backend)).what_is_there()


def outcome_of(backend: Backend, status: JobStatus) -> Outcome:
    """How a job ended, and why: the place where every command learns the cause of a failure."""
    return Outcome(status, finding_of(status.failure_reason))


@dataclass(frozen=True, slots=True)
class SageMakerSession:
    """A plan's way to SageMaker: the account that it goes to, and the backend."""

    account: str
    region: str | None
    backend: Backend

    @classmethod
    def of(cls, region: str | None) -> SageMakerSession:
        """Open the session of a region; raises AwsRefusal without credentials."""
        return cls(
            account=caller_account(aws_client("sts", region)),
            region=region,
            backend=sagemaker_backend(region),
        )

    def submit(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> str:
        """Submit the plan once; return the job's name."""
        return self.backend.submit(plan, on_progress)

    def follow(self, name: str, screen: Screen) -> Outcome:
        """Follow a submitted job. Raises Interrupted on Ctrl-C, which leaves the job running."""
        return follow(self.backend, name, screen)


def plan_for_submission(
    loaded: LoadedJob, *, session_region: str | None, ignore: Sequence[str] = ()
) -> TrainingPlan:
    """The plan of a job with its cluster's manifest fresh from AWS.

    The job is judged offline first: what is wrong with the file needs no call. A manifest that was
    read is cached for planning offline. Raises Refusal for an unknown cluster, AwsRefusal where AWS
    refuses.
    """
    draft = prepare(loaded, session_region=session_region, ignore=ignore)
    job = loaded.spec
    if draft.refused or job is None or job.cluster is None or is_path(job.cluster):
        return draft
    cluster = fetch_manifest(aws_client("ssm", job.region or session_region), job.cluster)
    cache_manifest(cluster)
    return prepare(loaded, session_region=session_region, ignore=ignore, cluster=cluster)


def _pace_of(backend: Backend) -> Pace:
    if isinstance(backend, LocalBackend):
        return _local_pace()
    return Pace(poll=AWS_POLL_SECONDS, poll_per_host=AWS_POLL_SECONDS_PER_HOST, end_reads=AWS_END_READS)


def _local_pace() -> Pace:
    return Pace(poll=LOCAL_POLL_SECONDS, poll_per_host=0, end_reads=1)
