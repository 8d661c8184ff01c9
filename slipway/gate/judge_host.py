"""Judges one host: its GPUs by what the driver's own tools print, and what it can store and read.

Also what a finding of the gate is, and in which order findings count.

Fields of `nvidia-smi -q -x`, as drivers 515, 525, 535 and 580 print them. Which Xids need a reset or
another host: NVIDIA's Xid documentation (docs.nvidia.com/deploy/xid-errors) and SageMaker's node health
checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from slipway.gate.probe_host import Look, Nvidia, file_system_of

# What the gate finds on the hosts, and what it could not find out.


ORDER = (
    "HW001", "HW002", "IMG002", "FSX005", "S3002", "S3001", "DISK001", "CKPT007", "DIST003", "NCCL008",
    "NCCL007", "EFA007", "EFA005", "DATA005", "DIST001", "MEM003", "",
)  # fmt: skip
"""The worst first: what is wrong on a host by itself is the cause of what is wrong between hosts."""


@dataclass(frozen=True)
class HostFinding:
    """Something wrong on `host`: the failure mode's code, or none, and a sentence with what was measured.

    `ends` is whether the job would fail or stand still; else it may go on, and is told.
    """

    code: str
    host: str
    text: str
    ends: bool = True

    @property
    def sentence(self) -> str:
        """The finding as a sentence, the same on all hosts."""
        return f"{self.code} {self.host}: {self.text}".strip()


@dataclass(frozen=True)
class Report:
    """What one host found, and what it could not find out, each with the reason."""

    findings: tuple[HostFinding, ...] = ()
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Report) -> Report:
        return Report(self.findings + other.findings, self.unknown + other.unknown)

    def as_json(self) -> dict[str, Any]:
        """What the other hosts are told."""
        return {
            "findings": [[one.code, one.host, one.text, one.ends] for one in self.findings],
            "unknown": list(self.unknown),
        }


def report_from_json(told: Mapping[str, Any]) -> Report:
    """A report as another host told it."""
    findings = tuple(
        HostFinding(str(code), str(host), str(text), bool(ends))
        for code, host, text, ends in told["findings"]
    )
    return Report(findings, tuple(map(str, told["unknown"])))


def worst_first(findings: Iterable[HostFinding], hosts: Sequence[str]) -> list[HostFinding]:
    """All findings in one order, whichever host asks: what ends the job first, then by ORDER and by host."""
    return sorted(
        findings,
        key=lambda one: (not one.ends, ORDER.index(one.code), hosts.index(one.host), one.text),
    )


# The GPUs of a host.


IN_USE_MEGABYTES = 1024.0
"""MiB: idle GPUs show 0 to 22 in recorded texts, and a display server or a monitor some hundred."""

_MEMORY_XIDS = frozenset({48, 64, 95, 140})
_FAULT_XIDS = frozenset({54, 62, 74, 79, 109, 110, 119, 120, 136, 143, 151, 155, 156, 158, 168})
_XID = re.compile(r"NVRM: Xid \(PCI:(?P<gpu>[0-9a-fA-F:.]{1,20})\): (?P<xid>\d{1,4}),(?P<what>.{0,160})")
_NO_DRIVER = ("couldn't communicate with the NVIDIA driver", "Driver/library version mismatch")
_LOST = ("GPU is lost", "Unable to determine the device handle", "fallen off the bus", "Unknown Error")
_OTHER_HOST = "Start the job again on other hosts, and give AWS Support the job's ARN and this host"


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver sees it: MiB in use and in all, errors since the driver was loaded.

    None is what this driver does not say. `repairs` are what waits for a reset or cannot be mended.
    """

    place: str
    name: str
    uuid: str
    used: float | None
    total: float | None
    uncorrectable: int | None
    repairs: tuple[str, ...]
    recovery: str | None


@dataclass(frozen=True)
class Driver:
    """The driver's version, the newest CUDA that it runs, and its GPUs."""

    version: str
    cuda: str
    gpus: tuple[Gpu, ...]


def read_driver(xml: str) -> Driver:
    """Read what `nvidia-smi -q -x` printed.

    Raises ValueError where that is something else.
    """
    start, end = xml.find("<nvidia_smi_log>"), xml.find("</nvidia_smi_log>")
    if start < 0 or end < 0:
        raise ValueError("no nvidia_smi_log")
    try:
        # Without the lines above it: no document type, so no entities.
        log = ElementTree.fromstring(xml[start : end + len("</nvidia_smi_log>")])
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
    gpus = tuple(_parse_gpu(each) for each in log.findall("gpu"))
    return Driver(log.findtext("driver_version", ""), log.findtext("cuda_version", ""), gpus)


def judge_gpus(host: str, nvidia: Nvidia, processes: int, torch_cuda: str | None) -> Report:
    """Judge a host's GPUs for so many processes and for the CUDA that torch was built with."""
    if not nvidia.present:
        return Report()
    unknown = tuple(f"{reason} on {host}" for reason in nvidia.reasons)
    found = list(_judge_kernel_log(host, nvidia.kernel_log or ""))
    if nvidia.smi is None:
        return Report(tuple(found), unknown)
    if nvidia.smi.exit_code is None:
        text = "nvidia-smi does not answer: a GPU or its driver hangs, and so would the ranks"
        return Report((*found, HostFinding("HW002", host, f"{text}. {_OTHER_HOST}")), unknown)
    try:
        driver = read_driver(nvidia.smi.output)
    except ValueError:
        found += _judge_smi_refusal(host, nvidia.smi.output)
        said = " ".join(nvidia.smi.output.split())[:160]
        return Report(
            tuple(found), (*unknown, *(() if found else (f"the GPUs of {host} ({said or 'no text'})",)))
        )
    gpus = visible_gpus(driver.gpus, nvidia.visible)
    for gpu in gpus:
        found += _judge_hardware(host, gpu)
        found += _judge_memory_in_use(host, gpu)
    found += _judge_device_count(host, len(gpus), processes)
    found += () if nvidia.has_compatibility else _judge_cuda(host, driver, torch_cuda)
    unread = [gpu.place for gpu in gpus if gpu.uncorrectable is None]
    ecc = (f"memory errors of the GPUs {', '.join(unread)} on {host} (they count none)",) if unread else ()
    return Report(tuple(found), (*unknown, *ecc))


def visible_gpus(gpus: Sequence[Gpu], visible: str | None) -> list[Gpu]:
    """Those that CUDA_VISIBLE_DEVICES leaves, which names them by number or UUID and ends at the first that
    does not exist (CUDA programming guide)."""
    if visible is None:
        return list(gpus)
    left = []
    for word in visible.split(","):
        name = word.strip()
        by_number = [gpus[int(name)]] if name.isdigit() and int(name) < len(gpus) else []
        chosen = by_number or [gpu for gpu in gpus if name and gpu.uuid.startswith(name)]
        if not chosen:
            break
        left += chosen[:1]
    return left


def torch_cuda_of(version_file: str) -> str | None:
    """The CUDA that torch was built with, by its version.py; None for a torch without CUDA."""
    found = re.search(r"^cuda(?:: [^=\n]{0,40})? = ['\"](\d+\.\d+)", version_file, re.MULTILINE)
    return found[1] if found else None


def _parse_gpu(node: ElementTree.Element) -> Gpu:
    volatile = node.find("ecc_errors/volatile")
    counts = [] if volatile is None else [each.text for each in volatile if "_uncorrectable" in each.tag]
    # Up to driver 5xx and before Volta: corrected errors are single_bit, the others double_bit.
    counts += [node.findtext("ecc_errors/volatile/double_bit/total")]
    known = [int(text) for text in counts if text and text.strip().isdigit()]
    waiting = {
        "remapped_rows/remapped_row_failure": "rows of its memory could not be remapped",
        "remapped_rows/remapped_row_pending": "rows of its memory wait for a reset to be remapped",
        "retired_pages/pending_retirement": "pages of its memory wait for a reset to be retired",
        "retired_pages/pending_blacklist": "pages of its memory wait for a reset to be retired",
        "ecc_errors/channel_repair_pending": "a channel of its memory waits for repair",
        "ecc_errors/unrepairable_memory": "its memory cannot be repaired",
    }
    repairs = dict.fromkeys(what for path, what in waiting.items() if node.findtext(path) == "Yes")
    recovery = node.findtext("gpu_recovery_action")
    return Gpu(
        place=node.get("id", "?"),
        name=node.findtext("product_name", "GPU"),
        uuid=node.findtext("uuid", ""),
        used=_parse_mebibytes(node.findtext("fb_memory_usage/used")),
        total=_parse_mebibytes(node.findtext("fb_memory_usage/total")),
        uncorrectable=sum(known) if known else None,
        repairs=tuple(repairs),
        recovery=None if recovery in (None, "None", "N/A") else recovery,
    )


def _parse_mebibytes(text: str | None) -> float | None:
    number, _, unit = (text or "").partition(" ")
    return float(number) if unit == "MiB" and number.isdigit() else None


def _judge_hardware(host: str, gpu: Gpu) -> Iterator[HostFinding]:
    which = f"GPU {gpu.place} ({gpu.name})"
    if gpu.repairs:
        yield HostFinding("HW001", host, f"{which}: {'; '.join(gpu.repairs)}. {_OTHER_HOST}")
    elif gpu.uncorrectable:
        text = f"{which} counts {gpu.uncorrectable} uncorrectable memory errors since its driver was loaded"
        yield HostFinding("HW001", host, f"{text}. {_OTHER_HOST}")
    elif gpu.recovery is not None:
        yield HostFinding("HW002", host, f"{which}: the driver asks for '{gpu.recovery}'. {_OTHER_HOST}")


def _judge_memory_in_use(host: str, gpu: Gpu) -> Iterator[HostFinding]:
    if gpu.used is None or not gpu.total or gpu.used < IN_USE_MEGABYTES:
        return
    text = (
        f"{gpu.used:.0f} of {gpu.total:.0f} MiB of GPU {gpu.place} ({gpu.name}) are in use before the job's "
        "own processes start: they will have less, and run out of memory sooner than elsewhere"
    )
    yield HostFinding("MEM003", host, text, ends=False)


def _judge_device_count(host: str, devices: int, processes: int) -> Iterator[HostFinding]:
    if processes > devices > 0:
        text = f"{processes} processes for {devices} GPUs: NCCL refuses two ranks on one device"
        yield HostFinding("DIST003", host, f"{text}. Set `distribution.processes_per_host` to {devices}")
    elif 1 < processes < devices:
        text = f"{processes} processes for {devices} GPUs: {devices - processes} of them would be idle"
        yield HostFinding("DIST001", host, text, ends=False)


def _judge_cuda(host: str, driver: Driver, torch_cuda: str | None) -> Iterator[HostFinding]:
    """A driver runs programs of its own CUDA's major version and of older ones (CUDA compatibility guide)."""
    if torch_cuda is None or not driver.cuda.partition(".")[0].isdigit():
        return
    if int(torch_cuda.partition(".")[0]) > int(driver.cuda.partition(".")[0]):
        text = (
            f"torch is built for CUDA {torch_cuda}, and driver {driver.version} runs CUDA {driver.cuda} at "
            "most, and the image carries no library that bridges it: no rank could use its GPU. Take an "
            "image for this CUDA, or an instance type with a newer driver"
        )
        yield HostFinding("IMG002", host, text)


def _judge_smi_refusal(host: str, output: str) -> list[HostFinding]:
    said = " ".join(output.split())[:200]
    if any(text in output for text in _NO_DRIVER):
        return [HostFinding("IMG002", host, f"nvidia-smi says: {said}. {_OTHER_HOST}")]
    if any(text in output for text in _LOST):
        return [HostFinding("HW002", host, f"nvidia-smi says: {said}. {_OTHER_HOST}")]
    return []


def _judge_kernel_log(host: str, text: str) -> list[HostFinding]:
    """The first Xid that speaks of a broken GPU; 13, 31, 43 and 45 come from programs."""
    for match in _XID.finditer(text):
        xid = int(match["xid"])
        if xid in _MEMORY_XIDS | _FAULT_XIDS:
            code = "HW001" if xid in _MEMORY_XIDS else "HW002"
            what = f"the kernel's log has Xid {xid} on GPU {match['gpu']} ({match['what'].strip()})"
            return [HostFinding(code, host, f"{what}. {_OTHER_HOST}")]
    return []


# What a host can store and read: disk, shared memory, channels, the checkpoints' folder.


LEAST_FREE = 256 * 1024 * 1024
"""Bytes: what the boot itself keeps of 8 ranks' output, 16 MB each, twice."""

LITTLE_FREE = 5 * 1024**3
"""Bytes: less than a model of 400 million parameters takes with Adam's state in single precision."""

LEAST_SHARED = 64 * 1024 * 1024
"""Bytes that Docker gives a container without --shm-size; less than that somebody has chosen."""

LITTLE_SHARED = 1024**3
"""Bytes: 4 workers with 2 batches each of 128 images of 224 x 224 x 3 bytes take 150 MB, as floats 600 MB."""

_ON_NETWORK = ("lustre", "nfs", "nfs4", "efs", "fsx")
_FULL = ("ENOSPC", "EDQUOT")


@dataclass(frozen=True)
class AskedFolders:
    """The folders that were asked about, by what they are for."""

    channels: Mapping[str, str]
    checkpoints: str
    disks: Sequence[str]
    shared_memory: str


def judge_storage(host: str, asked: AskedFolders, look: Look, mounts: str) -> Report:
    """Judge the answers of `slipway/gate/look.py`. What was not answered in time blocks, and would do so in
    the ranks."""
    if look.trouble is not None:
        return Report((), (f"{host}'s folders ({look.trouble})",))
    found: list[HostFinding] = []
    for name, path in asked.channels.items():
        found += _judge_channel(host, name, path, look, mounts)
    found += _judge_checkpoints_folder(host, asked.checkpoints, look, mounts)
    rooms = [(path, look.answers.get(("room", path))) for path in asked.disks]
    # Several folders of one disk are one finding.
    disks = {room["disk"]: (path, room) for path, room in rooms if room and "error" not in room}
    for path, room in disks.values():
        found += _judge_disk(host, path, room)
    found += _judge_shared_memory(host, asked.shared_memory, look.answers.get(("room", asked.shared_memory)))
    unknown = [
        f"the room of {path} on {host} ({'no answer' if room is None else room['reason']})"
        for path, room in rooms
        if room is None or "error" in room
    ]
    return Report(tuple(found), tuple(unknown))


def bytes_in_words(count: float) -> str:
    """A number of bytes as people read it."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _judge_channel(host: str, name: str, path: str, look: Look, mounts: str) -> Iterator[HostFinding]:
    answer = look.answers.get(("read", path))
    kind, point = file_system_of(path, mounts)
    on_network = kind.startswith(_ON_NETWORK)
    code = "FSX005" if on_network else "S3002"
    what = f"the channel {name} at {path}" + (f" (the {kind} mount {point})" if on_network else "")
    if answer is None:
        text = f"{what} did not answer within {look.seconds:.0f} s: every rank that reads it would block"
        yield HostFinding("FSX005", host, f"{text}. {_REMEDIES['FSX005']}")
    elif "error" in answer:
        text = f"{what} cannot be read: {answer['reason']} ({answer['error']})"
        yield HostFinding(code, host, f"{text}. {_REMEDIES[code]}")
    elif not answer["entries"]:
        code = "FSX005" if on_network else "S3001"
        text = f"{what} is empty: the ranks would find no data there. {_REMEDIES[code]}"
        yield HostFinding(code, host, text, ends=False)


_REMEDIES = {
    "FSX005": "See that the file system is AVAILABLE and the ports of Lustre are open (FSX001, FSX004), and "
    "that the directory is there",
    "S3001": "See that the prefix holds objects, and that they are shared out to every host",
    "S3002": "See that the execution role may list the bucket and read its objects",
}


def _judge_checkpoints_folder(host: str, path: str, look: Look, mounts: str) -> Iterator[HostFinding]:
    answer = look.answers.get(("write", path))
    kind, _ = file_system_of(path, mounts)
    if answer is None:
        yield HostFinding(
            "FSX005",
            host,
            f"the checkpoints' folder {path} ({kind or 'an unknown file system'}) did not answer within "
            f"{look.seconds:.0f} s: every rank that saves would block. {_REMEDIES['FSX005']}",
        )
    elif answer.get("error") in _FULL:
        yield HostFinding(
            "DISK001",
            host,
            f"nothing can be written to the checkpoints' folder {path}: {answer['reason']}. Delete what is "
            "not needed, or raise `resources.volume_size_gb`",
        )
    elif "error" in answer:
        code = "FSX005" if kind.startswith(_ON_NETWORK) else "CKPT007"
        yield HostFinding(
            code,
            host,
            f"the checkpoints' folder {path} cannot be written: {answer['reason']} ({answer['error']}), so "
            "the job would have nothing to resume from. Give `checkpoint.local_path` a folder that this "
            "container's user may write",
        )


def _judge_disk(host: str, path: str, room: Mapping[str, Any]) -> Iterator[HostFinding]:
    free, size = int(room["free"]), int(room["bytes"])
    if not size:
        return
    measured = f"{bytes_in_words(free)} of {bytes_in_words(size)} are free on the disk of {path}"
    remedy = "Raise `resources.volume_size_gb`, or read the data with FastFile or from Lustre"
    if free < LEAST_FREE:
        yield HostFinding("DISK001", host, f"{measured}, too little for logs and checkpoints. {remedy}")
    elif room["files"] and not room["free_files"]:
        text = f"no file can be made on the disk of {path}: all {room['files']} inodes are taken"
        yield HostFinding("DISK001", host, f"{text}. Delete what is not needed")
    elif free < LITTLE_FREE:
        yield HostFinding("DISK001", host, f"{measured}: checkpoints may fill it. {remedy}", ends=False)


def _judge_shared_memory(host: str, path: str, room: Mapping[str, Any] | None) -> Iterator[HostFinding]:
    if room is None or "error" in room:
        reason = "no answer" if room is None else room["reason"]
        text = f"{path} cannot be asked ({reason}), through which DataLoader workers and NCCL pass their data"
        yield HostFinding("DATA005", host, text)
        return
    size, free = int(room["bytes"]), int(room["free"])
    if size >= LITTLE_SHARED and free >= LEAST_SHARED:
        return
    text = (
        f"{path} has {bytes_in_words(size)}, {bytes_in_words(free)} of them free: DataLoader workers pass "
        "batches through it, NCCL its data between the GPUs of a host, and both die where it is full. Start "
        "the container with a larger one (`--shm-size`), or set num_workers to 0"
    )
    yield HostFinding("DATA005", host, text, ends=free < LEAST_SHARED)
