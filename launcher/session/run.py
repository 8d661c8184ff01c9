"""Run a plan: submit it once, follow it, and say how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from launcher.aws.clients import aws_client
from launcher.aws.cluster_manifest import fetch_manifest
from launcher.backends.interface import Backend, JobStatus
from launcher.backends.local.backend import LocalBackend
from launcher.cluster.manifest_store import cache_manifest, is_path
from launcher.jobs.load import LoadedJob
from launcher.planning.training_plan import TrainingPlan
from launcher.session.following.follow import Follower, Pace
from launcher.session.following.log_filter import LogFilter
from launcher.session.following.monitor import Monitor, Screen
from launcher.session.jobs import LOCAL_HOME
from launcher.session.outcome import Outcome, outcome_of
from launcher.session.preparation import prepare, source_of
from launcher.source.tree import SourceTree

LOCAL_POLL_SECONDS = 0.2
AWS_POLL_SECONDS = 5.0
AWS_POLL_SECONDS_PER_HOST = 0.2
"""Five calls for logs a second: half of what the smallest quota allows to an account and region."""

AWS_END_READS = 2
"""CloudWatch Logs delivers a little late: after the end, this many reads in a row must bring nothing."""


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
        monitor = Monitor(screen)
        follower = Follower(backend, name, monitor, _local_pace())
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
        return outcome_of(backend, status, monitor.furthest_step)


def follow(
    backend: Backend, name: str, screen: Screen, log_filter: LogFilter | None = None, pace: Pace | None = None
) -> Outcome:
    """Follow a job that runs without this terminal. Raises Interrupted on Ctrl-C, which leaves it running."""
    monitor = Monitor(screen, log_filter)
    follower = Follower(backend, name, monitor, pace or _pace_of(backend))
    try:
        return outcome_of(backend, follower.until_end(), monitor.furthest_step)
    except KeyboardInterrupt:
        raise Interrupted(name, follower.seen, f"Come back with: launch logs {name} --follow") from None


def show_logs(backend: Backend, name: str, screen: Screen, log_filter: LogFilter | None = None) -> JobStatus:
    """Show what a job has printed so far; return its status."""
    display = Monitor(screen, log_filter)
    return Follower(backend, name, display, _pace_of(backend)).what_is_there()


def plan_for_submission(
    loaded: LoadedJob,
    *,
    session_region: str | None,
    ignore: Sequence[str] = (),
    source: SourceTree | None = None,
) -> TrainingPlan:
    """The plan of a job with its cluster's manifest fresh from AWS.

    The job is judged offline first: what is wrong with the file needs no call. A manifest that was
    read is cached for planning offline. With `source` the job runs what was read then, whatever the folder
    holds now. Raises Refusal for an unknown cluster, AwsRefusal where AWS refuses.
    """
    job = loaded.spec
    if job is not None and source is None:
        # Once for both plans: it reads every file that would be packed.
        source = source_of(job, loaded.file.parent)
    draft = prepare(loaded, session_region=session_region, ignore=ignore, source=source)
    if draft.refused or job is None or job.cluster is None or is_path(job.cluster):
        return draft
    cluster = fetch_manifest(aws_client("ssm", job.region or session_region), job.cluster)
    cache_manifest(cluster)
    return prepare(loaded, session_region=session_region, ignore=ignore, cluster=cluster, source=source)


def _pace_of(backend: Backend) -> Pace:
    if isinstance(backend, LocalBackend):
        return _local_pace()
    return Pace(poll=AWS_POLL_SECONDS, poll_per_host=AWS_POLL_SECONDS_PER_HOST, end_reads=AWS_END_READS)


def _local_pace() -> Pace:
    return Pace(poll=LOCAL_POLL_SECONDS, poll_per_host=0, end_reads=1)
