"""A job and its other attempts: each a new job from the last checkpoint, linked to the first by tags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from launcher.backends.interface import Backend, JobState
from launcher.failure_modes.model import Retry
from launcher.jobs.checkpoint import Checkpoint
from launcher.jobs.load import LoadedJob
from launcher.jobs.specification import JobSpec
from launcher.planning.alternatives import job_on
from launcher.planning.training_plan import TrainingPlan
from launcher.session.outcome import Outcome
from launcher.session.retry import Attempt, GiveUp, TryAgain, after_failure
from launcher.session.submission import Start, Started

FIRST_TAG = "slipway:first-attempt"
NUMBER_TAG = "slipway:attempt"


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
    replan: Callable[[LoadedJob], TrainingPlan],
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
        replan: makes the judged plan of another attempt, with the code of the first.
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
    backend = start.backend
    attempts: list[Attempt] = []
    while True:
        started = start.once(plan)
        name = started.name
        display.started(started)
        outcome = follow(name)
        if outcome is None or outcome.status.state is not JobState.FAILED:
            return outcome
        attempts.append(_attempt(name, plan, outcome))
        decision = after_failure(
            attempts,
            max_retries=_max_retries(job, plan, backend),
            instance_types=[job.resources.instance_type, *job.resources.instance_types],
            service_chooses=job.resources.instance_choice == "service",
            may_check_hosts=job.resources.with_infra_check().infra_check,
        )
        display.decided(outcome, decision)
        if isinstance(decision, GiveUp):
            return outcome
        if attempts[-1].retry is Retry.OTHER_HOSTS and _keeps_hosts(plan):
            # The pool would give the next attempt the very hosts that it must not get.
            backend.release_hosts(name)
        pause(decision.wait_seconds)
        resumes = backend.has_checkpoint(name)
        another = replan(replace(loaded, spec=next_job(job, attempts, decision, resumes=resumes)))
        if another.refused:
            display.decided(outcome, GiveUp(_refusals(another)))
            return outcome
        plan = another


def next_job(
    job: JobSpec, attempts: Sequence[Attempt], decision: TryAgain, *, resumes: bool = True
) -> JobSpec:
    """The job of the next attempt: the decided instance type, the last attempt's checkpoints, the tags.

    Where it was decided, AWS tests the hosts first.
    """
    if decision.instance_type != job.resources.instance_type:
        job = job_on(job, decision.instance_type)
    if decision.infra_check:
        job = job.model_copy(update={"resources": job.resources.with_infra_check()})
    tags = {FIRST_TAG: attempts[0].name, NUMBER_TAG: str(len(attempts) + 1)}
    checkpoint = job.checkpoint
    if resumes:
        checkpoint = (checkpoint or Checkpoint()).model_copy(update={"resume_from": attempts[-1].name})
    return job.model_copy(update={"checkpoint": checkpoint, "tags": {**job.tags, **tags}})


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
    return Attempt(name, str(instance_type), retry, outcome.step, cause)


def _refusals(plan: TrainingPlan) -> str:
    reasons = "; ".join(f"{finding.code} {finding.message}" for finding in plan.findings if finding.blocks)
    return f"the next attempt cannot be launched: {reasons}"
