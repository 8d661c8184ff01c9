"""Why a local job failed: the reports of its hosts' boots, and what speaks where one left none."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.backends.local.hosts import Host
from launcher.documents.files import read_regular
from launcher.failure_modes import disk, hardware
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Symptom

FULL_BELOW_BYTES = 64 * 1024
"""A disk with less room counts as full: no report, log line or status can be relied on to fit."""

_WITHOUT_A_REPORT = len(Symptom) + 1
"""Weaker evidence than any symptom: a host whose boot wrote nothing."""

_REPORT_BYTES = 64 * 1024
"""More than a report ever has (slipway/failure.py writes 980 characters)."""


@dataclass(frozen=True, slots=True)
class HostEnd:
    """How a host's boot ended: its exit code (negative for a signal) and when it was seen."""

    host: Host
    exit_code: int
    time: float


def failure_reason(ends: Iterable[HostEnd]) -> str:
    """The failure reason of a job, in the service's form, from the host that failed first.

    A host with a mere symptom loses against any other, one that left no report against any that did.
    """
    candidates = [_candidate(end) for end in ends if end.exit_code != 0]
    _, text, end = min(candidates, key=lambda candidate: candidate[0])
    code = 128 - end.exit_code if end.exit_code < 0 else end.exit_code
    return f"AlgorithmError: {text}, exit code: {code}"


def disk_is_full(folder: Path) -> bool:
    """Whether next to nothing can be written to the disk of a folder any more."""
    try:
        return shutil.disk_usage(folder).free < FULL_BELOW_BYTES
    except OSError:
        return False


def disk_full(folder: Path) -> str:
    """What to say of the full disk of a folder, with the code first as in the boot's reports."""
    return (
        f"{disk.DISK_FULL.code} the disk of {folder} is full (No space left on device): free some of it, "
        f"such as old runs in {folder.parent}, or launch from a folder on another disk"
    )


def _candidate(end: HostEnd) -> tuple[tuple[int, float], str, HostEnd]:
    try:
        text = read_regular(end.host.failure, _REPORT_BYTES).decode("utf-8", "replace")
        # The boot gives its report the time of the failure itself.
        when = end.host.failure.stat().st_mtime
    except OSError:
        text, when = "", end.time
    if text:
        mode = CATALOGUE.get(text.split(" ", 1)[0])
        return (mode.weakness if mode else 0, when), text, end
    if end.exit_code == -9:
        code, host = hardware.HOST_OUT_OF_MEMORY.code, end.host.name
        text = f"{code} {host}: the boot was killed by SIGKILL: the usual reason is host memory"
        return (0, end.time), text, end
    if disk_is_full(end.host.folder):
        return (_WITHOUT_A_REPORT, end.time), disk_full(end.host.job_folder), end
    text = f"{end.host.name}: the boot ended without a report; {end.host.log} shows what it printed"
    return (_WITHOUT_A_REPORT, end.time), text, end
