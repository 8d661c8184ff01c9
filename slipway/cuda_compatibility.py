"""CUDA's compatibility library, which an image carries for drivers that are older than its CUDA.

The images' own start script, in whose place the boot starts, puts it on LD_LIBRARY_PATH where the host's
driver is older than the library (start_cuda_compat.sh of AWS's deep-learning-containers).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path("/usr/local/cuda/compat")
"""Where the images carry it."""

DRIVER = Path("/proc/driver/nvidia/version")
"""What the loaded driver says of itself."""

_LIBRARY = "libcuda.so.1"
_OF_DRIVER = re.compile(r"^NVRM version:.*? (\d+\.\d+[.\d]*) ", re.MULTILINE)
_OF_LIBRARY = re.compile(r"^libcuda\.so\.(\d+\.\d+[.\d]*)$")


def with_compatibility(
    environment: Mapping[str, str], folder: Path = FOLDER, driver: Path = DRIVER
) -> dict[str, str]:
    """The environment with the image's library in front, where the driver of this host needs it."""
    carried = _OF_LIBRARY.match((folder / _LIBRARY).resolve().name)
    found = _OF_DRIVER.search(_text(driver))
    if carried is None or found is None or is_loaded(environment, folder):
        return dict(environment)
    if not is_older(found[1], carried[1]):
        return dict(environment)
    print(
        f"slipway: the driver {found[1]} is older than this image's CUDA, whose library for it "
        f"({carried[1]}) is put in front: {folder}",
        flush=True,
    )
    paths = [str(folder), environment.get("LD_LIBRARY_PATH", "")]
    return {**environment, "LD_LIBRARY_PATH": os.pathsep.join(path for path in paths if path)}


def is_loaded(environment: Mapping[str, str], folder: Path = FOLDER) -> bool:
    """Whether programs in this environment load the image's library instead of the driver's."""
    return str(folder) in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep)


def is_older(driver: str, library: str) -> bool:
    """Whether a version comes before another, number by number: 535.183.01 before 550.54.15."""
    return [int(part) for part in driver.split(".")] < [int(part) for part in library.split(".")]


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
