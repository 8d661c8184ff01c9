"""Which shared folders this user has launched to from this machine: where runs on Slurm are found by name."""

from __future__ import annotations

import json
import re
from pathlib import Path

from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.login_node import LoginNode
from launcher.text.regular_files import NoteFolder, cache_folder

_KEPT_SECONDS = 365 * 86_400.0
_NOTES = NoteFolder(lambda: cache_folder() / "slurm", _KEPT_SECONDS)
_FOLDERS, _MOST_FOLDERS = "folders", 100
_FOLDER = re.compile(r"(?:\w[\w@.-]*:)?/[^:]*")


def known_backends() -> list[SlurmBackend]:
    """A backend for each shared folder that this user has launched to from this machine."""
    backends = []
    for known in _known_folders():
        host, _, folder = known.rpartition(":")
        backends.append(SlurmBackend(Path(folder), login=LoginNode(host) if host else None))
    return backends


def keep_folder(home: Path, host: str | None = None) -> None:
    """Keep a folder of runs, behind a login node or not, for later commands.

    A machine that can keep nothing goes without.
    """
    known, here = _known_folders(), f"{host}:{home}" if host else str(home)
    if here not in known:
        _NOTES.write(_FOLDERS, json.dumps([here, *known][:_MOST_FOLDERS]))


def _known_folders() -> list[str]:
    try:
        content = _NOTES.read(_FOLDERS)
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(content, list):
        return []
    return [each for each in content if isinstance(each, str) and _FOLDER.fullmatch(each)]
