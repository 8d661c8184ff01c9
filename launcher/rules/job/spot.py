"""Spot capacity: the limits that come with it, and what cannot be kept on it."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def max_wait_needs_spot(subject: JobSubject) -> Iterator[Finding]:
    """The service takes a waiting time with spot capacity only; otherwise it is left out of the request."""
    if subject.job.limits.max_wait is not None and not _is_spot(subject):
        yield job_file.INVALID_VALUE.at(
            ("limits", "max_wait"),
            "limits.max_wait only has a meaning with `capacity: spot`; it is left out of the request",
            remedy="Remove it, or set `resources.capacity: spot`.",
            severity=Severity.INFO,
        )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def waiting_includes_running(subject: JobSubject) -> Iterator[Finding]:
    """MaxWaitTimeInSeconds counts the run as well, so it cannot be less than MaxRuntimeInSeconds."""
    limits = subject.job.limits
    if _is_spot(subject) and limits.max_wait is not None and limits.max_wait < limits.max_runtime:
        yield job_file.BREAKS_API_MODEL.at(
            ("limits", "max_wait"),
            f"limits.max_wait is {limits.max_wait} s, less than max_runtime with {limits.max_runtime} s: the "
            "service would refuse the job, as the waiting time includes the run",
            remedy=f"Set max_wait to {limits.max_runtime} s or more; by default it is twice max_runtime.",
        )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def warm_pools_are_not_spot(subject: JobSubject) -> Iterator[Finding]:
    """A warm pool keeps hosts that spot capacity may take away."""
    keep_alive = subject.job.resources.keep_alive
    if keep_alive and _is_spot(subject):
        yield job_file.BREAKS_API_MODEL.at(
            ("resources", "keep_alive"),
            f"resources.keep_alive ({keep_alive} s) asks for a warm pool of spot hosts: the service would "
            "refuse the job",
            remedy="Remove `keep_alive`, or use `capacity: on-demand`.",
        )


def _is_spot(subject: JobSubject) -> bool:
    return subject.job.resources.capacity.kind == "spot"
