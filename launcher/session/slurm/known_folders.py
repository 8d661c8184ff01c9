"""Which shared folders this user has launched to from this machine: where runs on Slurm are found by name."""

from __future__ import annotations

import json
from pathlib import Path

from launcher.backends.slurm.backend import SlurmBackend
from launcher.text.regular_files import NoteFolder, cache_folder

_KEPT_SECONDS = 365 * 86_400.0
_NOTES = NoteFolder(lambda: cache_folder() / "slurm", _KEPT_SECONDS)
_FOLDERS, _MOST_FOLDERS = "folders", 100


def known_backends() -> list[SlurmBackend]:
    """A backend for each shared folder that this user has launched to from this machine."""
    return [SlurmBackend(Path(folder)) for folder in _known_folders()]


def keep_folder(home: Path) -> None:
    """Keep a folder of runs for later commands. A machine that can keep nothing goes without."""
    known = _known_folders()
    if str(home) not in known:
        _NOTES.write(_FOLDERS, json.dumps([str(home), *known][:_MOST_FOLDERS]))


def _known_folders() -> list[str]:
    try:
        content = _NOTES.read(_FOLDERS)
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(content, list):
        return []
    return [each for each in content if isinstance(each, str) and each.startswith("/")]
