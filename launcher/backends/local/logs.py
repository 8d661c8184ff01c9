"""The logs of local hosts: read in whole lines, each with the time at which it was first seen.

A host's log is a plain file. While the launcher runs it notes beside it, whenever the file has grown,
its size and the time, so that lines of different hosts can be put in order, also later.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.backends.interface import LogLine
from launcher.backends.local.hosts import Host

MAX_BYTES = 4 * 1024 * 1024
"""As much of a host's log is read at once; a longer line is cut there."""


class LogClock:
    """Notes when the logs grow."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._sizes = dict.fromkeys(hosts, 0)

    def tick(self) -> None:
        """Note the size of each log that has grown since the last call."""
        for host, known in self._sizes.items():
            size = host.log.stat().st_size
            if size != known:
                with host.log_times.open("a", encoding="ascii") as times:
                    times.write(f"{size} {time.time():.3f}\n")
                self._sizes[host] = size


@dataclass(frozen=True, slots=True)
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

    A last line without its end waits for it, unless nothing more will come (`to_the_end`).
    """
    with host.log.open("rb") as log:
        log.seek(position.log)
        content = log.read(MAX_BYTES)
    whole = content.rfind(b"\n") + 1
    if len(content) == MAX_BYTES:
        whole = whole or MAX_BYTES
    elif to_the_end:
        whole = len(content)
    times = _Times(host, position.times)
    lines, offset = [], position.log
    for line in content[:whole].splitlines(keepends=True) if whole else []:
        offset += len(line)
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        lines.append(LogLine(times.of(offset), host.name, text))
    return lines, Position(offset, times.position)


class _Times:
    """The times of ever later offsets in a log."""

    def __init__(self, host: Host, position: int) -> None:
        self.position = position
        self._entries: list[tuple[int, int, float]] = []
        # Beyond the last note, as after the launcher's death: when the log was last written to.
        self._otherwise = host.log.stat().st_mtime
        with contextlib.suppress(FileNotFoundError), host.log_times.open("rb") as times:
            times.seek(position)
            for line in times:
                if line.endswith(b"\n"):
                    size, noted = line.split()
                    self._entries.append((int(size), len(line), float(noted)))
        self._entries.reverse()

    def of(self, offset: int) -> float:
        """When the log first reached this offset."""
        while self._entries and self._entries[-1][0] < offset:
            self.position += self._entries.pop()[1]
        return self._entries[-1][2] if self._entries else self._otherwise
