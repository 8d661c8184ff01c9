"""The storage volume of the hosts."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def volume_has_a_meaning(subject: JobSubject) -> Iterator[Finding]:
    """Types with disks of their own use those, whatever volume is asked for."""
    resources = subject.job.resources
    given = "volume_size_gb" in resources.model_fields_set
    if given and subject.facts is not None and subject.facts.local_nvme_gb:
        yield job_file.INVALID_VALUE.at(
            ("resources", "volume_size_gb"),
            f"resources.volume_size_gb ({resources.volume_size_gb}) has no effect: {resources.instance_type} "
            f"uses its own {subject.facts.local_nvme_gb} GB of local disks",
            remedy="Remove it.",
            severity=Severity.INFO,
        )
