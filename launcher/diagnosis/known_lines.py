"""Lines of a storm that are known: the same again, of the same rank and host, tells nothing new.

A line is known by its shape, which is the line with each digit made a zero, by the shape of the next line,
and by whom it is about (see `line_identity`). A whole traceback is known in the same way. What is skipped
would have changed nothing, so the answers are the same without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from launcher.diagnosis.signatures.signature import Signature

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MOST = 20_000
"""Shapes and whom they are about that are kept of all streams together; beyond it all is forgotten."""

_LONGEST_BLOCK = 100
Spans: TypeAlias = tuple[tuple[int, int], ...]


def shape_of(text: bytes) -> bytes:
    """The text with each digit made a zero, so that everything stands where it stood."""
    return text.translate(_ZEROS)


@dataclass(slots=True)
class _Shape:
    """A kind of line: which row counts for it, where it tells whom it is about, and what was seen of it."""

    row: Signature | None
    spans: Spans
    whom: set[bytes] = field(default_factory=set)
    followed_by: set[bytes] = field(default_factory=set)


@dataclass(slots=True)
class _KnownBlock:
    """A kind of traceback; `spans` are those of each of its lines."""

    spans: tuple[Spans, ...]
    whom: set[bytes] = field(default_factory=set)


class KnownLines:
    """What is known of one stream. `is_busy` is whether so many of its lines are looked at that it pays."""

    def __init__(self, bound: KnownBounds) -> None:
        self.is_busy = False
        self.is_paused = False
        self.revision = 0
        """Goes on whenever what was known or allowed to be skipped has changed other than by more of it."""
        self.learned = 0
        """Goes on with everything that is learned."""
        self._lines: dict[bytes, _Shape] = {}
        self._blocks: dict[bytes, dict[bytes, _KnownBlock]] = {}
        self._sizes: dict[bytes, tuple[int, ...]] = {}
        self.longest = 0
        """Lines of the longest traceback that is known."""
        self._bound = bound
        bound.streams.append(self)

    def forget(self) -> None:
        """What comes now counts anew: training went on, or was started again."""
        self.revision += 1
        self._lines.clear()
        self._blocks.clear()
        self._sizes.clear()
        self.longest = 0

    def pause(self, pause: bool) -> None:
        """Whether every line counts for now, because a traceback is open."""
        if pause is not self.is_paused:
            self.is_paused = pause
            self.revision += 1

    def unknown(self, lines: Sequence[bytes], start: int, end: int, count: int) -> list[int]:
        """The numbers of the lines from `start` to `end` that are to be looked at. Only those before `count`
        may be skipped; the lines after them are what follows."""
        if self.is_paused or not (self._lines or self._blocks):
            return list(range(start, end))
        shapes = shape_of(b"\n".join(lines[start : end + self.longest + 1])).split(b"\n")
        shapes.append(b"\n")  # no line has this shape
        left: list[int] = []
        known, sizes = self._lines.get, self._sizes.get
        last = min(count, start + len(shapes) - 2)
        number = start
        while number < end:
            at = number - start
            shape = known(shapes[at])
            if shape is not None:
                if (
                    shapes[at + 1] not in shape.followed_by
                    or _whom(lines[number], shape.spans) not in shape.whom
                ):
                    left.append(number)
            elif (likely := sizes(shapes[at])) is not None:
                size = self._size_of_block(lines, shapes, number, at, last, likely)
                if size:
                    number += size
                    continue
                left.append(number)
            else:
                left.append(number)
            number += 1
        return left

    def _size_of_block(
        self,
        lines: Sequence[bytes],
        shapes: list[bytes],
        number: int,
        at: int,
        last: int,
        likely: tuple[int, ...],
    ) -> int:
        """How many lines the known traceback has that begins here, 0 for none."""
        blocks = self._blocks[shapes[at]]
        for size in likely:
            if number + size > last:
                continue
            block = blocks.get(b"\n".join(shapes[at : at + size + 1]))
            if block is not None and _whom_of_all(lines[number : number + size], block.spans) in block.whom:
                return size
        return 0

    def learn(self, raw: bytes, spans: Spans, row: Signature | None, following: bytes) -> None:
        """This line brought nothing new, nor would another of its shape; `row` is the one that counts."""
        shape = shape_of(raw)
        known = self._lines.get(shape)
        if known is None:
            known = self._lines[shape] = _Shape(row, spans)
        if known.row is row and known.spans == spans:
            known.whom.add(_whom(raw, spans))
            known.followed_by.add(shape_of(following))
            self._learned()

    def learn_traceback(self, raws: Sequence[bytes], spans: tuple[Spans, ...], following: bytes) -> None:
        """The lines of this traceback brought nothing new, nor would those of another of its shape."""
        if not 1 < len(raws) <= _LONGEST_BLOCK:
            return
        head, body = shape_of(raws[0]), shape_of(b"\n".join([*raws, following]))
        block = self._blocks.setdefault(head, {}).setdefault(body, _KnownBlock(spans))
        if block.spans == spans:
            block.whom.add(_whom_of_all(raws, spans))
            self._sizes[head] = tuple(sorted({*self._sizes.get(head, ()), len(raws)}))
            self.longest = max(self.longest, len(raws))
            self._learned()

    def _learned(self) -> None:
        self.learned += 1
        self._bound.count()


class KnownBounds:
    """Keeps what is known of all streams together within bounds."""

    def __init__(self) -> None:
        self.streams: list[KnownLines] = []
        self._count = 0

    def count(self) -> None:
        """One more is known."""
        self._count += 1
        if self._count >= _MOST:
            self._count = 0
            for stream in self.streams:
                stream.forget()


def _whom(line: bytes, spans: Spans) -> bytes:
    """What stands in a line where it tells whom it is about."""
    if not spans:
        return b""
    if len(spans) == 1:
        return line[spans[0][0] : spans[0][1]]
    return b"\n".join([line[start:end] for start, end in spans])


def _whom_of_all(lines: Sequence[bytes], spans: Sequence[Spans]) -> bytes:
    return b"\n".join([_whom(line, each) for line, each in zip(lines, spans, strict=True)])
