"""Output that is kept on a disk: all of what is usual, and of a flood the beginning and the end.

The stream begins in a file and goes on in parts beside it, each named for the offset at which it begins, such
as `log-000000067108864`. Of the parts the oldest are deleted. What was kept stays readable whenever the
process ends, by any program, and no offset ever changes, so that others can read along.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

FIRST_BYTES = 64 * 1024 * 1024
"""The beginning: half a million lines, in which a job says how it was set up and what went wrong first."""

LAST_BYTES = 64 * 1024 * 1024
"""The end, at least: as many lines, in which it says what it died of."""

PARTS = 8
"""So many parts make up the end; up to one more is there until the oldest is deleted."""

_JOIN_SECONDS = 3.0


class KeptLog:
    """The writer of such a file; what is there already stays, and counts as its beginning.

    Whatever happens to the file, as on a full disk, `write` does not fail: what could not be written is
    counted, and said in the file as soon as there is room. `tell` hears once when something is lost or left
    out.
    """

    def __init__(
        self,
        file: Path,
        *,
        first: int = FIRST_BYTES,
        last: int = LAST_BYTES,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._file = file
        self._first, self._last = first, last
        self._tell = tell
        self._told = False
        self._parts: list[tuple[Path, int]] = []
        self._opened: IO[bytes] | None = None
        self._offset = self._start = 0
        self._full = False
        self._lost = 0

    def write(self, chunk: bytes) -> None:
        """Write a piece of the stream."""
        try:
            self._open()
            if self._lost and chunk:
                self._put(f"\nslipway: {self._lost} bytes of the output are missing here\n".encode())
                self._lost = 0
            while chunk:
                chunk = chunk[self._put(chunk) :]
        except OSError as error:
            self._lost += len(chunk)
            self._say(f"of the output not all can be kept in {self._file}: {error.strerror}")

    def close(self) -> None:
        """Close the file."""
        if self._opened is not None:
            self._opened.close()

    def _open(self) -> None:
        if self._opened is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._opened = self._file.open("ab", buffering=0)
            self._offset = self._opened.tell()

    def _put(self, chunk: bytes) -> int:
        """Write as much as fits into the file, up to the end of a line where there is one."""
        if self._full:
            self._next_part()
        assert self._opened is not None
        part = self._last // PARTS
        room = self._start + (part if self._parts else self._first) - self._offset
        piece = chunk
        full = len(chunk) > room
        if full:
            end = chunk.rfind(b"\n", 0, max(0, room)) + 1 or chunk.find(b"\n", max(0, room)) + 1
            # A line without an end may have the length of another part, and is cut then.
            full = bool(end) or len(chunk) > room + part
            piece = chunk[:end] if end else chunk[: max(0, room + part)]
        written = self._opened.write(piece)
        self._offset += written
        self._full = full and written == len(piece)
        return written

    def _next_part(self) -> None:
        file = self._file.with_name(f"{self._file.name}-{self._offset:015d}")
        opened = file.open("ab", buffering=0)
        self.close()
        self._opened, self._start, self._full = opened, self._offset, False
        self._parts.append((file, self._offset))
        # The oldest goes as soon as those that are complete after it are long enough.
        while len(self._parts) > 2 and self._offset - self._parts[1][1] >= self._last:
            oldest, _ = self._parts.pop(0)
            with contextlib.suppress(OSError):
                oldest.unlink()
            self._say(
                f"this is much output: {self._file} keeps the first {self._first >> 20} MB, and the files "
                f"beside it the last {self._last >> 20} MB"
            )

    def _say(self, text: str) -> None:
        if not self._told:
            self._told = True
            self._tell(text)


@contextlib.contextmanager
def everything_kept_in(file: Path) -> Iterator[None]:
    """Keep all that this process and those that it starts print, both streams, in a file and its parts."""
    log = KeptLog(file)
    reading, writing = os.pipe()
    for stream in (1, 2):
        os.dup2(writing, stream)
    os.close(writing)
    pump = threading.Thread(target=_pump, args=(reading, log), daemon=True)
    pump.start()
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Whoever still holds the pipe keeps the thread reading; this process has no end of it any more.
        rest = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(rest, stream)
        os.close(rest)
        pump.join(_JOIN_SECONDS)


def _pump(reading: int, log: KeptLog) -> None:
    while True:
        chunk = os.read(reading, 65536)
        if not chunk:
            log.close()
            return
        log.write(chunk)
