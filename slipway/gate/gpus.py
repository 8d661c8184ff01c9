"""Judges the GPUs of a host by what the driver's own tools print.

Fields of `nvidia-smi -q -x`, as drivers 515, 525, 535 and 580 print them. Which Xids need a reset or another
host: NVIDIA's Xid documentation (docs.nvidia.com/deploy/xid-errors) and SageMaker's node health checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from slipway.gate.findings import HostFinding, Report
from slipway.gate.machine import Nvidia

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
    gpus = tuple(_gpu(each) for each in log.findall("gpu"))
    return Driver(log.findtext("driver_version", ""), log.findtext("cuda_version", ""), gpus)


def judge_gpus(host: str, nvidia: Nvidia, processes: int, torch_cuda: str | None) -> Report:
    """Judge a host's GPUs for so many processes and for the CUDA that torch was built with."""
    if not nvidia.present:
        return Report()
    unknown = tuple(f"{reason} on {host}" for reason in nvidia.reasons)
    found = list(_kernel_log(host, nvidia.kernel_log or ""))
    if nvidia.smi is None:
        return Report(tuple(found), unknown)
    if nvidia.smi.exit_code is None:
        text = "nvidia-smi does not answer: a GPU or its driver hangs, and so would the ranks"
        return Report((*found, HostFinding("HW002", host, f"{text}. {_OTHER_HOST}")), unknown)
    try:
        driver = read_driver(nvidia.smi.output)
    except ValueError:
        found += _no_driver(host, nvidia.smi.output)
        said = " ".join(nvidia.smi.output.split())[:160]
        return Report(
            tuple(found), (*unknown, *(() if found else (f"the GPUs of {host} ({said or 'no text'})",)))
        )
    gpus = visible_gpus(driver.gpus, nvidia.visible)
    for gpu in gpus:
        found += _hardware(host, gpu)
        found += _memory(host, gpu)
    found += _devices(host, len(gpus), processes)
    found += () if nvidia.has_compatibility else _cuda(host, driver, torch_cuda)
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


def _gpu(node: ElementTree.Element) -> Gpu:
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
        used=_mebibytes(node.findtext("fb_memory_usage/used")),
        total=_mebibytes(node.findtext("fb_memory_usage/total")),
        uncorrectable=sum(known) if known else None,
        repairs=tuple(repairs),
        recovery=None if recovery in (None, "None", "N/A") else recovery,
    )


def _mebibytes(text: str | None) -> float | None:
    number, _, unit = (text or "").partition(" ")
    return float(number) if unit == "MiB" and number.isdigit() else None


def _hardware(host: str, gpu: Gpu) -> Iterator[HostFinding]:
    which = f"GPU {gpu.place} ({gpu.name})"
    if gpu.repairs:
        yield HostFinding("HW001", host, f"{which}: {'; '.join(gpu.repairs)}. {_OTHER_HOST}")
    elif gpu.uncorrectable:
        text = f"{which} counts {gpu.uncorrectable} uncorrectable memory errors since its driver was loaded"
        yield HostFinding("HW001", host, f"{text}. {_OTHER_HOST}")
    elif gpu.recovery is not None:
        yield HostFinding("HW002", host, f"{which}: the driver asks for '{gpu.recovery}'. {_OTHER_HOST}")


def _memory(host: str, gpu: Gpu) -> Iterator[HostFinding]:
    if gpu.used is None or not gpu.total or gpu.used < IN_USE_MEGABYTES:
        return
    text = (
        f"{gpu.used:.0f} of {gpu.total:.0f} MiB of GPU {gpu.place} ({gpu.name}) are in use before the job's "
        "own processes start: they will have less, and run out of memory sooner than elsewhere"
    )
    yield HostFinding("MEM003", host, text, ends=False)


def _devices(host: str, devices: int, processes: int) -> Iterator[HostFinding]:
    if processes > devices > 0:
        text = f"{processes} processes for {devices} GPUs: NCCL refuses two ranks on one device"
        yield HostFinding("DIST003", host, f"{text}. Set `distribution.processes_per_host` to {devices}")
    elif 1 < processes < devices:
        text = f"{processes} processes for {devices} GPUs: {devices - processes} of them would be idle"
        yield HostFinding("DIST001", host, text, ends=False)


def _cuda(host: str, driver: Driver, torch_cuda: str | None) -> Iterator[HostFinding]:
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


def _no_driver(host: str, output: str) -> list[HostFinding]:
    said = " ".join(output.split())[:200]
    if any(text in output for text in _NO_DRIVER):
        return [HostFinding("IMG002", host, f"nvidia-smi says: {said}. {_OTHER_HOST}")]
    if any(text in output for text in _LOST):
        return [HostFinding("HW002", host, f"nvidia-smi says: {said}. {_OTHER_HOST}")]
    return []


def _kernel_log(host: str, text: str) -> list[HostFinding]:
    """The first Xid that speaks of a broken GPU; 13, 31, 43 and 45 come from programs."""
    for match in _XID.finditer(text):
        xid = int(match["xid"])
        if xid in _MEMORY_XIDS | _FAULT_XIDS:
            code = "HW001" if xid in _MEMORY_XIDS else "HW002"
            what = f"the kernel's log has Xid {xid} on GPU {match['gpu']} ({match['what'].strip()})"
            return [HostFinding(code, host, f"{what}. {_OTHER_HOST}")]
    return []
