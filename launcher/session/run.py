"""Run a plan: submit it once, follow it, and say how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from launcher.account.aws import aws_client, caller_account
from launcher.account.cluster_manifest import fetch_manifest
from launcher.backends.interface import Backend, JobState, JobStatus
from launcher.backends.local.backend import LocalBackend
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.manifest_store import cache_manifest, is_path
from launcher.diagnosis.failure_reason import finding_of
from launcher.failure_modes.model import Finding
from launcher.jobs.load import LoadedJob
from launcher.planning.training_plan import TrainingPlan
from launcher.session.follow import Display, Follower
from launcher.session.preparation import prepare

LOCAL_HOME = Path(".slipway") / "local"
"""Where local runs are kept, below the current directory."""

LOCAL_POLL_SECONDS = 0.2
AWS_POLL_SECONDS = 5.0

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
    """The user pressed Ctrl-C; `status` is the job as it was left, `remedy` how to go on."""

    def __init__(self, status: JobStatus, remedy: str) -> None:
        super().__init__(remedy)
        self.status = status
        self.remedy = remedy


def run_here(
    plan: TrainingPlan, inputs: Mapping[str, Path], display: Display, home: Path = LOCAL_HOME
) -> Outcome:
    """Run the plan on this machine; `inputs` gives a folder per channel.

    Raises Interrupted on Ctrl-C, after the job was stopped, had time to save a checkpoint, and left
    no process behind.
    """
    with closing(LocalBackend(home=home, inputs=inputs)) as backend:
        name = backend.submit(plan)
        follower = Follower(backend, name, display)
        try:
            status = follower.until_end(_pause(LOCAL_POLL_SECONDS))
        except KeyboardInterrupt:
            backend.stop(name)
            status = follower.until_end(_pause(LOCAL_POLL_SECONDS))
            raise Interrupted(
                status, f"Resume it from its checkpoints with --set checkpoint.resume_from={name}"
            ) from None
        return _outcome(status)


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
            backend=SageMakerBackend(
                sagemaker=aws_client("sagemaker", region),
                logs=aws_client("logs", region),
                s3=aws_client("s3", region),
            ),
        )

    def submit(self, plan: TrainingPlan) -> str:
        """Submit the plan once; return the job's name."""
        return self.backend.submit(plan)

    def follow(self, name: str, display: Display) -> Outcome:
        """Follow a submitted job. Raises Interrupted on Ctrl-C, which leaves the job running."""
        try:
            follower = Follower(self.backend, name, display)
            return _outcome(follower.until_end(_pause(AWS_POLL_SECONDS), AWS_END_READS))
        except KeyboardInterrupt:
            raise Interrupted(
                self.backend.describe(name),
                "It goes on without this terminal; see it with: aws sagemaker describe-training-job "
                f"--region {self.region} --training-job-name {name}",
            ) from None


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


def _outcome(status: JobStatus) -> Outcome:
    return Outcome(status, finding_of(status.failure_reason))


def _pause(seconds: float) -> Callable[[], None]:
    return lambda: time.sleep(seconds)
