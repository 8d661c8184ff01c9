"""Samples of GPUs' clocks, and why they are low: the CSV of `nvidia-smi --query-gpu=... --format=csv`.

Columns: `nvidia-smi --help-query-gpu`, `clocks_event_reasons.hw_slowdown` and its like, of older drivers
`clocks_throttle_reasons`. The bits of `clocks_event_reasons.active` are NVML's (nvml.h). Settings, idle
clocks and caps of power are left out: they hold down any GPU. What is left holds up all ranks and ends none,
so it is only told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.evidence.nvidia_smi import sign_of_gpu
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import hardware
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds

_REASON = re.compile(rb"\bclocks_(?:event|throttle)_reasons\.\w")
_COLUMN = re.compile(r"^clocks_(?:event|throttle)_reasons\.(?P<reason>\w{1,40})$")
_BITS = {
    0x8: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
_GPU = ("index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid")
"""Columns that tell which GPU a sample is of; without one all samples are of one."""

_LONGEST_LINE = 4000
_MOST_GPUS = 64
_OFTEN = 0.05
"""The part of its samples in which a GPU is held down that is told."""


def is_clock_samples(head: bytes) -> bool:
    """Whether a file's first line names the columns of such samples."""
    first = head.partition(b"\n")[0]
    return b"," in first and _REASON.search(first) is not None


def read_clock_samples(text: str, host: str | None = None) -> FileEvidence:
    """Which GPUs of a host were slowed down, and in how many of their samples."""
    first, _, rest = text.partition("\n")
    names = [name.partition("[")[0].strip() for name in first[:_LONGEST_LINE].split(",")]
    samples: Counter[str] = Counter()
    held: dict[str, Counter[str]] = {}
    for line in rest.splitlines():
        values = [value.strip() for value in line[:_LONGEST_LINE].split(",")]
        if len(values) != len(names) or values == names:
            continue  # A query that goes on writes its columns again when it is started anew.
        gpu = next((values[names.index(name)] for name in _GPU if name in names), "")
        if gpu not in samples and len(samples) >= _MOST_GPUS:
            continue
        samples[gpu] += 1
        held.setdefault(gpu, Counter()).update(set(_reasons(names, values)))
    return FileEvidence(of_hosts=tuple(_signs(samples, held, host)))


def _reasons(names: Sequence[str], values: Sequence[str]) -> Iterator[str]:
    for name, value in zip(names, values, strict=True):
        column = _COLUMN.match(name)
        if column is None:
            continue
        if column["reason"] == "active":
            bits = int(value, 16) if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", value) else 0
            yield from (reason for bit, reason in _BITS.items() if bits & bit)
        elif value == "Active" and column["reason"] in _BITS.values():
            yield column["reason"]


@finds(Stage.LOG, hardware.GPU_FAULT)
def _signs(samples: Counter[str], held: dict[str, Counter[str]], host: str | None) -> Iterator[Sighting]:
    for gpu, count in samples.items():
        often = [(reason, times) for reason, times in held[gpu].items() if times >= _OFTEN * count]
        if not often:
            continue
        told = ", ".join(f"{reason} in {times} of {count} samples" for reason, times in sorted(often))
        name = f"GPU {gpu}" if gpu else "a GPU"
        what = f"{name} was slowed down: {told}"
        yield sign_of_gpu(hardware.GPU_FAULT, LineRole.ADVISORY, what, gpu, host)
