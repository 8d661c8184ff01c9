"""What is known of lines by their kinds: who wrote them, what they tell, and the ways that tracebacks go.

Lines that differ in their numbers alone have one kind. A shape is a kind at one layout: the line with each
digit made a zero, so that everything stands where it stood. Places in lines of one kind are told in the
kind's own layout, in which numbers of any width have few.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from launcher.diagnosis.signatures.signature import Signature

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_POINTER = re.compile(rb"(0x)(?<![0-9A-Za-z]0x)([0-9A-Fa-f]+)")
"""With its literal first, ahead of what may not stand before it, it is sought twelve times as fast."""
_FACTOR = re.compile(rb"(?<![0-9A-Za-z])0(?=x)")
_RUN = re.compile(rb"0+")

WIDEST = (4, 6, 7, 9, 10, 18)
"""Numbers with as many digits as one of these, and no more than it, have one kind: patterns take numbers up
to such a width."""

_WIDTHS = tuple(sum(width > widest for widest in WIDEST) + 1 for width in range(WIDEST[-1] + 1))

Spans: TypeAlias = tuple[tuple[int, int], ...]
Writer: TypeAlias = "int | str | None"


class Identity(NamedTuple):
    """How a line is known again: by what stands at `spans`, which are places of its kind. `is_own` is whether
    only lines of this kind tell what it tells."""

    spans: Spans
    is_own: bool = False


def shape_of(text: bytes) -> bytes:
    """The text with each digit made a zero, those of addresses too, so that everything stands where it
    stood."""
    shape = text.translate(_ZEROS)
    if b"0x" in shape:
        if shape.count(b"0x") != text.count(b"0x"):
            # What stands before an x makes it an address, so it is told from other digits.
            shape = _FACTOR.sub(lambda found: text[found.start() : found.end()], shape)
        # Lines of communicators have one each, so no call of ours is made for it.
        parts = _POINTER.split(shape)
        parts[2::3] = map(b"0".__mul__, map(len, parts[2::3]))
        shape = b"".join(parts)
    return shape


@lru_cache(maxsize=1024)
def kind_of(shape: bytes) -> bytes:
    """The shape with its numbers as wide as the kind has them; lines of one shape come again and again."""
    return _RUN.sub(lambda found: b"0" * _width(len(found[0])), shape)


def _width(digits: int) -> int:
    return _WIDTHS[digits] if digits < len(_WIDTHS) else digits


class Layout:
    """Where the places of a kind are in the lines of a shape."""

    __slots__ = ("_runs",)

    def __init__(self, shape: bytes) -> None:
        runs = [found.span() for found in _RUN.finditer(shape)]
        self._runs = [(start, end, _width(end - start)) for start, end in runs]

    def of_kind(self, spans: Spans) -> Spans | None:
        """Places of the shape as those of its kind, from and to; None where one cuts a number."""
        places = [(self._of_kind(start), self._of_kind(end)) for start, end in spans]
        told = tuple((start, end) for start, end in places if start is not None and end is not None)
        return told if len(told) == len(spans) else None

    def of_shape(self, spans: Spans) -> Spans:
        """Places of the kind as those of the shape."""
        return tuple((self._of_shape(start), self._of_shape(end)) for start, end in spans)

    def _of_kind(self, place: int) -> int | None:
        longer = 0
        for start, end, width in self._runs:
            if place <= start:
                break
            if place < end:
                return None
            longer += end - start - width
        return place - longer

    def _of_shape(self, place: int) -> int:
        longer = 0
        for start, end, width in self._runs:
            if place <= start - longer:
                break
            longer += end - start - width
        return place + longer


def getter(spans: Spans) -> Callable[[bytes], object]:
    """What stands in a line at these places."""
    if not spans:
        return itemgetter(slice(0, 0))
    return itemgetter(*(slice(start, end) for start, end in spans))


@dataclass(slots=True, eq=False)
class News:
    """What a kind of line could tell: whose lines told it, and with which kinds of lines after them.

    `kinds` are those of its signs; with `whom` all lines share it that tell the same kinds. `beside` is
    whether that of another writer may follow, which is never of the same record.
    """

    row: Signature | None
    identity: Identity
    kinds: frozenset[object]
    whom: set[object]
    followed_by: set[bytes] = field(default_factory=set)
    beside: bool = False


@dataclass(slots=True, eq=False)
class LineKind:
    """Lines that differ in their numbers alone; `text` is such a line with zeros.

    `alone` is what it tells outside of tracebacks, `begins` the step with which it is a traceback's header.
    """

    text: bytes
    alone: list[News] = field(default_factory=list)
    begins: Step | None = None


@dataclass(slots=True, eq=False)
class Shape:
    """A kind at one layout: where such a line tells its writer, and which writers are known."""

    kind: LineKind
    layout: Layout
    of: Callable[[bytes], object]
    writers: dict[object, object]
    start: int
    whom: dict[News, Callable[[bytes], object]] = field(default_factory=dict)
    """Who it is about, for what it could tell."""
    settled: dict[object, tuple[Writer, News]] = field(default_factory=dict)
    """The writers of lines that told nothing new, and what these told before, by all that tells whom they are
    about."""
    of_settled: Callable[[bytes], object] = itemgetter(slice(0, 0))
    _told: int = 0

    def whom_of(self, news: News) -> Callable[[bytes], object]:
        """What tells, in a line of this shape, who it is about."""
        found = self.whom.get(news)
        if found is None:
            found = self.whom[news] = getter(self.layout.of_shape(news.identity.spans))
        return found

    def told(self, told: list[News], line: bytes) -> News | None:
        """Which of these a line of this shape tells no more, as it was told of the same before."""
        for news in told:
            of = self.whom.get(news) or self.whom_of(news)
            if of(line) in news.whom:
                return news
        return None

    def settle(self, line: bytes, writer: Writer, news: News) -> None:
        """Outside of tracebacks this line tells nothing new, nor would another one about the same."""
        if self._told != len(self.kind.alone):
            self._told = len(self.kind.alone)
            self.settled.clear()
            # An identity begins with the places of the writer.
            spans = {span for each in self.kind.alone for span in each.identity.spans}
            self.of_settled = getter(self.layout.of_shape(tuple(sorted(spans))))
        self.settled[self.of_settled(line)] = writer, news


@dataclass(slots=True, eq=False)
class Step:
    """A line on the way of a known traceback; `news` is what it tells where it is the exception."""

    kind: LineKind
    before: Step | None
    lines: int
    size: int
    next: dict[LineKind, Step] = field(default_factory=dict)
    news: list[News] = field(default_factory=list)
    usual: Sequence[LineKind] = ()
    usual_news: list[News] = field(default_factory=list)
    """Of a header: the kinds of the traceback that was learned last, and what its exception tells."""

    def way(self) -> list[LineKind]:
        """The kinds from the header to this line."""
        step: Step | None = self
        kinds = []
        while step is not None:
            kinds.append(step.kind)
            step = step.before
        return kinds[::-1]


@dataclass(slots=True, eq=False)
class FollowedSoFar:
    """A traceback that is known so far: the last line's step, the header's number and time, its lines."""

    step: Step
    index: int
    time: float | None
    lines: list[bytes]


@dataclass(frozen=True, slots=True)
class Glance:
    """Lines from a number on, one more than are searched, their shapes, and what is known of each.

    Where there is no further line the shapes have one that no line has.
    """

    start: int
    lines: Sequence[bytes]
    shapes: list[bytes]
    found: list[Shape | None]

    def unknown(self) -> list[int]:
        """The numbers of the lines of which nothing is known."""
        return [number for number, shape in enumerate(self.found[:-1], self.start) if shape is None]
