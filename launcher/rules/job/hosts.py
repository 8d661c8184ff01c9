"""What connects the hosts of a job."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import network
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, network.HOSTS_WITHOUT_EFA)
def several_hosts_have_efa(subject: JobSubject) -> Iterator[Finding]:
    """Accelerators on several hosts wait for the network at every step."""
    facts, hosts = subject.facts, subject.job.resources.instance_count
    if facts is None or hosts < 2 or not facts.accelerators:
        return
    if not facts.has_efa:
        lack = "has no EFA: gradients would go over TCP, and the accelerators wait for them at every step"
    elif facts.gpudirect_rdma is False:
        lack = "has EFA, but no GPUDirect RDMA: every message would be copied through host memory"
    else:
        return
    yield network.HOSTS_WITHOUT_EFA.at(
        ("resources", "instance_type"),
        f"{hosts} hosts of {facts.instance_type}: the type {lack}",
    )
