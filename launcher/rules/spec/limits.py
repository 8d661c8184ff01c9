"""Settings that have no effect in the job as it is, and fields that this version cannot carry out."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.spec.subject import JobSubject


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def max_wait_needs_spot(subject: JobSubject) -> Iterator[Finding]:
    """The service takes a waiting time with spot capacity only; otherwise it is left out, and said."""
    if subject.job.limits.max_wait is not None and subject.job.resources.capacity.kind != "spot":
        yield job_file.INVALID_VALUE.finding(
            Stage.SPEC,
            "limits.max_wait has a meaning with `capacity: spot` only; it is left out of the request",
            remedy="Remove it, or set `resources.capacity: spot`.",
            severity=Severity.INFO,
            location=subject.locate("limits", "max_wait"),
            subject="limits.max_wait",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def checkpoint_way_is_built(subject: JobSubject) -> Iterator[Finding]:
    """Ways of checkpointing that are designed and not built yet are refused, not dropped."""
    checkpoint = subject.job.checkpoint
    if checkpoint is None:
        return
    asked = {
        "lustre": checkpoint.lustre is not None,
        "sync": checkpoint.sync == "slipway",
    }
    for field in (name for name, given in asked.items() if given):
        yield job_file.INVALID_VALUE.finding(
            Stage.SPEC,
            f"checkpoint.{field}: {getattr(checkpoint, field)} cannot be carried out by this version",
            remedy="Leave it out: checkpoints then go to S3 by the service's own synchronisation.",
            location=subject.locate("checkpoint", field),
            subject=f"checkpoint.{field}",
        )
