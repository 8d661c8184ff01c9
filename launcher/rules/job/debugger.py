"""SageMaker Debugger beside the distributed libraries: off where it breaks the job, and said."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import debugger
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.debugger import debugger_conflict
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, debugger.WITH_SMDDP_AND_CHECKPOINTS)
def debugger_off_with_smddp_checkpoints(subject: JobSubject) -> Iterator[Finding]:
    """Any two of Debugger, SMDDP and the service's checkpoint upload go together, not all three."""
    if debugger_conflict(subject.job) is debugger.WITH_SMDDP_AND_CHECKPOINTS:
        yield _off(
            subject,
            debugger.WITH_SMDDP_AND_CHECKPOINTS,
            "the data parallel library and checkpoints to S3: the three together end the job with 'SMDebug "
            "Does Not Currently Support Distributed Training Jobs With Checkpointing Enabled'",
        )


@finds(Stage.SPEC, debugger.WITH_MODEL_PARALLEL)
def debugger_off_with_model_parallel(subject: JobSubject) -> Iterator[Finding]:
    """Debugger is not available for the model parallel library."""
    if debugger_conflict(subject.job) is debugger.WITH_MODEL_PARALLEL:
        yield _off(
            subject,
            debugger.WITH_MODEL_PARALLEL,
            "the model parallel library, which it breaks: the job would end with a FileNotFoundError on "
            "metadata.json.sagemaker-uploading",
        )


def _off(subject: JobSubject, mode: FailureMode, why: str) -> Finding:
    asked = subject.job.debugger
    return mode.finding(
        Stage.SPEC,
        f"`debugger: true` is not followed: Debugger is turned off beside {why}"
        if asked
        else f"Debugger is off, as it cannot run beside {why}",
        severity=Severity.WARNING if asked else Severity.INFO,
        location=subject.locate("debugger") if asked else subject.locate("distribution", "strategy"),
        subject="debugger",
    )
