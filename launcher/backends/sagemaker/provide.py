"""What a plan's request speaks of comes to S3 before the request is sent: the code, and a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from launcher.aws.bucket_owners import expected_owners
from launcher.backends.interface import BackendError, OnProgress, UnusablePlan
from launcher.backends.sagemaker.resume import copy_checkpoint
from launcher.backends.sagemaker.upload import upload_code

if TYPE_CHECKING:
    from launcher.planning.training_plan import TrainingPlan


def provide(sagemaker: Any, s3: Any, plan: TrainingPlan, on_progress: OnProgress | None = None) -> None:
    """Bring to S3 what the plan's request speaks of: the code, and the checkpoint to resume from.

    Raises BackendError for a plan that cannot be sent, BackendError or AwsRefusal where the way to S3 fails;
    no half object is left that a job could read.
    """
    if plan.refused or plan.package is None:
        raise UnusablePlan
    if plan.placeholders:
        missing = ", ".join(plan.placeholders)
        raise BackendError(
            f"the plan still holds placeholders for: {missing}.",
            "Give them in the job file, or name a provisioned `cluster`.",
        )
    with expected_owners(s3, plan.bucket_owners):
        upload_code(s3, plan.package, on_progress)
        reference = (plan.job.get("checkpoint") or {}).get("resume_from")
        if reference and plan.view is not None:
            copy_checkpoint(sagemaker, s3, str(reference), plan.view, on_progress)
