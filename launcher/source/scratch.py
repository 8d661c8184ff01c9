"""Temporary folders for what is packed: gone after use, and found again where a launcher was killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

PREFIX = "slipway-"
"""What the folders' names begin with."""

UNMARKED_SECONDS = 7 * 24 * 3600.0
"""How old a folder without an owner's lock must be to count as left behind: one that is only being made has
none yet, and versions before this one made none."""

_LOCK = ".in-use"


@contextlib.contextmanager
def scratch_folder(purpose: str = "") -> Iterator[Path]:
    """A temporary folder of this process for as long as the context lasts.

    It is locked for as long: however this process ends, the lock ends with it, and the next launcher collects
    the folder. Raises OSError where there is no room for it.
    """
    collect_leftovers()
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{purpose}") as name, _locked(Path(name)):
        content = Path(name) / "content"
        content.mkdir()
        yield content


def collect_leftovers(now: float | None = None) -> list[Path]:
    """Delete the user's own scratch folders whose owner is dead; returns them. Raises nothing.

    A living owner's lock says so, also to launchers in other containers that share the disk. What belongs to
    somebody else, or is a link, is not looked at.
    """
    deleted = []
    now = time.time() if now is None else now
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                if _is_left_behind(folder, now):
                    shutil.rmtree(folder)
                    deleted.append(folder)
    return deleted


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Mark a folder as that of a living process; one on a disk without locks is not marked."""
    with (folder / f"{_LOCK}.new").open("wb") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Only now: a mark without its lock would be taken for that of a dead process.
            Path(lock.name).rename(folder / _LOCK)
        yield


def _is_left_behind(folder: Path, now: float) -> bool:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return False
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return now - found.st_mtime > UNMARKED_SECONDS
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
