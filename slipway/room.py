"""Room for the failure file, taken at the start: a disk that is full at the end must not cost the reason.

It is a file of its own beside the failure file, since an empty failure file would already be a report.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

BYTES = 4096
"""More than a report ever has: 980 characters (slipway/failure.py) of at most four bytes each."""


def take_room(file: Path) -> None:
    """Take the room for this file. Where there is none the job goes on without."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        # Bytes that are written: a file system may find room for a hole only when it is filled.
        with _room_of(file).open("wb") as room:
            room.write(os.urandom(BYTES))
            room.flush()
            os.fsync(room.fileno())


def write_into_room(file: Path, content: bytes) -> None:
    """Write the file into the room that was taken for it.

    Raises OSError where that cannot be, and where none was taken.
    """
    with _room_of(file).open("r+b") as room:
        room.write(content[:BYTES])
        room.flush()
        room.truncate()
    _room_of(file).replace(file)


def give_room_back(file: Path) -> None:
    """Leave nothing of the room."""
    with contextlib.suppress(OSError):
        _room_of(file).unlink()


def _room_of(file: Path) -> Path:
    return file.with_name(f".{file.name}-room")
