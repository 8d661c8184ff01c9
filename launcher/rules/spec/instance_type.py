"""The instance type against the types that the training API accepts."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.cluster.instances import nearest_instance_types
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.spec.subject import JobSubject


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def known_instance_type(subject: JobSubject) -> Iterator[Finding]:
    """A type outside of the API's TrainingInstanceType enum is refused by the service."""
    if subject.facts is not None:
        return
    instance_type = subject.job.resources.instance_type
    near = nearest_instance_types(instance_type)
    hint = f"Did you mean {' or '.join(near)}? " if near else ""
    yield job_file.BREAKS_API_MODEL.finding(
        Stage.SPEC,
        f"{instance_type} is not a training instance type that this version knows",
        remedy=f"{hint}If it is newer than this version, accept it with `ignore: [SPEC004]` and give "
        "`distribution.processes_per_host`.",
        location=subject.locate("resources", "instance_type"),
        subject="resources.instance_type",
    )
