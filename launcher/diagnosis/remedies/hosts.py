"""What to do where a host is too small for what its processes start and keep, or has other devices."""

from __future__ import annotations

import re

from launcher.diagnosis.remedies.asked_job import AskedJob
from launcher.diagnosis.sighting import Sighting
from launcher.jobs.given_numbers import WORKER_NAMES

_PATH = re.compile(r"'(/[^']{1,4096})'")
_ON_THE_DISK = ("/opt/ml", "/tmp")
"""What lies on the volume, or on the disks of a type that has some (DISK001)."""


def fewer_workers(root: Sighting, job: AskedJob) -> str | None:
    """Half of the DataLoader workers; None where nobody knows how many there are."""
    workers = job.number(WORKER_NAMES)
    if workers is None or workers.value == 0:
        return None
    processes, facts = job.processes_per_host, job.facts
    counted = ""
    if processes is not None and processes > 1:
        cpus = f", which has {facts.vcpus} vCPUs" if facts is not None else ""
        counted = f": {processes} processes start {processes * workers.value} of them on each host{cpus}"
    return (
        f"Set {workers.name} to {workers.value // 2} instead of {workers.value}{counted}. {root.mode.remedy}"
    )


def larger_disk(root: Sighting, job: AskedJob) -> str | None:
    """Twice the volume, or that the disks of the type are all there is; None where the full disk may be
    another one."""
    path = _PATH.search(root.text)
    elsewhere = path is not None and not path[1].startswith(_ON_THE_DISK)
    if job.facts is None or elsewhere or "quota" in root.text.lower():
        return None
    if job.facts.local_nvme_gb:
        return (
            f"{job.instance_type} has {job.facts.local_nvme_gb} GB of disks of its own, and "
            f"resources.volume_size_gb adds nothing to them. {root.mode.remedy}"
        )
    if job.volume_size_gb is None:
        return None
    return (
        f"Raise resources.volume_size_gb, which is {job.volume_size_gb}, such as to "
        f"{job.volume_size_gb * 2}. {root.mode.remedy}"
    )


def process_for_each_device(root: Sighting, job: AskedJob) -> str | None:
    """How many processes there are against the devices of the type; None where both agree or one is not
    known."""
    facts, processes = job.facts, job.processes_per_host
    if facts is None or processes is None or not facts.accelerators or processes == facts.processes_per_host:
        return None
    return (
        f"Set distribution.processes_per_host to {facts.processes_per_host} instead of {processes}, or leave "
        f"it out: {facts.instance_type} has so many. {root.mode.remedy}"
    )
