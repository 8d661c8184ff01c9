"""What a process prints: passed on as it comes, its end remembered, and where it is to be kept, a copy."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import threading
import time
from typing import IO

from slipway.kept_log import KeptLog
from slipway.masking import NOTHING_MASKED, Masking

_TAIL_BYTES = 256 * 1024


class Relay(threading.Thread):
    """Copies a pipe to a stream and a file, and keeps its end; all three without the values of secrets.

    Lines are passed on whole, so that two pipes into one log do not cut each other's; what has no end
    of line yet waits for a quarter of a second. Each line that is passed on begins with `mark`. Whatever
    happens to the copy, as on a full disk, the pipe is read on: the process would stand still otherwise.
    """

    _PATIENCE_SECONDS = 0.25

    def __init__(
        self,
        pipe: IO[bytes] | None,
        stream: IO[str],
        copy: KeptLog | None,
        masking: Masking = NOTHING_MASKED,
        *,
        mark: bytes = b"",
    ) -> None:
        super().__init__(daemon=True)
        assert pipe is not None
        self._pipe = pipe
        self._stream = stream
        self._copy = copy
        self._mark, self._within_a_line = mark, False
        self.last = time.time()
        """When something came last, in seconds since the epoch; when this began where nothing has come."""
        self._masked = masking.stream()
        self._kept = bytearray()
        self.start()

    @property
    def tail(self) -> str:
        """The end of what came, 256 KB of it at most."""
        return self._kept.decode("utf-8", "replace")

    def run(self) -> None:
        """Read the pipe to its end."""
        with contextlib.closing(self._copy) if self._copy is not None else contextlib.nullcontext():
            self._read()

    def _read(self) -> None:
        waiting = b""
        while True:
            if waiting and not select.select([self._pipe], [], [], self._PATIENCE_SECONDS)[0]:
                self._pass_on(waiting)
                waiting = b""
            chunk = os.read(self._pipe.fileno(), 65536)
            shown = self._masked.feed(chunk) if chunk else self._masked.end()
            if chunk:
                self.last = time.time()
            self._kept += shown
            del self._kept[:-_TAIL_BYTES]
            if self._copy is not None and shown:
                self._copy.write(shown)
            waiting += shown
            whole = max(waiting.rfind(b"\n"), waiting.rfind(b"\r")) + 1 if chunk else len(waiting)
            self._pass_on(waiting[:whole])
            waiting = waiting[whole:]
            if not chunk:
                return

    def _pass_on(self, text: bytes) -> None:
        if self._mark and text:
            text = self._marked(text)
        # Nobody may be left to read; the process must not block on a full pipe for that.
        with contextlib.suppress(OSError, ValueError):
            self._stream.buffer.write(text)  # type: ignore[attr-defined]
            self._stream.flush()

    def _marked(self, text: bytes) -> bytes:
        marked = []
        for line in text.splitlines(keepends=True):
            marked += [line] if self._within_a_line else [self._mark, line]
            self._within_a_line = not line.endswith((b"\n", b"\r"))
        return b"".join(marked)


def say(text: str) -> None:
    """Say something beside what is passed on; nobody may be left to read it."""
    with contextlib.suppress(OSError, ValueError):
        print(f"slipway: {text}", file=sys.stderr, flush=True)
