"""Files that people name or leave lying about, read as what they are: regular ones only, and never endlessly.

Whoever opens a named pipe waits for somebody to write into it, and /dev/zero never ends.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launcher.frozen import frozen

_KINDS = (
    (stat.S_ISDIR, "it is a folder, not a file"),
    (stat.S_ISFIFO, "it is a pipe, not a regular file"),
    (stat.S_ISSOCK, "it is a socket, not a regular file"),
)


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading.

    Raises OSError with a `strerror` that tells what is in the way: for what is not a regular file, which is
    not opened at all, and for a path that cannot be one.
    """
    try:
        _check_kind(path, path.stat().st_mode)
        # It may have been replaced since, and opening a pipe would wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    try:
        _check_kind(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def file_mode(path: Path) -> int:
    """What lies there (`st_mode`, links followed); 0 for nothing, and for a name that no file can have.

    pathlib's own questions raise OSError for a name that is too long.
    """
    try:
        return path.stat().st_mode
    except (OSError, ValueError):
        return 0


def read_regular(path: Path, most: int) -> bytes:
    """The first bytes of a regular file, `most` of them at most. Raises OSError as `open_regular`."""
    with open_regular(path) as file:
        return file.read(most)


def replace_file(path: Path, text: str) -> None:
    """Write a file at once or not at all, for the user's eyes only; its folder is created where it lacks.

    Raises OSError, and then leaves what was there before.
    """
    import tempfile  # here, as the libraries below: most commands write no files

    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise


def remove_old_files(folder: Path, pattern: str, seconds: float) -> None:
    """Remove the files of a folder that nobody has written for so many seconds."""
    for file in folder.glob(pattern):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > seconds:
                file.unlink()


@frozen
class NoteFolder:
    """Small JSON files by the names of jobs in the folder that `place` gives, removed when they are old."""

    place: Callable[[], Path]
    kept_seconds: float
    most_bytes: int = 10_000_000

    def write(self, name: str, text: str | None) -> None:
        """Keep the note on a job, with None none, and remove old ones. A machine that cannot goes without."""
        with contextlib.suppress(OSError):
            folder = self.place()
            remove_old_files(folder, "*.json", self.kept_seconds)
            if text is not None:
                replace_file(folder / f"{name}.json", text)

    def read(self, name: str) -> Any:
        """What a note says. Raises OSError or ValueError where there is none that can be read."""
        return json.loads(read_regular(self.place() / f"{name}.json", self.most_bytes))


def _check_kind(path: Path, mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    problem = next((words for test, words in _KINDS if test(mode)), "it is a device, not a regular file")
    raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, problem, str(path))


def cache_folder() -> Path:
    """The launcher's folder in the user's cache, whether it is there or not: ~/.cache/slipway on Linux.

    Raises FileNotFoundError for a user without a home, as in a container that runs under a foreign id.
    """
    # Only here: most commands need neither the folder nor the library.
    from platformdirs import user_cache_path

    try:
        folder = user_cache_path("slipway", appauthor=False)
    except RuntimeError:
        folder = Path("~")
    # Without a home, `~` is left as it is.
    if not folder.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "this user has no home folder")
    return folder


_SECRET_BYTES = 32
_DIGITS = 2 * _SECRET_BYTES


def user_secret() -> bytes:
    """A secret of this user on this machine, in ASCII, made when first asked for; nobody else can read it.

    A new one each time where the cache's folder cannot be written.
    """
    import secrets

    fresh = secrets.token_hex(_SECRET_BYTES).encode()
    try:
        path = cache_folder() / "secret"
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(fresh)
        kept = read_regular(path, _DIGITS)
    except OSError:
        return fresh
    return kept if len(kept) == _DIGITS else fresh


def relative_to_working_folder(path: Path) -> Path:
    """A path as it is shorter to name: relative below the working folder, else as it is."""
    try:
        here = Path.cwd()
    except OSError:  # The folder is gone; what has a whole path can be read all the same.
        return path
    return path.relative_to(here) if path.is_relative_to(here) else path
