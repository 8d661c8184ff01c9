"""What the driver knows of the health of its GPUs: the text of `nvidia-smi -q`.

Texts: drivers 450 to 580, which call the counters of Pascal and Volta "Double Bit" and "Retired Pages", and
those of Ampere and later "Uncorrectable" and "Remapped Rows". Volatile counters begin anew when the driver
is loaded, so they are of this host's present life; aggregate ones are of the GPU's. Why clocks are held down
stands in "Clocks Event Reasons" (of older ones "Clocks Throttle Reasons"), and newer ones count for how long
since the driver was loaded ("Counters"). A slow GPU holds up all ranks and ends none: it is only told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import hardware
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import finds
from launcher.text.durations import duration_in_words

_TITLE = b"=NVSMI LOG="
_GPU = re.compile(r"^GPU (?P<gpu>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_LONGEST_LINE = 300
_MOST_GPUS = 64
_UNCORRECTABLE = re.compile(r"Uncorrectable(?! Error)|Double Bit|DRAM Uncorrectable|SRAM Uncorrectable")
_LOST = re.compile(r"GPU is lost|Unknown Error|GPU requires reset", re.I)
_HELD_DOWN = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")
"""Reasons for low clocks that are no setting's: of the hardware, or of the driver for the GPU's heat."""

_COUNTERS = "Clocks Event Reasons Counters"
_COUNTED = ("HW Thermal Slowdown", "HW Power Braking", "SW Thermal Slowdown")
_LONG_HELD = 600
"""Seconds of it that are told, in the life of a driver."""
_WAITS_FOR_RESET = (
    ("Remapped Rows", "Pending"),
    ("Retired Pages", "Pending Page Blacklist"),
    ("Retired Pages", "Pending"),
)


@dataclass(slots=True)
class _GpuText:
    """One GPU: its place on the bus, and each field by the names of its sections and its own."""

    place: str
    fields: dict[tuple[str, ...], str] = field(default_factory=dict)


def is_nvidia_smi(head: bytes) -> bool:
    """Whether a file begins as the output of `nvidia-smi -q` does."""
    return _TITLE in head


def read_nvidia_smi(text: str, host: str | None = None) -> FileEvidence:
    """What is broken, about to be, or slow on the GPUs of a host."""
    return FileEvidence(of_hosts=tuple(sign for gpu in _gpus(text) for sign in _signs(gpu, host)))


def _gpus(text: str) -> list[_GpuText]:
    found: list[_GpuText] = []
    sections: list[tuple[int, str]] = []
    for raw in text.splitlines():
        line = raw[:_LONGEST_LINE].rstrip()
        if (begun := _GPU.match(line)) is not None and len(found) < _MOST_GPUS:
            found.append(_GpuText(begun["gpu"]))
            sections = []
            continue
        name, colon, value = (each.strip() for each in line.partition(":"))
        indent = len(line) - len(line.lstrip(" "))
        if not name or not indent or not found:
            continue
        sections = [each for each in sections if each[0] < indent]
        if colon:
            found[-1].fields[(*(section for _, section in sections), name)] = value
        else:
            sections.append((indent, name))
    return found


@finds(Stage.LOG, hardware.ECC_ERROR, hardware.GPU_FAULT, hardware.CLOSE_TO_MEMORY_LIMIT)
def _signs(gpu: _GpuText, host: str | None) -> Iterator[Sighting]:
    if any(_LOST.search(value) for value in gpu.fields.values()):
        yield sign_of_gpu(
            hardware.GPU_FAULT, LineRole.INITIATOR, f"GPU {gpu.place} is lost to its driver", gpu.place, host
        )
    count = _count(gpu.fields, "Volatile")
    if count:
        text = f"GPU {gpu.place} met {count} errors of its memory that could not be corrected"
        yield sign_of_gpu(hardware.ECC_ERROR, LineRole.INITIATOR, text, gpu.place, host)
    if _is(gpu.fields, "Remapped Rows", "Remapping Failure Occurred"):
        text = f"GPU {gpu.place} has no row left in place of a broken one (remapping failed)"
        yield sign_of_gpu(hardware.ECC_ERROR, LineRole.INITIATOR, text, gpu.place, host)
    for section, name in _WAITS_FOR_RESET:
        if _is(gpu.fields, section, name):
            what = "row to be remapped" if section == "Remapped Rows" else "page to be retired"
            text = f"GPU {gpu.place} has a {what}, for which it must be reset"
            yield sign_of_gpu(hardware.ECC_ERROR, LineRole.SYMPTOM, text, gpu.place, host)
    held = [name for name in _HELD_DOWN if _is_active(gpu.fields, name)]
    if held:
        text = f"GPU {gpu.place} is slowed down: {', '.join(held)}"
        yield sign_of_gpu(hardware.GPU_FAULT, LineRole.ADVISORY, text, gpu.place, host)
    longer = [
        f"{name} for {duration_in_words(seconds)}"
        for name in _COUNTED
        if (seconds := _held_for(gpu.fields, name)) >= _LONG_HELD
    ]
    if longer:
        text = f"GPU {gpu.place} was slowed down since its driver was loaded: {', '.join(longer)}"
        yield sign_of_gpu(hardware.GPU_FAULT, LineRole.ADVISORY, text, gpu.place, host)
    retired = sum(
        _number(value)
        for names, value in gpu.fields.items()
        if ("Retired Pages" in names and names[-1] in ("Single Bit ECC", "Double Bit ECC"))
        or names[-2:] in (("Remapped Rows", "Correctable Error"), ("Remapped Rows", "Uncorrectable Error"))
    )
    if retired:
        text = f"GPU {gpu.place} has {retired} pages or rows of memory less than it had"
        yield sign_of_gpu(hardware.CLOSE_TO_MEMORY_LIMIT, LineRole.ADVISORY, text, gpu.place, host)


def _count(fields: Mapping[tuple[str, ...], str], life: str) -> int:
    """Errors of the memory that could not be corrected: the sum of its parts, or the total of older GPUs."""
    of_life = {names: value for names, value in fields.items() if life in names}
    total = [
        _number(value) for names, value in of_life.items() if "Double Bit" in names and names[-1] == "Total"
    ]
    parts = [_number(value) for names, value in of_life.items() if _UNCORRECTABLE.search(names[-1])]
    return max(sum(parts), *total, 0) if total else sum(parts)


def _is(fields: Mapping[tuple[str, ...], str], section: str, name: str) -> bool:
    return any(section in names and names[-1] == name and value == "Yes" for names, value in fields.items())


def _held_for(fields: Mapping[tuple[str, ...], str], name: str) -> float:
    """For how many seconds its clocks were held down for a reason, 0 where nothing counts that."""
    found = (value for names, value in fields.items() if _COUNTERS in names and names[-1] == name)
    return max((_number(value.removesuffix(" us")) for value in found), default=0) / 1e6


def _is_active(fields: Mapping[tuple[str, ...], str], name: str) -> bool:
    return any(names[-1] == name and value == "Active" for names, value in fields.items())


def _number(value: str) -> int:
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 18 else 0


def sign_of_gpu(mode: FailureMode, role: LineRole, what: str, gpu: str, host: str | None) -> Sighting:
    """What nvidia-smi says of a GPU of a host, by its place or number, empty where it names none."""
    return Sighting(
        mode=mode,
        role=role,
        # It is how the GPU was when somebody asked, before or after the job.
        vague=True,
        what=what,
        rank=None,
        host=host,
        index=BEFORE_ALL_LINES,
        clock=None,
        time=None,
        text=f"nvidia-smi: {what}",
        captured={"gpu": gpu} if gpu else {},
    )
