"""A tuning job: what its training jobs have in common, and what they cannot have."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import checkpoints, distribution, job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import Strategy
from launcher.rules.job.subject import JobSubject

_STARTED_BY_THE_TOOLKIT_ALONE = (Strategy.TORCHRUN, Strategy.SMP, Strategy.NONE)


@finds(Stage.SPEC, checkpoints.PREFIX_NOT_UNIQUE)
def tuned_jobs_share_no_checkpoints(subject: JobSubject) -> Iterator[Finding]:
    """All training jobs are made from one request, with one place for checkpoints.

    SageMaker's developer guide (model-checkpoints) knows of no part that the service adds to the prefix.
    """
    job = subject.job
    if job.tuning is None:
        return
    if job.checkpoint is not None:
        place = "directory" if job.checkpoint.lustre is not None else "prefix"
        yield checkpoints.PREFIX_NOT_UNIQUE.finding(
            Stage.SPEC,
            f"all {job.tuning.jobs} training jobs would have one {place} for checkpoints: each would "
            "start from what another has saved with other hyperparameters, and overwrite it",
            remedy="Remove `checkpoint`. A script that keeps the jobs apart by itself, by the name in "
            "TRAINING_JOB_NAME, may accept it with `ignore: [CKPT001]`.",
            location=subject.locate("checkpoint"),
            subject="checkpoint",
        )
    elif job.cluster is not None:
        yield checkpoints.PREFIX_NOT_UNIQUE.finding(
            Stage.SPEC,
            "checkpoints are off: all training jobs of a tuning job would have the same prefix in the "
            "cluster's bucket",
            remedy="Keep the training jobs short; each begins anew when it is interrupted.",
            severity=Severity.INFO,
            location=subject.locate("tuning"),
            subject="tuning",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def tuned_jobs_have_no_debugger(subject: JobSubject) -> Iterator[Finding]:
    """HyperParameterTrainingJobDefinition has no place for it (botocore service model)."""
    if subject.job.tuning is not None and subject.job.debugger:
        yield job_file.INVALID_VALUE.finding(
            Stage.SPEC,
            "`debugger: true` is not followed: the API of tuning jobs takes no Debugger",
            remedy="Remove it, or run one job with the best values and the Debugger.",
            severity=Severity.WARNING,
            location=subject.locate("debugger"),
            subject="debugger",
        )


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def image_has_the_toolkit(subject: JobSubject) -> Iterator[Finding]:
    """An image of the user's own must be able to start the script by itself."""
    job = subject.job
    if job.tuning is None or job.image is None:
        return
    if job.distribution.strategy in _STARTED_BY_THE_TOOLKIT_ALONE:
        yield distribution.UNSUPPORTED_COMBINATION.finding(
            Stage.SPEC,
            f"in a tuning job the image's own entry point starts the script: {job.image} must have the "
            "SageMaker training toolkit, or each training job runs something else",
            remedy="Build it on an AWS deep learning container, or install sagemaker-training in it.",
            severity=Severity.WARNING,
            location=subject.locate("image"),
            subject="image",
        )
