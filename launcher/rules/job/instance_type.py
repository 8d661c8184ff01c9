"""The instance type against the types that the training API accepts."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.instances import instance_facts, nearest_instance_types
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def known_instance_type(subject: JobSubject) -> Iterator[Finding]:
    """A type outside of the API's TrainingInstanceType enum is refused by the service."""
    if subject.facts is None:
        yield _unknown(subject.job.resources.instance_type, ("resources", "instance_type"))


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def known_alternatives(subject: JobSubject) -> Iterator[Finding]:
    """A retry on an unknown type would be refused, when the first one has failed already."""
    for index, instance_type in enumerate(subject.job.resources.instance_types):
        if instance_facts(instance_type) is None:
            yield _unknown(instance_type, ("resources", "instance_types", index))


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def alternatives_need_retries(subject: JobSubject) -> Iterator[Finding]:
    """Other types are for retries, of which there are none unless asked for, or for the service to choose."""
    resources = subject.job.resources
    tried_later = resources.instance_types and resources.instance_choice == "launcher"
    if tried_later and not subject.job.limits.max_retries:
        yield job_file.INVALID_VALUE.at(
            ("resources", "instance_types"),
            "resources.instance_types are what a retry tries when there is no capacity, and "
            "limits.max_retries is 0: they have no effect",
            remedy="Set `limits.max_retries`, or `instance_choice: service`, or remove them.",
            severity=Severity.INFO,
        )


def _unknown(instance_type: str, path: Path) -> Finding:
    near = nearest_instance_types(instance_type)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    return job_file.BREAKS_API_MODEL.at(
        path,
        f"{instance_type} is not a training instance type that this version knows",
        remedy=f"{hint}If it is newer than this version, accept it with `ignore: [SPEC004]` and give "
        "`distribution.processes_per_host`.",
    )
