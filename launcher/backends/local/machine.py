"""What this machine has for a local run: its Python, its GPUs, its cores."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.backends.local.interpreter import Interpreter, choose_interpreter

LISTING_SECONDS = 30.0
"""For nvidia-smi to list the GPUs; on a machine with a broken driver it may never answer."""


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine as a place for a job; `gpus` are their numbers as CUDA_VISIBLE_DEVICES has them."""

    python: Interpreter
    gpus: tuple[str, ...]
    cores: int


def this_machine(python: str | None, environment: Mapping[str, str]) -> Machine:
    """Look at this machine, with the Python that was given or the one that is chosen without.

    Raises BackendError where what was given is no Python.
    """
    interpreter = choose_interpreter(python, environment)
    return Machine(interpreter, tuple(visible_devices(environment)), os.cpu_count() or 1)


def visible_devices(environment: Mapping[str, str]) -> list[str]:
    """This machine's GPUs, as CUDA_VISIBLE_DEVICES names them, without loading torch."""
    limited = environment.get("CUDA_VISIBLE_DEVICES")
    if limited is not None:
        return [device.strip() for device in limited.split(",") if device.strip()]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        listing = subprocess.run(
            [tool, "--list-gpus"], capture_output=True, text=True, check=False, timeout=LISTING_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    gpus = [line for line in listing.stdout.splitlines() if line.startswith("GPU ")]
    return [str(index) for index in range(len(gpus))]
