"""An image of the user's own."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.planning.strategies.in_tuning_job import IN_TUNING_JOB
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def image_has_the_toolkit(subject: JobSubject) -> Iterator[Finding]:
    """In a tuning job it has to start the script by itself, where the boot would do so otherwise."""
    job = subject.job
    if job.tuning is None or job.image is None:
        return
    if job.distribution.strategy in IN_TUNING_JOB:
        yield distribution.UNSUPPORTED_COMBINATION.at(
            ("image",),
            f"in a tuning job the image's own entry point starts the script: {job.image} must have the "
            "SageMaker training toolkit, or each training job runs something else",
            remedy="Build it on an AWS deep learning container, or install sagemaker-training in it.",
            severity=Severity.WARNING,
        )
