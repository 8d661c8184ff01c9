"""The logs of local hosts: read in whole lines, each with the time at which it was first seen.

What a host prints is one stream of bytes. Its boot keeps the beginning in the file `log` and the end in
files beside it, each named for the offset at which it begins in the stream, such as `log-000000067108864`;
of a flood the middle is left out (`slipway/processes/process_output.py`). It notes beside them which size
the stream had when, so that lines of different hosts can be put in order, also later.
"""

from __future__ import annotations

import contextlib
import io
import re
import stat
import time
from pathlib import Path

from launcher.backends.interface import LogLine
from launcher.backends.local.files import Host, UnreadableJob, check_format
from launcher.backends.local.records import LATEST
from launcher.frozen import frozen
from launcher.text.regular_files import open_regular

MAX_BYTES = 4 * 1024 * 1024
"""As much of a host's log is read at once; a longer line is cut there."""

_LATER_PART = re.compile(r"log-(\d{1,18})")
_HEADER = b"format "
_LONGEST_NOTE = 80
_TRIES = 5


@frozen
class Position:
    """Where reading stopped: an offset in the log, and one in the file of its times."""

    log: int = 0
    times: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Position:
        """The position that `str` made; the start for None."""
        return cls(*map(int, text.split(":"))) if text else cls()

    def __str__(self) -> str:
        return f"{self.log}:{self.times}"


def read_lines(host: Host, position: Position, *, to_the_end: bool) -> tuple[list[LogLine], Position]:
    """A host's lines from a position on, and the position after them.

    A last line without its end waits for it, unless nothing more will come (`to_the_end`). Where some of the
    output was left out, a line says how much. Raises UnreadableJob where something else lies there.
    """
    piece = _read(host, position.log)
    whole = piece.content.rfind(b"\n") + 1
    if piece.cut_off:
        whole = whole or len(piece.content)
    elif to_the_end or piece.ended:
        whole = len(piece.content)
    if not whole:
        return [], position
    lines, offset = [], piece.offset
    with contextlib.closing(_Times(host, position.times)) as times:
        for line in piece.content[:whole].splitlines(keepends=True):
            offset += len(line)
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            lines.append(LogLine(times.time_at(offset), host.name, text))
    if piece.offset > position.log:
        left_out = f"slipway: {piece.offset - position.log:,} bytes of this host's output are left out here"
        lines.insert(0, LogLine(lines[0].time, host.name, left_out))
    return lines, Position(offset, times.position)


@frozen
class _LogSpan:
    """A file with the bytes of the stream from `start` to before `end`."""

    file: Path
    start: int
    end: int


@frozen
class _Piece:
    """Bytes of the stream from `offset` on: `cut_off` if there are more in their file, `ended` if the file
    gets no more."""

    content: bytes
    offset: int
    cut_off: bool = False
    ended: bool = False


def _parts(host: Host) -> list[_LogSpan]:
    """The files of a host's log in their order; never none."""
    parts = []
    for file in [host.log, *host.folder.glob("log-*")]:
        match = _LATER_PART.fullmatch(file.name)
        if match is None and file != host.log:
            continue
        start = int(match[1]) if match else 0
        try:
            found = file.stat()
        except FileNotFoundError:
            # The boot deletes old parts at any time; before a host's start there is no log either.
            continue
        except OSError as error:
            raise UnreadableJob(file, error.strerror or str(error)) from error
        if not stat.S_ISREG(found.st_mode):
            raise UnreadableJob(file, "it is a folder, a pipe or a device, not a regular file")
        parts.append(_LogSpan(file, start, start + found.st_size))
    return sorted(parts, key=lambda part: part.start) or [_LogSpan(host.log, 0, 0)]


def _read(host: Host, offset: int) -> _Piece:
    """What is there from an offset on: of one file, and of the first that has something."""
    for _ in range(_TRIES):
        parts = _parts(host)
        for number, part in enumerate(parts):
            if part.end > offset:
                begin = max(offset, part.start)
                try:
                    with open_regular(part.file) as file:
                        file.seek(begin - part.start)
                        content = file.read(MAX_BYTES)
                except FileNotFoundError:
                    break  # Deleted since: what follows it is there by now.
                except OSError as error:
                    raise UnreadableJob(part.file, error.strerror or str(error)) from error
                return _Piece(content, begin, len(content) == MAX_BYTES, number < len(parts) - 1)
        else:
            break
    return _Piece(b"", offset)


class _Times:
    """The times of ever later offsets in a log, read as far as they are needed."""

    def __init__(self, host: Host, position: int) -> None:
        self.position = position
        # Beyond the last note: when the log was last written to.
        self._otherwise = _changed(_parts(host)[-1].file)
        self._notes = _open(host.log_times)
        self._notes.seek(position)
        self._reached, self._noted, self._length = -1, 0.0, 0
        if position == 0:
            self._check_format(host.log_times)

    def close(self) -> None:
        """Close the file."""
        self._notes.close()

    def time_at(self, offset: int) -> float:
        """When the log first reached this offset."""
        while self._reached < offset:
            self.position += self._length
            self._length = 0
            line = self._notes.readline(_LONGEST_NOTE)
            if not line.endswith(b"\n") and len(line) < _LONGEST_NOTE:
                # Of a log that rsync copied it is when the copy began, and may be before the last note.
                return max(self._otherwise, self._noted)
            self._length = len(line)
            # What a full disk cut is left out: the next note is as good.
            size, _, noted = line.partition(b" ")
            with contextlib.suppress(ValueError):
                if 0 <= float(noted) <= LATEST:
                    self._reached, self._noted = int(size), float(noted)
        return self._noted

    def _check_format(self, file: Path) -> None:
        line = self._notes.readline(_LONGEST_NOTE)
        if line.startswith(_HEADER):
            number = line[len(_HEADER) :].strip().decode("ascii", "replace")
            check_format(file, int(number) if number.isdecimal() else number)
            self._length = len(line)
        else:
            self._notes.seek(0)


def _open(file: Path) -> io.BufferedIOBase:
    try:
        return open_regular(file)
    except FileNotFoundError:
        return io.BytesIO()
    except OSError as error:
        raise UnreadableJob(
            file, error.strerror or str(error), "Delete it: the lines then have the time of the last one."
        ) from error


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return time.time()
