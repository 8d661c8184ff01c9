"""Limits that contradict each other, and settings without effect."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def max_wait_needs_spot(subject: JobSubject) -> Iterator[Finding]:
    """The service takes a waiting time with spot capacity only; otherwise it is left out, and said."""
    if subject.job.limits.max_wait is not None and not _is_spot(subject):
        yield job_file.INVALID_VALUE.finding(
            Stage.SPEC,
            "limits.max_wait has a meaning with `capacity: spot` only; it is left out of the request",
            remedy="Remove it, or set `resources.capacity: spot`.",
            severity=Severity.INFO,
            location=subject.locate("limits", "max_wait"),
            subject="limits.max_wait",
        )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def waiting_includes_running(subject: JobSubject) -> Iterator[Finding]:
    """MaxWaitTimeInSeconds counts the run as well, so it cannot be less than MaxRuntimeInSeconds."""
    limits = subject.job.limits
    if _is_spot(subject) and limits.max_wait is not None and limits.max_wait < limits.max_runtime:
        yield job_file.BREAKS_API_MODEL.finding(
            Stage.SPEC,
            f"limits.max_wait is {limits.max_wait} s, less than max_runtime with {limits.max_runtime} s: the "
            "service would refuse the job, as the waiting time includes the run",
            remedy=f"Set max_wait to {limits.max_runtime} s or more; by default it is twice max_runtime.",
            location=subject.locate("limits", "max_wait"),
            subject="limits.max_wait",
        )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def warm_pools_are_not_spot(subject: JobSubject) -> Iterator[Finding]:
    """A warm pool keeps hosts that spot capacity may take away."""
    keep_alive = subject.job.resources.keep_alive
    if keep_alive and _is_spot(subject):
        yield job_file.BREAKS_API_MODEL.finding(
            Stage.SPEC,
            f"resources.keep_alive ({keep_alive} s) asks for a warm pool of spot hosts: the service would "
            "refuse the job",
            remedy="Remove `keep_alive`, or use `capacity: on-demand`.",
            location=subject.locate("resources", "keep_alive"),
            subject="resources.keep_alive",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def volume_has_a_meaning(subject: JobSubject) -> Iterator[Finding]:
    """Types with disks of their own use those, whatever volume is asked for."""
    resources = subject.job.resources
    given = "volume_size_gb" in resources.model_fields_set
    if given and subject.facts is not None and subject.facts.local_nvme_gb:
        yield job_file.INVALID_VALUE.finding(
            Stage.SPEC,
            f"resources.volume_size_gb ({resources.volume_size_gb}) has no effect: {resources.instance_type} "
            f"uses its own {subject.facts.local_nvme_gb} GB of local disks",
            remedy="Remove it.",
            severity=Severity.INFO,
            location=subject.locate("resources", "volume_size_gb"),
            subject="resources.volume_size_gb",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def further_types_need_retries(subject: JobSubject) -> Iterator[Finding]:
    """Further types are for retries, of which there are none unless asked for."""
    if subject.job.resources.instance_types and not subject.job.limits.max_retries:
        yield job_file.INVALID_VALUE.finding(
            Stage.SPEC,
            "resources.instance_types are what a retry tries when there is no capacity, and "
            "limits.max_retries is 0: they have no effect",
            remedy="Set `limits.max_retries`, or remove them.",
            severity=Severity.INFO,
            location=subject.locate("resources", "instance_types"),
            subject="resources.instance_types",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def own_sync_is_in_the_script(subject: JobSubject) -> Iterator[Finding]:
    """With `sync: slipway` the service moves no checkpoint: the script has to."""
    checkpoint = subject.job.checkpoint
    if checkpoint is not None and checkpoint.sync == "slipway":
        yield job_file.INVALID_VALUE.finding(
            Stage.SPEC,
            "checkpoint.sync: slipway takes checkpoints out of the service's hands: what the script itself "
            "does not upload to the prefix in SLIPWAY_CHECKPOINT_URI is lost with the hosts",
            remedy="Let the script upload there, checking every result, or leave `sync` out.",
            severity=Severity.WARNING,
            location=subject.locate("checkpoint", "sync"),
            subject="checkpoint.sync",
        )


def _is_spot(subject: JobSubject) -> bool:
    return subject.job.resources.capacity.kind == "spot"
