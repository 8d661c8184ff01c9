"""Paths of the container in what a job is given, as they are on this machine."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from launcher.jobs.container_paths import CONTAINER_ROOT

_PLACE = re.compile(
    # What may stand before a path in a word: its beginning, `--out=`, `a:`, JSON's quotes, `file://`, `-o`.
    r"(?:^|(?<=[\s=:,;|&<>!?\"'`(\[{])|(?<=file://)|(?<=^-[A-Za-z]))"
    rf"{re.escape(CONTAINER_ROOT)}"
    # And what ends the name: /opt/mlx and /opt/ml-data are other folders.
    r"(?=$|[\s/=:,;|&<>!?\"'`)\]}\\])"
)


def below(root: Path, text: str) -> str:
    """The text with /opt/ml replaced by `root`, wherever it begins a path; in longer paths it stays."""
    return _PLACE.sub(lambda _: str(root), text)


def leads_inside(path: str) -> bool:
    """Whether a path of the container is below /opt/ml, also after its `..` are followed."""
    return posixpath.normpath(path).startswith(f"{CONTAINER_ROOT}/")
