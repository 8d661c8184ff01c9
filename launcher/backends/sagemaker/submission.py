"""From a plan to a job: code and checkpoint to S3 first, then the request, once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from launcher.aws.bucket_owners import expected_owners
from launcher.backends.interface import BackendError, OnProgress, Progress, UnusablePlan
from launcher.backends.sagemaker.creation import (
    NameTakenError,
    UncertainError,
    create_once,
    existing_status,
)
from launcher.backends.sagemaker.journal import Claim, Journal, JournalEntry
from launcher.backends.sagemaker.resume import copy_checkpoint
from launcher.backends.sagemaker.upload import upload_code
from launcher.failure_modes.refusal import Refusal
from launcher.text.durations import duration_in_words

if TYPE_CHECKING:
    from launcher.planning.training_plan import TrainingPlan

ENDED_SECONDS = 3600
"""An interrupted launch whose job has ended meanwhile is still the one meant for so long; after that, who
launches wants another run."""

IN_FLIGHT_SECONDS = 300
"""For so long a call of a killed launch might still be carried out; its entry is kept."""


def submit(
    sagemaker: Any,
    s3: Any,
    plan: TrainingPlan,
    on_progress: OnProgress | None = None,
    journal: Journal | None = None,
) -> str:
    """Submit the plan once; returns the job's name.

    Nothing is created where the code cannot be uploaded or the checkpoint not be copied. Where a launch
    of the same request was interrupted on this machine, this one goes on with it, under its name. Raises
    BackendError for a plan that cannot be sent, AwsRefusal where AWS refuses.
    """
    _check(plan)
    report: OnProgress = on_progress or (lambda _: None)
    with _pending_job(sagemaker, plan, journal or Journal(), report) as job:
        if job.status is None:
            plan = _renamed(plan, job.name)
            provide(sagemaker, s3, plan, report)
            create_once(sagemaker, plan)
    return job.name


def provide(sagemaker: Any, s3: Any, plan: TrainingPlan, on_progress: OnProgress | None = None) -> None:
    """Bring to S3 what the plan's request speaks of: the code, and the checkpoint to resume from.

    Raises BackendError or AwsRefusal where that fails; no half object is left that a job could read.
    """
    _check(plan)
    with expected_owners(s3, plan.bucket_owners):
        if plan.package is not None:
            upload_code(s3, plan.package, on_progress)
        reference = (plan.job.get("checkpoint") or {}).get("resume_from")
        if reference and plan.view is not None:
            copy_checkpoint(sagemaker, s3, str(reference), plan.view, on_progress)


@dataclass(frozen=True, slots=True)
class _PendingJob:
    """The job to create, by its name; with a status where it is there already."""

    name: str
    status: str | None = None


def _check(plan: TrainingPlan) -> None:
    if plan.refused or plan.package is None:
        raise UnusablePlan
    if plan.placeholders:
        missing = ", ".join(plan.placeholders)
        raise BackendError(
            f"the plan still holds placeholders for: {missing}.",
            "Give them in the job file, or name a provisioned `cluster`.",
        )


@contextmanager
def _pending_job(
    sagemaker: Any, plan: TrainingPlan, journal: Journal, report: OnProgress
) -> Iterator[_PendingJob]:
    """An interrupted launch of the same request, else a new one; its entry stays while its fate is open."""
    new = JournalEntry.of(plan)
    interrupted = _interrupted(sagemaker, new, journal, report)
    if interrupted is None:
        claim, job = _recorded(new, journal, report), _PendingJob(new.name)
    else:
        claim, job = interrupted
    try:
        yield job
        claim.done()
    except NameTakenError:
        claim.done()
        raise
    except UncertainError:
        raise
    except Refusal:
        # Nothing was created by this launch; what became of an interrupted one is another question.
        if interrupted is None:
            claim.done()
        raise
    finally:
        claim.close()


def _recorded(launch: JournalEntry, journal: Journal, report: OnProgress) -> Claim:
    try:
        return journal.record(launch)
    except OSError as error:
        report(
            Progress(
                f"no note of this launch can be kept{_place(error)} ({error.strerror}); should it be killed, "
                f"look for the job {launch.name} before launching again"
            )
        )
        return Claim(launch, None, None)


def _place(error: OSError) -> str:
    return f" in {error.filename}" if error.filename else ""


def _interrupted(
    sagemaker: Any, new: JournalEntry, journal: Journal, report: OnProgress
) -> tuple[Claim, _PendingJob] | None:
    for claim in journal.interrupted(new):
        old, age = claim.launch, time.time() - claim.launch.started
        news = f"a launch of {old.job} was interrupted {duration_in_words(age)} ago"
        try:
            status = existing_status(sagemaker, old.operation, old.name)
        except BaseException:
            claim.close()
            raise
        running = status is not None and status not in ("Completed", "Failed", "Stopped")
        if old.fingerprint == new.fingerprint and (status is None or running or age < ENDED_SECONDS):
            found = (
                f"its job {old.name} is {status}" if status else f"it had created nothing yet as {old.name}"
            )
            report(Progress(f"{news}; {found}: going on with it"))
            return claim, _PendingJob(old.name, status)
        if running:
            report(Progress(f"{news}; its job {old.name}, of another request, is {status}"))
        if status is not None or age > IN_FLIGHT_SECONDS:
            claim.done()
        claim.close()
    return None


def _renamed(plan: TrainingPlan, name: str) -> TrainingPlan:
    """The same plan under another unique name, which also stands in its prefixes."""
    if plan.name == name:
        return plan
    text = json.dumps(plan.request).replace(str(plan.name), name)
    return replace(plan, request=json.loads(text))
