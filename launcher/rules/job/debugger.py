"""SageMaker Debugger: where the plan turns it off, the user is told why; where it is on, what AWS says."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import debugger, job_file, notices
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import Strategy
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, debugger.WITH_CHECKPOINTS)
def debugger_off_with_checkpoints(subject: JobSubject) -> Iterator[Finding]:
    """Debugger, distributed training and the service's checkpoint upload do not go together.

    Beside the data parallel library, whose users meet the error with the SageMaker SDK, that Debugger is
    off is said even where nobody asked for it.
    """
    if subject.plan.debugger.conflict is not debugger.WITH_CHECKPOINTS:
        return
    strategy, hosts = subject.job.distribution.strategy, subject.job.resources.instance_count
    if subject.job.debugger or strategy is Strategy.SMDDP:
        distributed = f"{hosts} hosts" if strategy is Strategy.NONE else f"the strategy {strategy.value}"
        yield _off(
            subject,
            debugger.WITH_CHECKPOINTS,
            f"{distributed} with checkpoints to S3: the three together end the job with 'SMDebug "
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


@finds(Stage.SPEC, debugger.NOT_OFFERED)
def debugger_is_offered(subject: JobSubject) -> Iterator[Finding]:
    """Off, and said, in a region without it; where it is on, that AWS lets only its old customers use it."""
    if subject.job.debugger and subject.plan.debugger.conflict is debugger.NOT_OFFERED:
        yield debugger.NOT_OFFERED.at(
            ("debugger",),
            f"`debugger: true` is not followed: by the SageMaker SDK's list, {subject.plan.region} has no "
            "Debugger, and the job could be refused",
            remedy="Remove it, or run the job in another region. The list can be older than AWS's offer.",
            severity=Severity.WARNING,
        )
    if subject.plan.debugger.on:
        yield debugger.NOT_OFFERED.at(("debugger",), notices.DEBUGGER_CLOSED.text)


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
