"""What a rank tells that does not answer: where C code keeps the interpreter's lock, or nothing listens.

NCCL's recorder is asked by its pipe, which disturbs nothing (a thread of PyTorch's own reads it, about once
a second). The stacks are written by faulthandler at a signal, which wakes blocked calls: the last resort.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipway.processes import send
from slipway.ranks.heartbeat import Beat
from slipway.watchdog.places import StackFrame
from slipway.watchdog.proc import handles
from slipway.watchdog.recording import LARGEST_DUMP

LARGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer, or of stacks, that are read."""

_STACKS_SECONDS, _PIPE_SECONDS, _POLL_SECONDS = 0.5, 2.5, 0.05

_FRAME = re.compile(
    r'^ {2}File "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9}) in (?P<name>[^\n]{1,500})$', re.MULTILINE
)


def stacks_by_signal(asked: Mapping[Path, Beat]) -> dict[Path, list[list[StackFrame]]]:
    """The stacks of all threads, by the file into which a rank writes them; frames from the outermost.

    Only ranks that handle the signal get one: it would end the others.
    """
    able = {file: beat for file, beat in asked.items() if beat.signal and handles(beat.pid, beat.signal)}
    for file, beat in able.items():
        file.write_bytes(b"")
        send(beat.pid, beat.signal)
    if able:
        time.sleep(_STACKS_SECONDS)
    return {file: stacks_in(read(file, LARGEST_ANSWER) or b"") for file in able}


def stacks_in(content: bytes) -> list[list[StackFrame]]:
    """What faulthandler wrote, which begins with the innermost frame of each thread."""
    parts = content.decode("utf-8", "replace").split("\n\n")
    stacks = [
        [StackFrame(match["file"], int(match["line"]), match["name"]) for match in _FRAME.finditer(part)]
        for part in parts
    ]
    return [stack[::-1] for stack in stacks if stack]


class NcclPipes:
    """NCCL's recorders, asked from outside; `pipes` and `dumps` begin the names of their files."""

    def __init__(self, pipes: str, dumps: str) -> None:
        self._pipes, self._dumps = pipes, dumps

    def ask(self, ranks: Sequence[int]) -> dict[int, bytes]:
        """The dumps of those that write one now."""
        before = {rank: _written(self._dump(rank)) for rank in ranks}
        waiting = [rank for rank in ranks if write(Path(f"{self._pipes}{rank}.pipe"), b"1\n")]
        until = time.monotonic() + _PIPE_SECONDS
        found: dict[int, bytes] = {}
        while len(found) < len(waiting) and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
            for rank in waiting:
                content = read(self._dump(rank), LARGEST_DUMP)
                # A pickle ends with a dot (PROTO's STOP): what does not is still being written.
                if _written(self._dump(rank)) != before[rank] and content and content.endswith(b"."):
                    found[rank] = content
        return found

    def _dump(self, rank: int) -> Path:
        return Path(f"{self._dumps}{rank}")


def write(pipe: Path, content: bytes) -> bool:
    """Write into a pipe where somebody reads; False where nobody does, or it is full."""
    try:
        descriptor = os.open(str(pipe), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.write(descriptor, content) == len(content)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def read(file: Path, most: int) -> bytes | None:
    """A file's content; None where it is missing or larger than it should be."""
    try:
        with file.open("rb") as stream:
            content = stream.read(most + 1)
    except OSError:
        return None
    return content if len(content) <= most else None


def _written(file: Path) -> float | None:
    return file.stat().st_mtime if file.exists() else None
