"""Old local runs: which of them go, what that frees, and their deletion.

Nothing outside of the project's `.slipway` is ever deleted: where it, or something in it, is a link to
another place, that is left alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from launcher.backends.interface import BackendError, UnknownJob
from launcher.backends.local.overlay import files_beside, is_in_the_making
from launcher.backends.local.processes import busy_jobs
from launcher.backends.local.state_files import UnreadableJob
from launcher.backends.local.store import JobStore
from launcher.session.home import ENVIRONMENTS

UNUSED_SECONDS = 7 * 86_400.0
"""An environment that no kept run was started with goes once it was not used for so long, and at once where
no run is kept; it can be made again."""

_HALF_DELETED = ".deleting-"
"""How the name of what is being deleted begins: no name of a run does, so that a broken deletion leaves
none that looks whole."""


class Kind(StrEnum):
    """What it is that goes."""

    RUN = "run"
    ENVIRONMENT = "environment"
    REMAINS = "remains"
    """Of an earlier deletion that did not come to its end."""


@dataclass(frozen=True, slots=True)
class Old:
    """Something that goes: its folder, what it is, the state of a run, since when it is there, its bytes.

    `created` is in seconds since the epoch. The state of a run that cannot be read is None.
    """

    folder: Path
    kind: Kind
    state: str | None
    created: float
    size: int

    @property
    def name(self) -> str:
        """The name of the run or of the folder."""
        return self.folder.name


@dataclass(frozen=True, slots=True)
class Cleaning:
    """What would go, how many ended runs stay, and which were left alone because they run."""

    goes: tuple[Old, ...]
    kept: int
    running: tuple[str, ...]

    @property
    def size(self) -> int:
        """What that frees, in bytes."""
        return sum(each.size for each in self.goes)


@dataclass(frozen=True, slots=True)
class _Run:
    folder: Path
    state: str | None
    created: float
    environments: tuple[Path, ...] = ()
    """What it was started with, and so is resumed with."""


def plan_cleaning(home: Path, keep: int, now: float | None = None) -> Cleaning:
    """What goes of the local runs in `home` but for the newest `keep` that have ended. Deletes nothing.

    Raises BackendError where `home` cannot be read, or leads out of its project by a link.
    """
    now = time.time() if now is None else now
    _check_no_link(home)
    store, running, ended = JobStore(home), [], []
    busy = busy_jobs(home)
    for name in store.names():
        folder = store.folder(name)
        if folder.is_symlink():
            continue
        with contextlib.suppress(UnknownJob):  # Deleted since.
            run, is_final = _look_at(store, name)
            if is_final and name not in busy:
                ended.append(run)
            else:
                running.append(run)
    ended.sort(key=lambda run: run.created, reverse=True)
    kept, old = ended[:keep], ended[keep:]
    goes = [Old(run.folder, Kind.RUN, run.state, run.created, _size(run.folder)) for run in old]
    goes += _remains(home)
    # Whatever runs may use any of them.
    if not running:
        before = now - UNUSED_SECONDS if keep else now
        goes += _environments(home.parent / ENVIRONMENTS, kept, before)
    return Cleaning(tuple(goes), len(kept), tuple(run.folder.name for run in running))


def delete(old: Old) -> None:
    """Delete it, in a way that an interruption leaves nothing which looks whole.

    Raises OSError where something of it cannot be deleted; what is left goes with the next cleaning.
    """
    place = old.folder
    if not place.name.startswith(_HALF_DELETED):
        place = place.with_name(f"{_HALF_DELETED}{place.name}-{time.time_ns()}")
        with contextlib.suppress(FileNotFoundError):
            old.folder.rename(place)
    if old.kind is Kind.ENVIRONMENT:
        for file in files_beside(old.folder):
            file.unlink(missing_ok=True)
    try:
        shutil.rmtree(place)
    except FileNotFoundError:
        return
    except RecursionError:
        raise OSError(f"its folders are nested too deeply; delete it with: rm -r {place}") from None


def _look_at(store: JobStore, name: str) -> tuple[_Run, bool]:
    folder = store.folder(name)
    try:
        record = store.living_record(name)
    except UnreadableJob:
        return _Run(folder, None, _changed(folder)), True
    used = tuple(path for path in (record.environment, record.python) if path is not None)
    return _Run(folder, record.state.value, record.started, used), record.state.is_final


def _remains(home: Path) -> Iterator[Old]:
    for parent in (home, home.parent / ENVIRONMENTS):
        for folder in _folders(parent):
            if folder.name.startswith(_HALF_DELETED):
                yield Old(folder, Kind.REMAINS, None, _changed(folder), _size(folder))


def _environments(parent: Path, kept: list[_Run], before: float) -> Iterator[Old]:
    for folder in _folders(parent):
        used = any(path.is_relative_to(folder) for run in kept for path in run.environments)
        changed = _changed(folder)
        if used or changed > before or folder.name.startswith(_HALF_DELETED):
            continue
        if not is_in_the_making(folder):
            yield Old(folder, Kind.ENVIRONMENT, None, changed, _size(folder))


def _check_no_link(home: Path) -> None:
    for place in (home.parent, home, home.parent / ENVIRONMENTS):
        if place.is_symlink():
            raise BackendError(
                f"{place} is a link to {os.path.realpath(place)}: nothing is deleted behind it.",
                "Delete there what you do not need.",
            )


def _folders(parent: Path) -> list[Path]:
    """The folders in a folder, none of them a link, in the order of their names."""
    try:
        with os.scandir(parent) as entries:
            return sorted(Path(each.path) for each in entries if each.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _changed(folder: Path) -> float:
    try:
        return folder.lstat().st_mtime
    except OSError:
        return 0.0


def _size(folder: Path) -> int:
    """The bytes of the files below a folder; links count as nothing, and what cannot be read, too."""
    size, open_folders = 0, [str(folder)]
    while open_folders:
        with contextlib.suppress(OSError), os.scandir(open_folders.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        open_folders.append(entry.path)
                    elif stat.S_ISREG((found := entry.stat(follow_symlinks=False)).st_mode):
                        size += found.st_size
    return size
