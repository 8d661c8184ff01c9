"""Whether there are UltraServers where hosts are to be placed on them: SPEC003."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject

_OF_ULTRA_SERVERS = ("ml.p6e-", "ml.trn2u.")
"""How the types begin of which UltraServers are made: SageMaker's API reference (UltraServerSummary) names
ml.u-p6e-gb200x72, and trn2u is what EC2 calls trn2 in an UltraServer."""


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def hosts_are_of_ultra_servers(subject: JobSubject) -> Iterator[Finding]:
    """The API has placement for the capacity of UltraServers alone."""
    resources = subject.job.resources
    if resources.placement is None or resources.instance_type.startswith(_OF_ULTRA_SERVERS):
        return
    yield job_file.INVALID_VALUE.at(
        ("resources", "placement"),
        f"{resources.instance_type} is not a type of which UltraServers are made, and only on those hosts "
        "can be placed: the service would refuse the job",
        remedy="Remove `placement`, or use a type of UltraServers, such as ml.p6e-gb200.36xlarge.",
    )
