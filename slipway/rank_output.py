"""What torchrun's ranks print, passed on by the boot in a job with secrets.

torchrun's own way (`--tee`) mixes what its ranks print before anybody can mask it: the pieces of one line,
and long lines of two ranks at once. So there it only lets the ranks write into files (`--redirects`), and
each file is read here by itself, masked, and passed on line by line.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from slipway.masking import Masking

_CHUNK = 64 * 1024
_MOST_AT_ONCE = 4 * 1024 * 1024
"""Bytes of one file in one look, so that one chatty rank does not keep the others waiting."""

_PATIENCE_SECONDS = 0.25
"""So long a line without an end waits for it; a progress bar has none."""


class RankOutput:
    """Follows the files below torchrun's log folder; `first_rank` is the global rank of local rank 0."""

    def __init__(
        self, logs: Path, masking: Masking, first_rank: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._logs, self._masking, self._first_rank, self._clock = logs, masking, first_rank, clock
        self._files: dict[Path, _Followed] = {}

    def pass_on(self, torchrun: int) -> None:
        """Read on in every file, and pass on the lines that have come."""
        for file in sorted(self._logs.glob("*/attempt_*/*/std*.log")):
            if file not in self._files and file.parent.name.isdigit():
                rank = self._first_rank + int(file.parent.name)
                # Its ranks' files stay open: who trims them sees by that how far they were read.
                with contextlib.suppress(OSError):
                    self._files[file] = _Followed(file, rank, self._masking, self._clock)
        for followed in self._files.values():
            followed.read()

    def finish(self) -> None:
        """Pass on the rest, when nobody writes any more."""
        self.pass_on(0)
        for followed in self._files.values():
            followed.end()


class _Followed:
    """One file of one rank."""

    def __init__(self, file: Path, rank: int, masking: Masking, clock: Callable[[], float]) -> None:
        self._reading: IO[bytes] = file.open("rb", buffering=0)
        self._stream = sys.stderr if file.name.startswith("stderr") else sys.stdout
        self._mark = f"[rank{rank}]:".encode()
        self._masked = masking.stream()
        self._clock = clock
        self._waiting = b""
        self._since = 0.0
        self._within_a_line = False

    def read(self) -> None:
        """What was written since, at most a few megabytes; lines without an end wait a little."""
        for _ in range(_MOST_AT_ONCE // _CHUNK):
            chunk = self._chunk()
            if not chunk:
                break
            self._take(self._masked.feed(chunk))
        if self._waiting and self._clock() - self._since > _PATIENCE_SECONDS:
            self._pass_on(len(self._waiting))

    def end(self) -> None:
        """The rest of the file, and what was held back."""
        while True:
            chunk = self._chunk()
            if not chunk:
                break
            self._take(self._masked.feed(chunk))
        self._take(self._masked.end())
        self._pass_on(len(self._waiting))
        self._reading.close()

    def _chunk(self) -> bytes:
        try:
            return self._reading.read(_CHUNK)
        except OSError:
            return b""

    def _take(self, text: bytes) -> None:
        if not text:
            return
        self._since = self._clock()
        self._waiting += text
        self._pass_on(max(self._waiting.rfind(b"\n"), self._waiting.rfind(b"\r")) + 1)

    def _pass_on(self, until: int) -> None:
        """Each line with the rank's mark, as torchrun would have it (slipway/environment.py)."""
        lines, self._waiting = self._waiting[:until], self._waiting[until:]
        if not lines:
            return
        marked = []
        for line in lines.splitlines(keepends=True):
            marked += [line] if self._within_a_line else [self._mark, line]
            self._within_a_line = not line.endswith((b"\n", b"\r"))
        # Nobody may be left to read.
        with contextlib.suppress(OSError, ValueError):
            self._stream.buffer.write(b"".join(marked))
            self._stream.flush()
