"""A folder as the place of checkpoints: what a local run has instead of a prefix on S3."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_HALF = ".uploading"
"""The end of the names under which files are while they are written."""


class Folder:
    """Files below a folder; see `CheckpointPlace`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.progress = 0

    def sizes(self) -> dict[str, int]:
        """The bytes of all files by name."""
        found: dict[str, int] = {}
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder) / name
                if not name.endswith(_HALF) and path.is_file() and not path.is_symlink():
                    found[path.relative_to(self._root).as_posix()] = path.stat().st_size
        return found

    def put(self, files: Mapping[str, Path], until: Callable[[], bool]) -> dict[str, Exception]:
        """Copy files there, one after the other; what failed, by name."""
        failed: dict[str, Exception] = {}
        for name, file in files.items():
            if until():
                failed[name] = TimeoutError("no time was left")
                continue
            try:
                _copy(file, self._root / name)
                self.progress += 1
            except OSError as error:
                failed[name] = error
        return failed

    def get(self, files: Mapping[str, Path]) -> dict[str, Exception]:
        """Copy files from there; what failed, by name."""
        failed: dict[str, Exception] = {}
        for name, file in files.items():
            try:
                _copy(self._root / name, file)
            except OSError as error:
                failed[name] = error
        return failed

    def text(self, name: str, most: int) -> bytes:
        """What a file holds."""
        with (self._root / name).open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"{name} has more than {most} bytes")
        return content

    def changed(self, name: str) -> int | None:
        """When the file was changed that was put there, in nanoseconds."""
        try:
            return (self._root / name).stat().st_mtime_ns
        except OSError:
            return None

    def remove(self, names: Sequence[str]) -> None:
        """Remove files and the folders that are empty then."""
        for name in names:
            file = self._root / name
            try:
                file.unlink()
            except FileNotFoundError:
                continue
            if file.parent != self._root and not any(file.parent.iterdir()):
                file.parent.rmdir()


def _copy(source: Path, target: Path) -> None:
    """All of it or nothing, durably, and with its time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f"{target.name}.{os.getpid()}{_HALF}")
    try:
        with source.open("rb") as read, half.open("wb") as write:
            status = os.fstat(read.fileno())
            shutil.copyfileobj(read, write, 1024 * 1024)
            write.flush()
            os.fsync(write.fileno())
        os.utime(half, ns=(status.st_atime_ns, status.st_mtime_ns))
        half.replace(target)
    except OSError:
        half.unlink() if half.exists() else None
        raise
