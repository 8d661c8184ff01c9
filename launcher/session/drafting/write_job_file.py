"""A job file is written where there is none: nothing is written over."""

from __future__ import annotations

import os
from pathlib import Path

from launcher.failure_modes.model import Refusal


def write_job_file(file: Path, text: str) -> None:
    """Write a new job file. Raises Refusal where there is one, or none can be written."""
    check_is_new(file)
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        raise Refusal(
            f"{file} cannot be written: {error.strerror}.", "Give another place: --file PATH"
        ) from error


def check_is_new(file: Path) -> None:
    """Raise Refusal where there is a file already: nothing is written over."""
    if os.path.lexists(file):
        raise Refusal(
            f"{file} is there already, and would be written over.",
            "Give another place with --file PATH, or move it away.",
        )
