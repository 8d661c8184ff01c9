"""The remedy of a root cause with this job's numbers, where its lines and its request have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from launcher.diagnosis.remedies.asked_job import AskedJob
from launcher.diagnosis.remedies.gpu_memory import gpu_remedy
from launcher.diagnosis.remedies.hosts import fewer_workers, larger_disk, process_for_each_device
from launcher.diagnosis.remedies.limits import larger_quota, timeout
from launcher.diagnosis.sighting import Sighting
from launcher.failure_modes import capacity, data, disk, distribution, hardware, nccl

_BY_HOST: Mapping[str, Callable[[Sighting, AskedJob], str | None]] = {
    hardware.CUDA_OUT_OF_MEMORY.code: gpu_remedy,
    hardware.HOST_OUT_OF_MEMORY.code: fewer_workers,
    data.LOADER_WORKER_KILLED.code: fewer_workers,
    data.DESCRIPTORS_USED_UP.code: fewer_workers,
    disk.DISK_FULL.code: larger_disk,
    distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.code: process_for_each_device,
    distribution.MORE_PROCESSES_THAN_DEVICES.code: process_for_each_device,
    capacity.QUOTA_TOO_SMALL.code: lambda root, _: larger_quota(root),
}


def remedy_with_numbers(root: Sighting, others: Sequence[Sighting], job: AskedJob) -> str | None:
    """What to do with this job's numbers; None where none is known, or the line calls for something else.

    `others` are the signs beside the root cause.
    """
    if root.remedy is not None:
        return None
    if root.mode is nccl.COLLECTIVE_TIMED_OUT:
        return timeout(root, job, [sign for sign in others if sign.mode is root.mode])
    rule = _BY_HOST.get(root.code)
    return None if rule is None else rule(root, job)
