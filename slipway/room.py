"""Room for the failure file, taken at the start: the reason must not be lost to a disk that is full at the end."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

BYTES = 4096
"""More than a report ever has: 980 characters (slipway/failure.py) of at most four bytes each."""


class ReservedRoom:
    """A file of its own beside the failure file, since an empty failure file would already be a report.

    `file` is where the failure will be written. Where no room can be taken the job goes on without.
    """

    def __init__(self, file: Path) -> None:
        self._room = file.with_name(f".{file.name}-room")
        with contextlib.suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            # Bytes that are written, as a file system may take room for a hole only when it is filled.
            with self._room.open("wb") as taken:
                taken.write(os.urandom(BYTES))
                taken.flush()
                os.fsync(taken.fileno())

    def become(self, file: Path, content: bytes) -> None:
        """The room is that file now, with this content in place of what filled it.

        Raises OSError where that cannot be, and where no room was taken.
        """
        with self._room.open("r+b") as taken:
            taken.write(content[:BYTES])
            taken.flush()
            taken.truncate()
        os.replace(self._room, file)

    def give_back(self) -> None:
        """Leave nothing of it."""
        with contextlib.suppress(OSError):
            self._room.unlink()
