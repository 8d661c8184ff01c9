"""A stream of bytes as windows of whole lines, of bounded size whatever the stream holds.

Lines end at a line feed, a carriage return or both: progress bars write over themselves, and what they are
glued to is a line of its own. Of a line only the beginning is kept that patterns see.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from launcher.text.line_length import LONGEST_LINE

WINDOW: Final = 1 << 20
"""Bytes that are searched together."""

AHEAD: Final = 8
"""Lines after a line that may belong to it: a traceback's frames, torchrun's table of failures."""

TAIL: Final = 128
"""The last lines of a stream, which are kept."""

LONGEST: Final = 4 * LONGEST_LINE
"""Bytes of a line that are kept: as many as LONGEST_LINE characters can have."""


@dataclass(frozen=True, slots=True)
class Window:
    """Lines without their breaks: the first `count` are those to search, what follows is for looking ahead.

    `start` is the number of the first line in its stream, from 0.
    """

    lines: list[bytes]
    count: int
    start: int


class Windows:
    """Cuts one stream; feed it with blocks and end it. The answers do not depend on where blocks end."""

    def __init__(self, size: int = WINDOW) -> None:
        self._size = size
        self._blocks: list[bytes] = []
        self._waiting = 0
        self._ahead: list[bytes] = []
        self.length = 0
        """How many lines were given out to be searched."""

    def feed(self, block: bytes) -> Iterator[Window]:
        """Take the next block; the windows that are full with it, at most one for each `size` bytes."""
        for at in range(0, len(block), self._size):
            part = block[at : at + self._size]
            self._blocks.append(part)
            self._waiting += len(part)
            if self._waiting >= self._size:
                yield from self._cut(last=False)

    def end(self) -> Iterator[Window]:
        """What is left when the stream has ended, or its last line is known to be whole."""
        yield from self._cut(last=True)

    def _cut(self, *, last: bool) -> Iterator[Window]:
        text = b"".join(self._blocks)
        rest = b""
        if not last:
            # A carriage return at the very end may be half of a break.
            end = max(text.rfind(b"\n"), text.rfind(b"\r", 0, len(text) - 1)) + 1
            rest = text[end:]
            text = text[:end]
        lines = _lines(text)
        if len(rest) > LONGEST:
            # No break comes for long: what is kept of the line is here, and a break that is cut in half.
            rest = rest[:LONGEST] + b"x" + rest[-1:]
        self._blocks = [rest] if rest else []
        self._waiting = len(rest)
        lines = [*self._ahead, *lines]
        count = len(lines) if last else max(0, len(lines) - AHEAD)
        self._ahead = lines[count:]
        if count:
            yield Window(lines, count, self.length)
            self.length += count


def _lines(text: bytes) -> list[bytes]:
    """The lines of a text that ends with a line."""
    if not text:
        return []
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = text.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if len(text) > LONGEST and max(map(len, lines)) > LONGEST:
        lines = [line[:LONGEST] for line in lines]
    return lines
