"""Which files a script has finished: closed, and unchanged for some seconds."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from slipway.checkpoints.shelf import step_of

QUIET_SECONDS = 5.0
"""So long a closed file is unchanged before it is copied: scripts write one in several goes."""

_WRITING = os.O_WRONLY | os.O_RDWR


class FileState(NamedTuple):
    """What tells a changed file from an unchanged one: bytes, and the time of its change in nanoseconds."""

    size: int
    changed: int


def files_below(folder: Path) -> dict[str, FileState]:
    """The files in a folder by name, without those of slipway.CheckpointManager; links are not followed."""
    found: dict[str, FileState] = {}
    for place, folders, names in os.walk(folder):
        if Path(place) == folder:
            folders[:] = [name for name in folders if step_of(name) is None]
        for name in names:
            path = Path(place) / name
            try:
                status = path.lstat()
            except OSError:
                continue
            if path.is_symlink() or not path.is_file():
                continue
            found[path.relative_to(folder).as_posix()] = FileState(status.st_size, status.st_mtime_ns)
    return found


class Quiet:
    """Remembers since when each file has been what it is; times are in seconds of one clock."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[FileState, float]] = {}

    def unchanged(self, found: Mapping[str, FileState], now: float, seconds: float) -> list[str]:
        """The files that have been what they are for so many seconds."""
        self._since = {
            name: self._since[name] if self._since.get(name, (None, 0))[0] == one else (one, now)
            for name, one in found.items()
        }
        return [name for name, (_, since) in self._since.items() if now - since >= seconds]


def open_for_writing(folder: Path, processes: Path = Path("/proc")) -> set[str]:
    """The names of the files in a folder that a process has open to write; none where there is no /proc.

    Only processes that this one may look into are seen, as are all that it has started.
    """
    root = f"{os.path.realpath(folder)}/"
    names: set[str] = set()
    for process in _numbers(processes):
        for descriptor in _numbers(processes / process / "fd"):
            try:
                # Path has no readlink before Python 3.9.
                target = os.readlink(str(processes / process / "fd" / descriptor))  # noqa: PTH115
                if target.startswith(root) and _writes(processes / process / "fdinfo" / descriptor):
                    names.add(target[len(root) :])
            except (OSError, ValueError):
                continue
    return names


def _numbers(folder: Path) -> Iterable[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if entry.name.isdigit()]
    except OSError:
        return []


def _writes(information: Path) -> bool:
    """By the line `flags: 0100002`, which is octal (proc(5))."""
    for line in information.read_text().splitlines():
        if line.startswith("flags:"):
            return bool(int(line.split()[1], 8) & _WRITING)
    return False
