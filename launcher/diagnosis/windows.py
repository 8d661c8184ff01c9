"""A stream of bytes as windows of whole lines, of bounded size whatever the stream holds.

Lines end at a line feed, a carriage return or both: progress bars write over themselves, and what they are
glued to is a line of its own. Of a line only the beginning is kept that patterns see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from launcher.diagnosis.formats.blocks import has_longer_line
from launcher.text.line_length import LONGEST_LINE

WINDOW: Final = 1 << 18
"""Bytes that are searched together."""

_FIRST = 1 << 16
"""Bytes that are searched first, and then twice as many each time: in a storm they show that lines may be
left out unsearched."""

AHEAD: Final = 8
"""Lines after a line that may belong to it: a traceback's frames, torchrun's table of failures."""

TAIL: Final = 128
"""The last lines of a stream, which are kept."""

LONGEST: Final = 4 * LONGEST_LINE
"""Bytes of a line that are kept: as many as LONGEST_LINE characters can have."""


class Window:
    """Lines of a stream, each ended by a line feed: the first `count` are those to search, what follows is
    for looking ahead.

    `start` is the number of the first line in its stream, from 0, `ahead` how many follow. Of most windows
    few lines are looked at, so they are not cut apart before somebody wants all of them.
    """

    __slots__ = ("_ahead", "_lines", "_places", "count", "joined", "start", "text")

    def __init__(self, text: bytes, joined: bytes, start: int, ahead: int) -> None:
        self.text = text
        self.joined = joined
        """The text without its breaks, which are as many as it is shorter."""
        self.count = len(text) - len(joined) - ahead
        self.start = start
        self._ahead = ahead
        self._lines: list[bytes] | None = None
        self._places: dict[int, int] = {}

    @property
    def lines(self) -> list[bytes]:
        """All lines without their breaks."""
        if self._lines is None:
            self._lines = self.text.split(b"\n")
            self._lines.pop()
        return self._lines

    def note(self, number: int, place: int) -> None:
        """Remember at which byte of the text a line begins, by its number from 0."""
        self._places[number] = place

    def line(self, number: int) -> bytes:
        """One line without its break."""
        place = self._places.get(number)
        if self._lines is not None or place is None:
            return self.lines[number]
        return self.text[place : self.text.index(b"\n", place)]

    def after(self, number: int) -> list[bytes]:
        """The AHEAD lines after one, fewer where the stream ends."""
        place = self._places.get(number)
        if self._lines is not None or place is None:
            return self.lines[number + 1 : number + 1 + AHEAD]
        first = end = self.text.index(b"\n", place) + 1
        for _ in range(AHEAD):
            end = self.text.find(b"\n", end) + 1
            if not end:
                end = len(self.text)
                break
        return self.text[first:end].split(b"\n")[:-1]

    def last(self, most: int) -> list[bytes]:
        """The last of the lines to search, at most so many."""
        lines = self.text[_beginning_of_last(self.text, self._ahead + min(most, self.count)) :].split(b"\n")
        return lines[: -1 - self._ahead]


class Windows:
    """Cuts one stream; feed it with blocks and end it. The answers do not depend on where blocks end."""

    def __init__(self, size: int = WINDOW) -> None:
        self._most = size
        self._size = min(size, _FIRST)
        self._blocks: list[bytes] = []
        """The last lines of the window before, and what comes behind them."""
        self._waiting = 0
        self.length = 0
        """How many lines were given out to be searched."""

    def cut(self, blocks: Iterable[bytes]) -> Iterator[Window]:
        """All windows of a stream that ends with these blocks."""
        for block in blocks:
            yield from self.feed(block)
        yield from self.end()

    def feed(self, block: bytes) -> Iterator[Window]:
        """Take the next block; the windows that are full with it."""
        at = 0
        while at < len(block):
            part = block[at : at + self._size]
            at += len(part)
            self._blocks.append(part)
            self._waiting += len(part)
            if self._waiting >= self._size:
                yield from self._cut(last=False)
                self._size = min(2 * self._size, self._most)

    def end(self) -> Iterator[Window]:
        """What is left when the stream has ended, or its last line is known to be whole."""
        yield from self._cut(last=True)

    def _at_last_break(self) -> tuple[bytes, bytes]:
        """What came until the last break, and what came behind it.

        The break is mostly in the last block, so that the others need not be copied twice.
        """
        *before, block = self._blocks
        end = _end_of_lines(block)
        if not end:
            before, block = [], b"".join(self._blocks)
            end = _end_of_lines(block)
        return b"".join([*before, memoryview(block)[:end]]), block[end:]

    def _cut(self, *, last: bool) -> Iterator[Window]:
        text, rest = (b"".join(self._blocks), b"") if last else self._at_last_break()
        text = _clean(text)
        if len(rest) > LONGEST:
            # No break comes for long: what is kept of the line is here, and a break that is cut in half.
            rest = rest[:LONGEST] + b"x" + rest[-1:]
        joined = text.replace(b"\n", b"")
        ahead = 0 if last else min(AHEAD, len(text) - len(joined))
        self._blocks = [text[_beginning_of_last(text, ahead) :], rest]
        self._waiting = len(rest)
        window = Window(text, joined, self.length, ahead)
        if window.count:
            yield window
            self.length += window.count


def _end_of_lines(text: bytes) -> int:
    """Behind which byte the last whole line of a text ends, 0 where there is none."""
    end = text.rfind(b"\n")
    # A carriage return at the very end may be half of a break.
    return max(end, text.rfind(b"\r", end + 1, len(text) - 1)) + 1


def _beginning_of_last(text: bytes, lines: int) -> int:
    """Where the last lines of a text begin that ends with a line."""
    place = len(text)
    for _ in range(lines):
        if not place:
            break
        place = text.rfind(b"\n", 0, place - 1) + 1
    return place


def _clean(text: bytes) -> bytes:
    """A text that ends with a line, each line ended by a line feed and none longer than is kept."""
    if not text:
        return text
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not text.endswith(b"\n"):
        text += b"\n"
    if has_longer_line(text, LONGEST):
        text = b"\n".join([line[:LONGEST] for line in text.split(b"\n")])
    return text
