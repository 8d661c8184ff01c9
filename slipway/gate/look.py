"""Looks at folders, in a process of its own: on a dead mount every question blocks, and nothing ends it.

`python -m slipway.gate.look '[["read", "/opt/ml/input/data/train"], ...]'` prints a line of JSON for each
question that was answered; the others are still being asked when it is killed.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

PEEKED_AT = 64
"""So many entries of a folder are looked at for a file of which one byte is read."""


def main(questions: list[list[str]]) -> None:
    """Ask all at once, and end without waiting for what does not answer once all others have."""
    threads = [threading.Thread(target=_answer, args=question, daemon=True) for question in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _answer(kind: str, path: str) -> None:
    try:
        answer = {"read": _read, "write": _written, "room": _room}[kind](path)
    except OSError as error:
        answer = {"error": errno.errorcode.get(error.errno or 0, "?"), "reason": error.strerror or str(error)}
    # One write: lines of several threads do not mix.
    os.write(1, (json.dumps({"kind": kind, "path": path, **answer}) + "\n").encode())


def _read(path: str) -> dict[str, Any]:
    """Whether there is anything, and whether a byte of the first file can be read."""
    looked_at = 0
    with os.scandir(path) as entries:
        for entry in entries:
            looked_at += 1
            if entry.is_file():
                with Path(entry.path).open("rb") as file:
                    file.read(1)
                break
            if looked_at == PEEKED_AT:
                break
    return {"entries": looked_at}


def _written(path: str) -> dict[str, Any]:
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f".slipway-gate-{os.getpid()}"
    try:
        with file.open("wb") as stream:
            stream.write(b"\0" * 4096)
            stream.flush()
            os.fsync(stream.fileno())
    finally:
        with contextlib.suppress(OSError):
            file.unlink()
    return {}


def _room(path: str) -> dict[str, Any]:
    """Bytes and files that the file system has, and has left for this user, and which one it is."""
    # The folder itself may not be there yet.
    there = next(each for each in (Path(path), *Path(path).parents) if each.exists())
    found = os.statvfs(there)
    return {
        "bytes": found.f_frsize * found.f_blocks,
        "free": found.f_frsize * found.f_bavail,
        "files": found.f_files,
        "free_files": found.f_favail,
        "disk": there.stat().st_dev,
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
