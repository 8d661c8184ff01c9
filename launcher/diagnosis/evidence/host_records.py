"""What a host records of itself: the kernel's log, the driver's state of its GPUs, and samples of their
clocks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.logs.lines import parse
from launcher.diagnosis.match.rows import rows_matching
from launcher.diagnosis.signatures import LineRole
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting, sighting_of
from launcher.failure_modes import hardware
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import finds
from launcher.text.log_lines import LONGEST_LINE
from launcher.text.values import duration_in_words

# The kernel's own log: `dmesg`, `dmesg -T`, `journalctl -k`, /var/log/kern.log and messages.
#
# Texts: the Linux kernel's mm/oom_kill.c of 4.19 to 6.12 and NVIDIA's driver ("NVRM: Xid"); the clocks are
# the kernel's seconds since its start (`[ 8123.4]`, `[ +0.000316]` of `dmesg -d`), ctime (`dmesg -T`),
# syslog's without a year, and ISO's (`dmesg --time-format iso`, journalctl -o short-iso, rsyslog).
#
# It tells of the whole host and of all its days, so what it says is weighed below what the job's own lines
# say plainly, and what it dates long before the job's end is only told.


CLOCK = "kernel"
"""The kind of the times, in seconds since the epoch, where the lines have a date with a year."""

BEFORE_THE_END = 7200.0
"""Seconds before a job's last output in which a fault counts as its cause: process groups wait for half an
hour at most by default, and a rank that was killed ends its job at once."""

_WITHOUT_YEAR = "kernel, without a year"
"""The kind of the times of syslog's lines: seconds from the beginning of a leap year."""

_LEAP_YEAR = 2000
_AFTER_THE_END = 600.0
_FEWEST = 0.6
_MOST_SIGNS = 200

_KERNEL = re.compile(
    r"(?:<\d{1,3}>)?(?:\[ *\d{1,9}\.\d{6}\] |\[ {1,2}\+\d{1,6}\.\d{6}\] "
    r"|\[\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\] "
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    r"(?:,\d{6}[+-]\d\d:\d\d |[.,]?\d{0,6}(?:Z|[+-]\d\d:?\d\d) (?=\S{1,100} kernel: ))"
    r"|\w{3} [ \d]\d \d\d:\d\d:\d\d (?=\S{1,100} kernel: ))"
)
_BEHIND = re.compile(r"(?:(?P<host>[\w.-]{1,100}) kernel: )?(?:\[ *\d{1,9}\.\d{6}\] )?")
_CTIME = re.compile(r"\[(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)[.,]?\d{0,6}(Z|[+-]\d\d:?\d\d)")
_SYSLOG = re.compile(r"(?:<\d{1,3}>)?(\w{3} [ \d]\d \d\d:\d\d:\d\d) ")
_MODES = (hardware.ECC_ERROR, hardware.GPU_FAULT, hardware.HOST_OUT_OF_MEMORY)


def is_kernel_log(head: bytes) -> bool:
    """Whether most lines of a file's beginning are the kernel's."""
    lines = [line for line in head.decode("utf-8", "replace").splitlines() if line.strip()]
    whole = lines[:-1] if len(lines) > 1 else lines
    found = 0
    for number, line in enumerate(whole):
        if _KERNEL.match(line) is not None:
            found += 1
        elif found + len(whole) - number - 1 < _FEWEST * len(whole):
            return False  # as of nearly all logs, after less than half of their beginning
    return found > 0 and found >= _FEWEST * len(whole)


def read_kernel_log(text: str, host: str | None = None) -> FileEvidence:
    """What the kernel says of faults of GPUs and of processes that it killed for want of memory."""
    signs: list[Sighting] = []
    for raw in text.splitlines():
        if len(signs) < _MOST_SIGNS and (sign := _sign(raw[:LONGEST_LINE], host)) is not None:
            signs.append(sign)
    # Who was killed stands below the line that says that somebody will be.
    return FileEvidence(of_hosts=tuple(sorted(signs, key=lambda sign: "process" not in sign.captured)))


def demote_untimely(
    signs: Iterable[Sighting], last_output: float | None, *, ended_well: bool
) -> Iterator[Sighting]:
    """What records of hosts say, as advice what cannot be why the job failed: what is dated at another time
    than the job's end, or all where `ended_well` says that training came to its end. `last_output` is in
    seconds since the epoch, None where no line has a date. A date without a year is of the one nearest to it.
    """
    for each in signs:
        sign = _dated(each, last_output)
        after = None if sign.time is None or last_output is None else sign.time - last_output
        elsewhen = after is not None and not -BEFORE_THE_END <= after <= _AFTER_THE_END
        what = f"{sign.what}, at another time than the job's end" if elsewhen else sign.what
        yield replace(sign, role=LineRole.ADVISORY, what=what) if elsewhen or ended_well else sign


def _sign(raw: str, host: str | None) -> Sighting | None:
    stamp = _KERNEL.match(raw)
    if stamp is None:
        return None
    behind = _BEHIND.match(raw, stamp.end())
    line = parse(raw[behind.end() if behind else stamp.end() :])
    row = next(((row, got) for row, got in rows_matching(line.text) if row.mode in _MODES), None)
    if row is None:
        return None
    where = behind["host"] if behind and behind["host"] else host
    sign = sighting_of(*row, line, "", host=where or "", index=BEFORE_ALL_LINES, time=None)
    time, day = _time(raw), _day_of_year(raw)
    if time is None and day is not None:
        return replace(sign, vague=True, clock=_WITHOUT_YEAR, time=day)
    return replace(sign, vague=True, clock=CLOCK if time is not None else None, time=time)


def _day_of_year(raw: str) -> float | None:
    """When in its year, where a line has syslog's date: in the host's own time, which is taken for UTC."""
    match = _SYSLOG.match(raw)
    if match is None:
        return None
    try:
        moment = datetime.strptime(f"{_LEAP_YEAR} {match[1]}", "%Y %b %d %H:%M:%S")
    except ValueError:
        return None
    return (moment - datetime(_LEAP_YEAR, 1, 1)).total_seconds()


def _dated(sign: Sighting, near: float | None) -> Sighting:
    """A sign with its year, that of the date nearest to `near` (seconds since the epoch)."""
    if sign.clock != _WITHOUT_YEAR or sign.time is None:
        return sign
    if near is None:
        return replace(sign, clock=None, time=None)
    told = datetime(_LEAP_YEAR, 1, 1, tzinfo=UTC) + timedelta(seconds=sign.time)
    years = datetime.fromtimestamp(near, UTC).year
    dates = []
    for year in (years - 1, years, years + 1):
        with suppress(ValueError):  # the 29th of February
            dates.append(told.replace(year=year).timestamp())
    return replace(sign, clock=CLOCK, time=min(dates, key=lambda date: abs(date - near), default=None))


def _time(raw: str) -> float | None:
    """When, in seconds since the epoch; None where the line does not tell. `dmesg -T` prints the host's own
    time, which is taken for UTC, as on SageMaker's."""
    try:
        if match := _CTIME.match(raw):
            return datetime.strptime(match[1], "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC).timestamp()
        if match := _ISO.match(raw):
            return datetime.fromisoformat(match[1] + match[2].replace("Z", "+00:00")).timestamp()
    except ValueError:
        return None
    return None


# What the driver knows of the health of its GPUs: the text of `nvidia-smi -q`.
#
# Texts: drivers 450 to 580, which call the counters of Pascal and Volta "Double Bit" and "Retired Pages",
# and those of Ampere and later "Uncorrectable" and "Remapped Rows". Volatile counters begin anew when the
# driver is loaded, so they are of this host's present life; aggregate ones are of the GPU's. Why clocks are
# held down stands in "Clocks Event Reasons" (of older ones "Clocks Throttle Reasons"), and newer ones count
# for how long since the driver was loaded ("Counters"). A slow GPU holds up all ranks and ends none: it is
# only told.


_TITLE = b"=NVSMI LOG="
_GPU = re.compile(r"^GPU (?P<gpu>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_LONGEST_FIELD = 300
_MOST_GPUS = 64
_UNCORRECTABLE = re.compile(r"Uncorrectable(?! Error)|Double Bit|DRAM Uncorrectable|SRAM Uncorrectable")
_LOST = re.compile(r"GPU is lost|Unknown Error|GPU requires reset", re.I)
_HELD_DOWN = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")
"""Reasons for low clocks that are no setting's: of the hardware, or of the driver for the GPU's heat."""

_COUNTERS = "Clocks Event Reasons Counters"
_COUNTED = ("HW Thermal Slowdown", "HW Power Braking", "SW Thermal Slowdown")
_LONG_HELD = 600
"""Seconds of it in the life of a driver from which on it is reported."""
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
    return FileEvidence(of_hosts=tuple(sign for gpu in _gpus(text) for sign in _signs_of_gpus(gpu, host)))


def _gpus(text: str) -> list[_GpuText]:
    found: list[_GpuText] = []
    sections: list[tuple[int, str]] = []
    for raw in text.splitlines():
        line = raw[:_LONGEST_FIELD].rstrip()
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
def _signs_of_gpus(gpu: _GpuText, host: str | None) -> Iterator[Sighting]:
    if any(_LOST.search(value) for value in gpu.fields.values()):
        yield sign_of_gpu(
            hardware.GPU_FAULT, LineRole.INITIATOR, f"GPU {gpu.place} is lost to its driver", gpu.place, host
        )
    count = _count(gpu.fields, "Volatile")
    if count:
        text = f"GPU {gpu.place} met {count} errors of its memory that could not be corrected"
        yield sign_of_gpu(hardware.ECC_ERROR, LineRole.INITIATOR, text, gpu.place, host)
    if _is_set(gpu.fields, "Remapped Rows", "Remapping Failure Occurred"):
        text = f"GPU {gpu.place} has no row left in place of a broken one (remapping failed)"
        yield sign_of_gpu(hardware.ECC_ERROR, LineRole.INITIATOR, text, gpu.place, host)
    for section, name in _WAITS_FOR_RESET:
        if _is_set(gpu.fields, section, name):
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


def _is_set(fields: Mapping[tuple[str, ...], str], section: str, name: str) -> bool:
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


# Samples of GPUs' clocks, and why they are low: the CSV of `nvidia-smi --query-gpu=... --format=csv`.
#
# Columns: `nvidia-smi --help-query-gpu`, `clocks_event_reasons.hw_slowdown` and its like, of older drivers
# `clocks_throttle_reasons`. The bits of `clocks_event_reasons.active` are NVML's (nvml.h). Settings, idle
# clocks and caps of power are left out: they hold down any GPU. What is left holds up all ranks and ends
# none, so it is only told.


_REASON = re.compile(rb"\bclocks_(?:event|throttle)_reasons\.\w")
_COLUMN = re.compile(r"^clocks_(?:event|throttle)_reasons\.(?P<reason>\w{1,40})$")
_BITS = {
    0x8: "hw_slowdown",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
}
_GPU_COLUMN = ("index", "pci.bus_id", "gpu_bus_id", "uuid", "gpu_uuid")
"""Columns that tell which GPU a sample is of; without one all samples are of one."""

_LONGEST_SAMPLE = 4000
_MOST_SAMPLED_GPUS = 64
_OFTEN = 0.05
"""The part of its samples in which a GPU is held down from which on it is reported."""


def is_clock_samples(head: bytes) -> bool:
    """Whether a file's first line names the columns of such samples."""
    first = head.partition(b"\n")[0]
    return b"," in first and _REASON.search(first) is not None


def read_clock_samples(text: str, host: str | None = None) -> FileEvidence:
    """Which GPUs of a host were slowed down, and in how many of their samples."""
    first, _, rest = text.partition("\n")
    names = [name.partition("[")[0].strip() for name in first[:_LONGEST_SAMPLE].split(",")]
    samples: Counter[str] = Counter()
    held: dict[str, Counter[str]] = {}
    for line in rest.splitlines():
        values = [value.strip() for value in line[:_LONGEST_SAMPLE].split(",")]
        if len(values) != len(names) or values == names:
            continue  # A query that goes on writes its columns again when it is started anew.
        gpu = next((values[names.index(name)] for name in _GPU_COLUMN if name in names), "")
        if gpu not in samples and len(samples) >= _MOST_SAMPLED_GPUS:
            continue
        samples[gpu] += 1
        held.setdefault(gpu, Counter()).update(set(_reasons(names, values)))
    return FileEvidence(of_hosts=tuple(_signs_of_samples(samples, held, host)))


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
def _signs_of_samples(
    samples: Counter[str], held: dict[str, Counter[str]], host: str | None
) -> Iterator[Sighting]:
    for gpu, count in samples.items():
        often = [(reason, times) for reason, times in held[gpu].items() if times >= _OFTEN * count]
        if not often:
            continue
        told = ", ".join(f"{reason} in {times} of {count} samples" for reason, times in sorted(often))
        name = f"GPU {gpu}" if gpu else "a GPU"
        what = f"{name} was slowed down: {told}"
        yield sign_of_gpu(hardware.GPU_FAULT, LineRole.ADVISORY, what, gpu, host)
