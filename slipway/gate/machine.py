"""What this host is like: the one place where its files, folders and tools are asked."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from slipway.cuda_compatibility import is_loaded
from slipway.gate.asking import CommandOutput, asked

LOOK_SECONDS = 10.0
"""A sound mount answers in milliseconds; Lustre under load within a few seconds."""

SMI_SECONDS = 20.0
"""Without persistence the driver initialises each of 8 GPUs first, which takes it about a second each."""

_DMESG_SECONDS = 5.0


@dataclass(frozen=True)
class Look:
    """What came of looking at folders: answers by kind (`read`, `write`, `room`) and path.

    A question without an answer had none within `seconds`; `trouble` says why there is none at all.
    """

    answers: Mapping[tuple[str, str], Mapping[str, Any]]
    seconds: float
    trouble: str | None = None


@dataclass(frozen=True)
class Nvidia:
    """What the driver's own tools say: the XML of `nvidia-smi -q`, the kernel's log, the visible devices.

    `present` is whether there is a driver. What could not be had is None, and `reasons` say why.
    """

    present: bool
    smi: CommandOutput | None = None
    kernel_log: str | None = None
    visible: str | None = None
    reasons: tuple[str, ...] = ()
    has_compatibility: bool = False
    """Whether the ranks load the image's library for older drivers (slipway/cuda_compatibility.py)."""


def look_at(questions: Sequence[tuple[str, Path]], package: Path, seconds: float = LOOK_SECONDS) -> Look:
    """Ask about folders in a child process, which is given up after so many seconds."""
    asks = [[kind, str(path)] for kind, path in questions]
    environment = {"PYTHONPATH": str(package), "PATH": os.environ.get("PATH", os.defpath)}
    try:
        answer = asked(
            [sys.executable, "-S", "-m", "slipway.gate.look", json.dumps(asks)], seconds, environment
        )
    except OSError as error:
        return Look({}, seconds, f"no process could be started: {error.strerror}")
    answers = {}
    for line in answer.output.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            told = json.loads(line)
            answers[told["kind"], told["path"]] = told
    if answer.exit_code not in (0, None):
        return Look(
            answers, seconds, f"looking ended with {answer.exit_code}: {answer.output[-200:].strip()}"
        )
    return Look(answers, seconds)


def file_system_of(path: str, mounts: str) -> tuple[str, str]:
    """The kind and the mount point of what holds a path, by the text of /proc/self/mounts (proc(5))."""
    found, best = "", ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), words[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            found, best = words[2], point
    return found, best


def read_mounts() -> str:
    """The mounts of this process; empty where the system does not tell."""
    with contextlib.suppress(OSError):
        return Path("/proc/self/mounts").read_text(errors="replace")
    return ""


def read_nvidia(environment: Mapping[str, str]) -> Nvidia:
    """Ask the driver, where there is one. A job sees the devices that CUDA_VISIBLE_DEVICES leaves."""
    if not Path("/dev/nvidiactl").exists():
        return Nvidia(False)
    program, reasons = shutil.which("nvidia-smi"), []
    smi = None
    if program is None:
        reasons.append("the GPUs (there is no nvidia-smi)")
    else:
        with contextlib.suppress(OSError):
            smi = asked([program, "-q", "-x"], SMI_SECONDS)
    kernel_log = None
    try:
        kernel = asked(["dmesg"], _DMESG_SECONDS)
        kernel_log = kernel.output if kernel.exit_code == 0 else None
    except OSError:
        pass
    if kernel_log is None:
        reasons.append("the kernel's log (dmesg is not permitted here)")
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    return Nvidia(True, smi, kernel_log, visible, tuple(reasons), is_loaded(environment))


def device_count(environment: Mapping[str, str], folder: Path = Path("/dev")) -> int:
    """How many GPUs a job sees, without asking the driver, which takes seconds."""
    present = sum(1 for file in folder.glob("nvidia[0-9]*") if file.name[6:].isdigit())
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    return min(present, sum(1 for word in visible.split(",") if word.strip() not in ("", "-1")))


def efa_devices(folder: Path = Path("/sys/class/infiniband")) -> tuple[str, ...]:
    """The devices of the host that speak EFA: Amazon's vendor is 0x1d0f."""
    found = []
    with contextlib.suppress(OSError):
        for device in sorted(folder.iterdir()):
            with contextlib.suppress(OSError):
                if (device / "device" / "vendor").read_text().strip() == "0x1d0f":
                    found.append(device.name)
    return tuple(found)


def torch_version(paths: Iterable[str] | None = None) -> str | None:
    """The text of torch's own version.py, found without importing torch; None where torch is not there."""
    found = PathFinder.find_spec("torch", None if paths is None else list(paths))
    if found is None or not found.origin:
        return None
    with contextlib.suppress(OSError):
        return (Path(found.origin).parent / "version.py").read_text(encoding="utf-8", errors="replace")
    return None
