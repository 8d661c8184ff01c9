"""A rank's heartbeat: a small file that both the rank and the boot see at once.

The rank maps it into its memory, so that a beat is one copy of a few bytes, without a call to the system;
the boot reads it as a file. Times are those of the monotonic clock, which all processes of a host share.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

STATE_VARIABLE = "SLIPWAY_STATE"
"""Names the folder of what a running host knows of itself; the ranks' part of it is below `ranks`."""

STARTED, LOADED, ENDED = 0, 1, 2
"""The phases of a rank: its script has begun, PyTorch is loaded and its steps are counted, the script has
ended."""

_SIZE = 4096
_MAGIC = b"slipway1"
_WHOLE = struct.Struct("<8sqqqqdqdd")
_BEAT = struct.Struct("<qdd")
_BEAT_AT = _WHOLE.size - _BEAT.size
_PHASE = struct.Struct("<q")
_PHASE_AT = 24
_ASKED_AT = 32


class Beat(NamedTuple):
    """What a rank says of itself.

    `signal` makes it write its stacks, 0 where none does. `asked` is the number of the question that it last
    began to answer. `started`, `last` and `longest` are in seconds:
    when it began, when it beat last (0 for never), and the longest time between two beats so far.
    """

    pid: int
    signal: int
    phase: int
    asked: int
    started: float
    steps: int
    last: float
    longest: float


class Heartbeat:
    """The rank's end."""

    def __init__(self, file: Path, signal: int = 0) -> None:
        """Raises OSError where the file cannot be written, as on a full disk."""
        self._map = _mapped(file)
        self._steps, self._last, self._longest = 0, 0.0, 0.0
        started = time.monotonic()
        _WHOLE.pack_into(self._map, 0, _MAGIC, os.getpid(), signal, STARTED, 0, started, 0, 0.0, 0.0)

    def beat(self, *_: object) -> None:
        """A step was made. Takes and ignores what PyTorch gives a hook."""
        now = time.monotonic()
        if self._steps and now - self._last > self._longest:
            self._longest = now - self._last
        self._steps += 1
        self._last = now
        _BEAT.pack_into(self._map, _BEAT_AT, self._steps, now, self._longest)

    def silence(self) -> None:
        """Beat no more in this process: it is a fork, and the file belongs to its parent."""
        self._map = mmap.mmap(-1, _SIZE)

    def answers(self, number: int) -> None:
        """The rank begins to answer a question."""
        _PHASE.pack_into(self._map, _ASKED_AT, number)

    def enter(self, phase: int) -> None:
        """The rank is in another phase."""
        _PHASE.pack_into(self._map, _PHASE_AT, phase)


def heartbeat_file(state: Path, rank: int) -> Path:
    """Where the rank's heartbeat is, below the host's state."""
    return state / "ranks" / str(rank)


def read_beat(file: Path) -> Beat | None:
    """What the rank said last; None where there is nothing yet, or something else."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_WHOLE.size)
    except OSError:
        return None
    if len(content) < _WHOLE.size or not content.startswith(_MAGIC):
        return None
    return Beat(*_WHOLE.unpack(content)[1:])


def _mapped(file: Path) -> mmap.mmap:
    """A new file that takes up its room on the disk: a page without one would end the process (SIGBUS)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(str(file), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        if os.write(descriptor, bytes(_SIZE)) != _SIZE:
            raise OSError(f"{file} has no room for {_SIZE} bytes")
        os.fsync(descriptor)
        return mmap.mmap(descriptor, _SIZE)
    finally:
        os.close(descriptor)
