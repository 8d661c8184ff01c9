"""A job and its further attempts: each a new job from the last checkpoint, linked to the first by tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from launcher.backends.interface import JobState, OnProgress
from launcher.failure_modes.model import Retry
from launcher.jobs.checkpoint import Checkpoint
from launcher.jobs.load import LoadedJob
from launcher.jobs.specification import JobSpec
from launcher.planning.alternatives import job_on
from launcher.planning.training_plan import TrainingPlan
from launcher.session.outcome import Outcome
from launcher.session.retry import Attempt, GiveUp, TryAgain, after_failure

FIRST_TAG = "slipway:first-attempt"
NUMBER_TAG = "slipway:attempt"


@dataclass(frozen=True, slots=True)
class Place:
    """Where attempts run: how one is planned, submitted and followed.

    `plan` makes the judged plan of a job with the code of the first attempt, `has_checkpoint` says whether a
    job that has ended left a complete one, `release_hosts` ends its warm pool, `pause` waits for seconds.
    `retries` bounds them in the place of
    the job's own limit, where the place itself tries again.
    """

    plan: Callable[[LoadedJob], TrainingPlan]
    submit: Callable[[TrainingPlan, OnProgress | None], str]
    follow: Callable[[str], Outcome | None]
    has_checkpoint: Callable[[str], bool]
    release_hosts: Callable[[str], None]
    pause: Callable[[float], None]
    retries: int | None = None


class Told(Protocol):
    """Who hears what becomes of a job."""

    def submitted(self, name: str) -> None:
        """An attempt was submitted under this name."""
        ...

    def decided(self, outcome: Outcome, decision: TryAgain | GiveUp) -> None:
        """An attempt failed: whether there is another, and why."""
        ...


def run_attempts(
    loaded: LoadedJob, plan: TrainingPlan, place: Place, told: Told, on_progress: OnProgress | None = None
) -> Outcome | None:
    """Submit the plan and follow it; after a failure try again as its cause allows. Returns the last outcome,
    or None where nobody followed to the end: then there are no further attempts either.

    Every attempt has a name and a checkpoint prefix of its own, so none can write where another does; it
    starts from the newest checkpoint of the one before, and anew where there is none yet. Raises what
    submitting and following raise.
    """
    job = loaded.spec
    if job is None:
        raise ValueError("a job file that could not be read has no plan to submit")
    attempts: list[Attempt] = []
    while True:
        name = place.submit(plan, on_progress)
        told.submitted(name)
        outcome = place.follow(name)
        if outcome is None or outcome.status.state is not JobState.FAILED:
            return outcome
        attempts.append(_attempt(name, plan, outcome))
        decision = after_failure(
            attempts,
            max_retries=_max_retries(job, plan, place),
            instance_types=[job.resources.instance_type, *job.resources.instance_types],
        )
        told.decided(outcome, decision)
        if isinstance(decision, GiveUp):
            return outcome
        if attempts[-1].retry is Retry.OTHER_HOSTS and _keeps_hosts(plan):
            # The pool would give the next attempt the very hosts that it must not get.
            place.release_hosts(name)
        place.pause(decision.wait_seconds)
        further = _planned(loaded, job, attempts, decision, place)
        if further.refused:
            told.decided(outcome, GiveUp(_refusals(further)))
            return outcome
        plan = further


def next_job(
    job: JobSpec, attempts: Sequence[Attempt], decision: TryAgain, *, resumes: bool = True
) -> JobSpec:
    """The job of the next attempt: the decided instance type, the last attempt's checkpoints, the tags."""
    if decision.instance_type != job.resources.instance_type:
        job = job_on(job, decision.instance_type)
    tags = {FIRST_TAG: attempts[0].name, NUMBER_TAG: str(len(attempts) + 1)}
    checkpoint = job.checkpoint
    if resumes:
        checkpoint = (checkpoint or Checkpoint()).model_copy(update={"resume_from": attempts[-1].name})
    return job.model_copy(update={"checkpoint": checkpoint, "tags": {**job.tags, **tags}})


def _max_retries(job: JobSpec, plan: TrainingPlan, place: Place) -> int:
    """How many further attempts there may be; a tuning job goes on by itself when one of its jobs fails."""
    if plan.operation != "CreateTrainingJob":
        return 0
    return job.limits.max_retries if place.retries is None else place.retries


def _keeps_hosts(plan: TrainingPlan) -> bool:
    return plan.view is not None and plan.view.keep_alive_seconds > 0


def _attempt(name: str, plan: TrainingPlan, outcome: Outcome) -> Attempt:
    instance_type = plan.view.instance_type if plan.view else None
    retry = outcome.diagnosis.retry if outcome.diagnosis else Retry.NEVER
    return Attempt(name, str(instance_type), retry, outcome.step)


def _planned(
    loaded: LoadedJob, job: JobSpec, attempts: Sequence[Attempt], decision: TryAgain, place: Place
) -> TrainingPlan:
    resumes = place.has_checkpoint(attempts[-1].name)
    return place.plan(replace(loaded, spec=next_job(job, attempts, decision, resumes=resumes)))


def _refusals(plan: TrainingPlan) -> str:
    told = "; ".join(f"{finding.code} {finding.message}" for finding in plan.findings if finding.blocks)
    return f"the next attempt cannot be launched: {told}"
