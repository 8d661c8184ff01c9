"""torchrun's own files of what its ranks print, kept small while they are written.

torchrun (`--tee`) lets each rank write into a file and reads it along. The files have no bound, and whoever
cuts one under its writer makes the reader miss lines; but Linux can give back the room of a stretch in the
middle of a file, whose offsets all stay (fallocate(2), FALLOC_FL_PUNCH_HOLE). That stretch reads as zeros.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
from pathlib import Path

FIRST_BYTES = 8 * 1024 * 1024
"""Kept of a rank's beginning. Less than of a host's (slipway/kept_log.py): there are many ranks."""

LAST_BYTES = 8 * 1024 * 1024
"""Kept of its end, from which the cause of a failure is read."""

_SECONDS = 1.0
_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02


class RankFiles:
    """Gives back the room of the middles of the ranks' files below torchrun's log folder."""

    def __init__(self, logs: Path, *, first: int = FIRST_BYTES, last: int = LAST_BYTES) -> None:
        self._logs = logs
        self._first, self._last = first, last
        self._given: dict[Path, int] = {}
        self._next = 0.0
        self._unable = False

    def trim(self, torchrun: int) -> None:
        """Look at the files, at most once a second; nothing that torchrun has still to read is given back."""
        if self._unable or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _SECONDS
        for file in self._logs.glob("*/attempt_*/*/std*.log"):
            try:
                self._trim(file, torchrun)
            except OSError as error:
                self._unable = True
                print(
                    f"slipway: the output of the ranks in {self._logs} is kept whole, however much it is: "
                    f"{error.strerror}",
                    file=sys.stderr,
                    flush=True,
                )
                return

    def _trim(self, file: Path, torchrun: int) -> None:
        begin = self._given.get(file, self._first)
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_size - self._last <= begin:
                return
            end = min(file.stat().st_size - self._last, _read_until(file, torchrun))
            if end > begin:
                _give_back(file, begin, end)
                self._given[file] = end


def _read_until(file: Path, pid: int) -> int:
    """How far a process has read a file (proc(5), fdinfo); 0 where it does not, or nobody can tell."""
    reached = []
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError):
                if not descriptor.samefile(file):
                    continue
                text = Path(f"/proc/{pid}/fdinfo/{descriptor.name}").read_text()
                fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
                if int(fields["flags"], 8) & os.O_ACCMODE == os.O_RDONLY:
                    reached.append(int(fields["pos"]))
    return min(reached, default=0)


def _give_back(file: Path, begin: int, end: int) -> None:
    """Raises OSError where the file system cannot do that."""
    descriptor = os.open(file, os.O_WRONLY)
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        if fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, begin, end - begin) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(file))
    finally:
        os.close(descriptor)
