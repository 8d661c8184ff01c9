"""The way of a launch on AWS: read, plan, judge by the account, submit, follow, and try again.

The command line and the Python interface both go this way; what they show, and whom they ask before money is
spent, is theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from launcher.account.file_system import FileSystem
from launcher.account.questions.asking import BOUND_SECONDS
from launcher.aws.bounded import bounded
from launcher.aws.clients import BRISK, Clients
from launcher.aws.cluster_manifest import fetch_manifest
from launcher.backends.interface import Backend, BackendError, OnProgress
from launcher.backends.sagemaker.stored_source import read_stored_source
from launcher.cluster.manifest import Cluster
from launcher.cluster.manifest_store import ManifestError, cache_manifest, is_path
from launcher.failure_modes.model import Finding
from launcher.jobs.load import LoadedJob
from launcher.planning.training_plan import TrainingPlan
from launcher.rules.job.subject import TELLING_NAMES
from launcher.session.attempts import AttemptsDisplay, run_attempts
from launcher.session.jobs import queue_backend, sagemaker_backend
from launcher.session.live import check_before_submission
from launcher.session.outcome import Outcome
from launcher.session.preparation import code_of, note_on_cluster, prepare, prepare_for
from launcher.session.submission import Begun, Start
from launcher.source.tree import SourceTree


class LiveDisplay(Protocol):
    """Where the look into the account is shown."""

    def progress(self, answered: int, asked: int, waiting_for: str) -> None:
        """AWS has given so many of the answers that were asked for."""
        ...

    def waiting(self, file_system: FileSystem, seconds: float) -> None:
        """The file system is still being created, after a wait of so many seconds."""
        ...


@dataclass(frozen=True, slots=True)
class Submission:
    """How a plan is submitted: the account that pays, and what starts the job there, once.

    `begun` is the job where an earlier launch of the same plan has started it.
    """

    account: str
    start: Start
    begun: Begun | None = None

    @property
    def backend(self) -> Backend:
        """The backend that takes the plan."""
        return self.start.backend


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a job that was read, with the clients of its command.

    `ignore` holds codes accepted besides the file's. A `queued` launch goes through the cluster's queue, and
    there under the fair share `share` where the queue has shares. `run_id` is the identity of the run: with
    the same one the same plan is the same job. `display` opens what shows the look into the account; without
    it nothing is shown. `on_progress` is told how far a submission is. `source` is the job's code where it
    was read already.
    """

    loaded: LoadedJob
    clients: Clients
    session_region: str | None
    ignore: Sequence[str] = ()
    queued: bool = False
    share: str | None = None
    run_id: str | None = None
    display: Callable[[], AbstractContextManager[LiveDisplay]] | None = None
    on_progress: OnProgress | None = None
    source: SourceTree | None = None

    def plan(self) -> TrainingPlan:
        """The plan of the job, judged by its file and by the account.

        Waits for a file system that is being created. A plan that is refused already, or holds
        placeholders, is not held against the account, nor is one whose job an earlier launch has started:
        nothing is created for it. Raises Refusal for an unknown cluster, AwsRefusal without usable
        credentials or where AWS refuses.
        """
        return self._plan(self.loaded, self.source)

    def submission(self, plan: TrainingPlan) -> Submission:
        """Open the way of a plan, straight to SageMaker or through the queue. Sends nothing.

        Raises AwsRefusal without credentials, BackendError where the plan's cluster has no queue.
        """
        account = self.clients.caller(plan.region).account
        start = Start(self._backend(plan), self.run_id, on_progress=self.on_progress)
        return Submission(account, start, start.begun(plan))

    def _backend(self, plan: TrainingPlan) -> Backend:
        if not self.queued:
            return sagemaker_backend(self.clients, plan.region)
        if plan.queue_arn is None:
            cluster = plan.job.get("cluster")
            raise BackendError(
                f"the cluster {cluster} has no queue." if cluster else "the job names no cluster.",
                "Leave out --queue, or add `queue: {}` to the cluster file and deploy it again.",
            )
        return queue_backend(self.clients, plan.queue_arn, plan.region, self.share)

    def run(
        self,
        plan: TrainingPlan,
        start: Start,
        *,
        follow: Callable[[str], Outcome | None],
        display: AttemptsDisplay,
    ) -> Outcome | None:
        """Submit the plan and have each attempt followed; the last outcome, None where nobody stayed.

        Other attempts run the code of the first, whatever the source holds by then. Raises what submitting
        and following raise.
        """
        first = plan.package.source if plan.package else None
        return run_attempts(
            self.loaded,
            plan,
            start,
            replan=lambda loaded: self._plan(loaded, first),
            follow=follow,
            pause=time.sleep,
            display=display,
        )

    def _plan(self, loaded: LoadedJob, source: SourceTree | None = None) -> TrainingPlan:
        plan = plan_for_submission(
            loaded, self.clients, session_region=self.session_region, ignore=self.ignore, source=source
        )
        if plan.refused or plan.placeholders:
            return plan
        submission = self.submission(plan)
        plan = submission.start.named(plan)
        if submission.begun is not None:
            return plan
        if self.display is None:
            return check_before_submission(plan, loaded, self.clients, ignore=self.ignore)
        with self.display() as display:
            return check_before_submission(
                plan,
                loaded,
                self.clients,
                ignore=self.ignore,
                on_answer=display.progress,
                on_wait=display.waiting,
            )


def plan_for_submission(
    loaded: LoadedJob,
    clients: Clients,
    *,
    session_region: str | None,
    ignore: Sequence[str] = (),
    source: SourceTree | None = None,
) -> TrainingPlan:
    """The plan of a job with its cluster's manifest fresh from AWS.

    The job is judged without its cluster first: what is wrong with the file needs no call. What this
    machine kept of the cluster is not asked, as it may have been deployed again since. With `source` the job
    runs what was read then, whatever the folder holds now. Raises Refusal for an unknown cluster, AwsRefusal
    where AWS refuses.
    """
    job = loaded.spec
    # Once for both plans: it reads every file that would be packed.
    source = source or code_of(loaded)
    if job is not None and source is not None and (_is_named(job.cluster) or source.is_unread):
        note = note_on_cluster(
            f"the cluster {job.cluster} was not read from AWS, as the job file has errors without it; the "
            "plan shows placeholders",
            "Correct the errors; the next launch reads the cluster.",
        )
        notes = [note] if _is_named(job.cluster) else []
        draft = prepare_for(
            loaded, None, session_region=session_region, ignore=ignore, source=source, notes=notes
        )
        if draft.refused:
            return draft
    return plan_with_cluster(loaded, clients, session_region=session_region, ignore=ignore, source=source)


def plan_with_cluster(
    loaded: LoadedJob,
    clients: Clients,
    *,
    session_region: str | None,
    ignore: Sequence[str] = (),
    source: SourceTree | None = None,
) -> TrainingPlan:
    """`plan_for_submission` that reads the cluster also where the file has errors that need no cluster.

    Reads the code, too, where that lies on S3.

    The manifest is kept on this machine, for planning offline; where it cannot be, a finding says so.
    """
    job, source = loaded.spec, source or code_of(loaded)
    if job is not None and source is not None and source.is_unread:
        s3 = clients("s3", job.region or session_region)
        read = read_stored_source(s3, source.place, source.entry_point, TELLING_NAMES)
        source = read.requiring(job.code.requirements_file)
    if job is None or job.cluster is None or not _is_named(job.cluster):
        return prepare(loaded, session_region=session_region, ignore=ignore, source=source)
    name, ssm = job.cluster, clients("ssm", job.region or session_region, BRISK)
    cluster = bounded(
        BOUND_SECONDS, f"read the manifest of the cluster {name}", lambda: fetch_manifest(ssm, name)
    )
    return prepare_for(
        loaded,
        cluster,
        session_region=session_region,
        ignore=ignore,
        source=source,
        notes=_keep(cluster),
    )


def _is_named(cluster: str | None) -> bool:
    """Whether AWS knows what the job calls its cluster; a path leads to a file."""
    return cluster is not None and not is_path(cluster)


def _keep(cluster: Cluster) -> list[Finding]:
    """Keep the manifest on this machine, and say where that is not possible."""
    try:
        cache_manifest(cluster)
    except ManifestError as error:
        note = note_on_cluster(
            f"what was read of the cluster {cluster.name} cannot be kept on this machine: {error}",
            "The launch does not need it. Without it offline plans show placeholders and the cluster's queue "
            "is not known by name: set XDG_CACHE_HOME to a folder that can be written.",
        )
        return [note]
    return []
