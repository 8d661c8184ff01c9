"""The file in a job's folder through which other launchers ask the one that runs the job to stop it."""

from __future__ import annotations

from pathlib import Path

from launcher.documents.files import read_regular, replace_file
from launcher.text.controls import without_controls

STOP_FILE = "stop"
"""Its presence asks; its text says who asks."""

_LONGEST = 200


def ask_to_stop(folder: Path, who: str | None) -> None:
    """Ask whoever runs the job in `folder` to stop it. Raises OSError where the file cannot be written."""
    replace_file(folder / STOP_FILE, f"{who or ''}\n")


def is_asked_to_stop(folder: Path) -> bool:
    """Whether somebody asked for it."""
    return (folder / STOP_FILE).exists()


def who_asked(folder: Path) -> str | None:
    """Who did, in one line without controls; None where the file does not say."""
    try:
        text = read_regular(folder / STOP_FILE, _LONGEST).decode("utf-8", "replace")
    except OSError:
        return None
    return without_controls(text.partition("\n")[0]).strip() or None
