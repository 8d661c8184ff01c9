"""SageMaker Debugger beside the distributed libraries: where the plan turns it off, the user is told why."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import debugger, job_file
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, debugger.WITH_SMDDP_AND_CHECKPOINTS)
def debugger_off_with_smddp_checkpoints(subject: JobSubject) -> Iterator[Finding]:
    """Any two of Debugger, SMDDP and the service's checkpoint upload work together, but not all three."""
    if subject.plan.debugger.conflict is debugger.WITH_SMDDP_AND_CHECKPOINTS:
        yield _off(
            subject,
            debugger.WITH_SMDDP_AND_CHECKPOINTS,
            "the data parallel library and checkpoints to S3: the three together end the job with 'SMDebug "
            "Does Not Currently Support Distributed Training Jobs With Checkpointing Enabled'",
        )


@finds(Stage.SPEC, debugger.WITH_MODEL_PARALLEL)
def debugger_off_with_model_parallel(subject: JobSubject) -> Iterator[Finding]:
    """Debugger is not available for the model parallel library, in neither of its versions."""
    if subject.plan.debugger.conflict is debugger.WITH_MODEL_PARALLEL:
        yield _off(
            subject,
            debugger.WITH_MODEL_PARALLEL,
            "the model parallel library, which it breaks: the job would end with a FileNotFoundError on "
            "metadata.json.sagemaker-uploading",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def tuning_jobs_have_no_debugger(subject: JobSubject) -> Iterator[Finding]:
    """HyperParameterTrainingJobDefinition has no place for it (botocore service model)."""
    if subject.job.tuning is not None and subject.job.debugger:
        yield job_file.INVALID_VALUE.at(
            ("debugger",),
            "`debugger: true` is not followed: the API of tuning jobs does not take Debugger",
            remedy="Remove it, or run one job with the best values and the Debugger.",
            severity=Severity.WARNING,
        )


def _off(subject: JobSubject, mode: FailureMode, why: str) -> Finding:
    asked = subject.job.debugger
    return mode.at(
        ("debugger",) if asked else ("distribution", "strategy"),
        f"`debugger: true` is not followed: Debugger is turned off beside {why}"
        if asked
        else f"Debugger is off, as it cannot run beside {why}",
        severity=Severity.WARNING if asked else Severity.INFO,
        subject="debugger",
    )
