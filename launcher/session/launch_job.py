"""The way of a launch on AWS: read, plan, judge by the account, submit, follow, and try again.

The command line and the Python interface both go this way; what they show, and whom they ask before money is
spent, is theirs. Each further attempt is a new job from the last checkpoint, linked to the first by tags.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from launcher.account.facts import FileSystem
from launcher.account.questions.ask import BOUND_SECONDS
from launcher.aws.bounded_calls import bounded
from launcher.aws.clients import BRISK, Clients
from launcher.aws.lookups import expected_owners, fetch_manifest
from launcher.backends.interface import Backend, BackendError, JobState, OnProgress
from launcher.backends.sagemaker.upload import read_stored_source
from launcher.cluster.manifest import Cluster, ManifestError, cache_manifest, is_path
from launcher.failure_modes.model import Finding, Refusal, Retry
from launcher.frozen import frozen
from launcher.jobs.job_sections import Checkpoint
from launcher.jobs.load_job import LoadedJob
from launcher.jobs.specification import JobSpec
from launcher.planning.image_choice import job_on_type
from launcher.planning.job_cost import plan_budget, spent_usd
from launcher.planning.next_attempt import (
    FIRST_TAG,
    NUMBER_TAG,
    Attempt,
    GiveUp,
    TryAgain,
    after_failure,
    hold_to_budget,
    managed_bucket,
    usd_left,
)
from launcher.planning.training_plan import TrainingPlan
from launcher.rules.job.subject import SEARCHED_NAMES
from launcher.session.account_checks import check_before_submission
from launcher.session.find_jobs import queue_backend, sagemaker_backend
from launcher.session.managed.hand_over import hand_over, mark_plan
from launcher.session.managed.records import Records
from launcher.session.prepare_plan import code_of, note_on_cluster, prepare, prepare_for
from launcher.session.runs.diagnose_job import Outcome
from launcher.session.submit_job import Begun, Start, Started
from launcher.source.tree import SourceTree


class LiveDisplay(Protocol):
    """Where the look into the account is shown."""

    def progress(self, answered: int, asked: int, waiting_for: str) -> None:
        """AWS has given so many of the answers that were asked for."""
        ...

    def waiting(self, file_system: FileSystem, seconds: float) -> None:
        """The file system is still being created, after a wait of so many seconds."""
        ...


@frozen
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


@frozen
class Launch:
    """One launch of a job that was read, with the clients of its command.

    `ignore` holds codes accepted besides the file's. A `queued` launch goes through the cluster's queue, and
    there under the fair share `share` where the queue has shares. A `managed` one is handed over to the
    cluster's controller. `run_id` is the identity of the run: with
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
    managed: bool = False

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
        return run_attempts(
            self.loaded,
            plan,
            start,
            replan=self._plan,
            follow=follow,
            pause=time.sleep,
            display=display,
        )

    def hand_over(self, plan: TrainingPlan, start: Start) -> Started:
        """Hand the run of a managed plan over to the controller: keep it there, and submit its first attempt.

        Each further instance type is planned now, with the code of the first; one on which the job cannot be
        launched is left out, as such an attempt would be refused. Raises what planning and submitting raise.
        """
        job, source = plan.spec, plan.package.source if plan.package else None
        others = []
        if job is not None and job.resources.instance_choice != "service":
            for instance_type in job.resources.instance_types:
                loaded = replace(self.loaded, spec=job_on_type(job, instance_type))
                others.append(
                    plan_for_submission(
                        loaded,
                        self.clients,
                        session_region=self.session_region,
                        ignore=self.ignore,
                        source=source,
                    )
                )
        s3 = self.clients("s3", plan.region)
        bucket = managed_bucket(plan.request or {})
        with expected_owners(s3, plan.bucket_owners):
            return hand_over(
                plan,
                [each for each in others if not each.refused],
                start,
                lambda first: Records(s3, bucket, first),
            )

    def _plan(self, loaded: LoadedJob, source: SourceTree | None = None) -> TrainingPlan:
        plan = plan_for_submission(
            loaded, self.clients, session_region=self.session_region, ignore=self.ignore, source=source
        )
        if self.managed:
            plan = mark_plan(plan)
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


def _refuse_on_slurm(loaded: LoadedJob) -> None:
    """Raise Refusal for a job that is to run on Slurm, where only SageMaker is meant."""
    if loaded.spec is not None and loaded.spec.backend == "slurm":
        raise Refusal(
            f"{loaded.file} is for Slurm (`backend: slurm`), and this goes to SageMaker.",
            "Use `launch JOB.yaml`, or change its place with --set backend=sagemaker.",
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

    The manifest is kept on this machine, for planning offline; where it cannot be, a finding says so. Raises
    Refusal for a job that is for Slurm.
    """
    _refuse_on_slurm(loaded)
    job, source = loaded.spec, source or code_of(loaded)
    if job is not None and source is not None and source.is_unread:
        s3 = clients("s3", job.region or session_region)
        read = read_stored_source(s3, source.place, source.entry_point, SEARCHED_NAMES)
        source = read.with_requirements(job.code.requirements_file)
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


class AttemptsDisplay(Protocol):
    """What shows the user which attempts there are, and why."""

    def started(self, job: Started) -> None:
        """An attempt was submitted, or goes on that an earlier launch had submitted."""
        ...

    def decided(self, outcome: Outcome, decision: TryAgain | GiveUp) -> None:
        """An attempt failed: whether there is another, and why."""
        ...


def run_attempts(
    loaded: LoadedJob,
    plan: TrainingPlan,
    start: Start,
    *,
    replan: Callable[[LoadedJob, SourceTree | None], TrainingPlan],
    follow: Callable[[str], Outcome | None],
    pause: Callable[[float], None],
    display: AttemptsDisplay,
) -> Outcome | None:
    """Submit the plan and have it followed; after a failure try again as its cause allows.

    Every attempt has a name and a checkpoint prefix of its own, so none can write where another does; it
    starts from the newest checkpoint of the one before, or from nothing where there is none yet.

    Args:
        loaded: the job as it was read.
        plan: the first attempt's plan.
        start: starts each attempt, once. A backend that tries again by itself gets a single submission.
        replan: makes the judged plan of another attempt, given the code of the first.
        follow: follows a job by its name to its end; None where nobody stayed.
        pause: waits for so many seconds.
        display: shows what becomes of the attempts.

    Returns:
        The last outcome; None where nobody followed to the end, and then there are no other attempts.

    Raises what submitting and following raise.
    """
    # As planned: with the version of the framework that was chosen, which another day might be a newer one.
    job = plan.spec or loaded.spec
    if job is None:
        raise ValueError("a job file that could not be read has no plan to submit")
    source = plan.package.source if plan.package else None
    attempts: list[Attempt] = []
    while True:
        started = start.once(plan)
        display.started(started)
        outcome = follow(started.name)
        if outcome is None or outcome.status.state is not JobState.FAILED:
            return outcome
        attempts.append(_attempt(started.name, plan, outcome))
        decision = _decide_next(job, plan, attempts, start.backend)
        display.decided(outcome, decision)
        if isinstance(decision, GiveUp):
            return outcome
        if attempts[-1].retry is Retry.OTHER_HOSTS and _keeps_hosts(plan):
            # The pool would give the next attempt the very hosts that it must not get.
            start.backend.release_hosts(started.name)
        pause(decision.wait_seconds)
        resumes = start.backend.has_checkpoint(started.name)
        job = _without_failed_nodes(job, attempts[-1], outcome, start.backend)
        spec = next_job(job, attempts, decision, resumes=resumes)
        another = replan(replace(loaded, spec=spec), source)
        if another.refused:
            display.decided(outcome, GiveUp(_refusals(another)))
            return outcome
        plan = another


def next_job(
    job: JobSpec, attempts: Sequence[Attempt], decision: TryAgain, *, resumes: bool = True
) -> JobSpec:
    """The job of the next attempt: the decided instance type, the last attempt's checkpoints, the tags, and
    what is left of the budget.

    Where it was decided, AWS tests the hosts first.
    """
    if decision.instance_type != job.resources.instance_type:
        job = job_on_type(job, decision.instance_type)
    if decision.infra_check:
        job = job.model_copy(update={"resources": job.resources.with_infra_check()})
    tags = {FIRST_TAG: attempts[0].name, NUMBER_TAG: str(len(attempts) + 1)}
    if job.limits.max_usd is not None:
        left = usd_left(job.limits.max_usd, attempts)
        job = job.model_copy(update={"limits": job.limits.model_copy(update={"max_usd": left})})
    checkpoint = job.checkpoint
    if resumes:
        checkpoint = (checkpoint or Checkpoint()).model_copy(update={"resume_from": attempts[-1].name})
    return job.model_copy(update={"checkpoint": checkpoint, "tags": {**job.tags, **tags}})


def _without_failed_nodes(job: JobSpec, last: Attempt, outcome: Outcome, backend: Backend) -> JobSpec:
    """The job kept off the node that an attempt failed of, where its place lets one say so."""
    cause = outcome.diagnosis.root_cause if outcome.diagnosis else None
    if job.slurm is None or not last.blames_hosts or cause is None:
        return job
    excluded = dict.fromkeys([*job.slurm.exclude, *backend.failed_nodes(last.name, cause.host)])
    return job.model_copy(update={"slurm": job.slurm.model_copy(update={"exclude": list(excluded)})})


def _decide_next(
    job: JobSpec, plan: TrainingPlan, attempts: Sequence[Attempt], backend: Backend
) -> TryAgain | GiveUp:
    resources = job.resources
    decision = after_failure(
        attempts,
        max_retries=_max_retries(job, plan, backend),
        instance_types=[resources.instance_type, *resources.instance_types],
        service_chooses=resources.instance_choice == "service",
        may_check_hosts=plan.slurm is None and resources.with_infra_check().infra_check,
    )
    if isinstance(decision, GiveUp) or job.limits.max_usd is None:
        return decision
    following = next_job(job, attempts, decision)
    budget = plan_budget(following, plan.region)
    paid = None if budget is None else budget.seconds(following.resources.instance_count)
    return hold_to_budget(decision, attempts, paid)


def _max_retries(job: JobSpec, plan: TrainingPlan, backend: Backend) -> int:
    """How many other attempts there may be; a tuning job goes on by itself when one of its jobs fails."""
    if plan.operation != "CreateTrainingJob" or backend.retries_itself:
        return 0
    return job.limits.max_retries


def _keeps_hosts(plan: TrainingPlan) -> bool:
    return plan.view is not None and plan.view.keep_alive_seconds > 0


def _attempt(name: str, plan: TrainingPlan, outcome: Outcome) -> Attempt:
    instance_type = plan.view.instance_type if plan.view else None
    retry = outcome.diagnosis.retry if outcome.diagnosis else Retry.NEVER
    cause = outcome.cause.code if outcome.cause else None
    billed = outcome.status.billable_seconds
    usd = spent_usd(plan.view, plan.region, billed) if plan.view and billed is not None else None
    return Attempt(name, str(instance_type), retry, outcome.step, cause, usd)


def _refusals(plan: TrainingPlan) -> str:
    reasons = "; ".join(f"{finding.code} {finding.message}" for finding in plan.findings if finding.blocks)
    return f"the next attempt cannot be launched: {reasons}"
