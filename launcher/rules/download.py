"""What downloading a training set to every host costs: the bounds of all rules about it."""

from __future__ import annotations

from launcher.cluster.instances import InstanceFacts

LARGE_DATASET_BYTES = 500 * 1000**3
"""More than this is long to download at every start and every retry."""


def disk_bytes(facts: InstanceFacts | None, volume_size_gb: float) -> float | None:
    """Where downloads go: the host's own NVMe drives, else the volume; None for an unknown type."""
    return None if facts is None else (facts.local_nvme_gb or volume_size_gb) * 1e9
