"""The kinds of lines that are known in a stream: who wrote them, what they told already and of whom.

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
from typing import Final, NamedTuple, TypeAlias

from launcher.diagnosis.signatures.signature import Signature
from launcher.text.log_lines import LONGEST_LINE, origin_of, spans_of_origin

_LONGEST_TRACEBACK, _LARGEST_TRACEBACK = 100, 16_000
"""Lines and bytes of a traceback that is followed."""

_EACH = 200
"""Bytes of memory that whatever is known takes beside its text, roughly."""

_MOST_NEWS = 8
"""Ways to tell whom lines of one kind are about, which differ in the numbers of which the digits count."""

UNKNOWN: Final = object()
"""The writer of a line of whom nothing is known, as None is a writer of whom no line tells."""


class KnownKinds:
    """What is known of the lines of one stream; `count` is called with the bytes that are known beside."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._shapes: dict[bytes, Shape] = {}
        self._kinds: dict[bytes, dict[Spans, LineKind]] = {}
        """Those of one text, by where they tell their writer."""
        self._others: set[bytes] = set()
        """Shapes of which no kind is known."""
        self._writers: dict[tuple[bytes, Spans], dict[object, object]] = {}
        self._told: dict[tuple[object, ...], set[object]] = {}
        """To whom something is told, by the kind of prefix, how many places tell whom, and the signs."""

    @property
    def knows_any(self) -> bool:
        """Whether any kind is known."""
        return bool(self._kinds)

    def forget(self) -> None:
        """What comes now counts anew."""
        self._shapes.clear()
        self._kinds.clear()
        self._others.clear()
        self._writers.clear()
        self._told.clear()

    def messages(self, lines: Sequence[bytes]) -> list[str]:
        """Lines of a traceback that was followed, without their prefixes."""
        shapes = [self._shapes.get(digit_shape(line)) for line in lines]
        texts = [line.decode("ascii") for line in lines]
        return [
            text[origin_of(text).start if shape is None else shape.start :]
            for text, shape in zip(texts, shapes, strict=True)
        ]

    def look_up(self, lines: Sequence[bytes], start: int, end: int) -> KnownWindow:
        """What is known of the kinds of the lines from `start` to `end`."""
        ours = lines[start : end + 1]
        shapes = digit_shape(b"\n".join(ours)).split(b"\n")
        found = list(map(self._shapes.get, shapes))
        if self._kinds and None in found:
            for at, shape in enumerate(shapes):
                if found[at] is None:
                    found[at] = self.of_known_kind(shape, ours[at])
        if len(lines) <= end:
            shapes.append(b"\n")
            found.append(None)
        return KnownWindow(start, ours, shapes, found)

    def is_news(self, told: list[News], shape: Shape, writer: object, glance: KnownWindow, at: int) -> bool:
        """Whether a line at a glance may tell something that was not told before."""
        news = shape.find_told(told, glance.lines[at])
        return news is None or self._may_go_on(news, writer, glance, at)

    def is_news_alone(self, shape: Shape, glance: KnownWindow, at: int) -> bool:
        """The same of a line outside of tracebacks; where it is none, it is settled for what comes."""
        line = glance.lines[at]
        news = shape.find_told(shape.kind.alone, line)
        if news is None:
            return True
        writer = self.writer_of(line, shape)
        shape.mark_known_alone(line, writer, news)
        self._count(_EACH)
        return self._may_go_on(news, writer, glance, at)

    def _may_go_on(self, news: News, writer: object, glance: KnownWindow, at: int) -> bool:
        """Whether the line after a known one may be of its record, and new."""
        lines, shape = glance.lines, glance.shapes_known[at + 1]
        if writer is not None and at + 1 < len(lines):
            following = (
                self.writer_of(lines[at + 1], shape)
                if shape is not None
                else origin_of(lines[at + 1].decode("utf-8", "replace")).writer
            )
            if following is not None and following != writer:
                return not news.is_complete_beside_others
        kind = digit_kind(glance.shapes[at + 1]) if shape is None else shape.kind.text
        return kind not in news.known_next_kinds

    def learn(
        self,
        raw: bytes,
        identity: Identity,
        row: Signature | None,
        kinds: frozenset[object],
        following: bytes | None,
        after: Step | None = None,
    ) -> None:
        """This line told all that another of its kind about the same could tell.

        `row` is the one that counts for it, `kinds` are those of the signs in it, `following` is the line
        after it, None for one of another writer; `after` is the step before it, where it is the exception of
        a traceback.
        """
        shape = self._shape(raw)
        told = shape.kind.alone
        if after is not None:
            step = self._step(shape, len(raw), after)
            if step is None or step.next:
                return
            told = step.news
            way = step.way()
            header = way[0].begins
            if header is not None:
                header.last_way, header.last_way_news = way, told
        news = self._news(told, shape, row, identity, kinds)
        if news is None:
            return
        whom = shape.subject_key_of(news)(raw)
        if whom not in news.known_subjects:
            news.known_subjects.add(whom)
            self._count(_EACH)
        if following is None:
            news.is_complete_beside_others = True
            return
        kind = digit_kind(digit_shape(following))
        if kind not in news.known_next_kinds:
            news.known_next_kinds.add(kind)
            self._count(_EACH + len(kind))

    def _news(
        self,
        told: list[News],
        shape: Shape,
        row: Signature | None,
        identity: Identity,
        kinds: frozenset[object],
    ) -> News | None:
        """What lines like this one tell, added where there is room for it."""
        for news in told:
            if news.row is row and news.identity == identity and news.sign_keys == kinds:
                return news
        if len(told) >= _MOST_NEWS:
            return None
        of_whom = (id(shape.writers), len(identity.spans), kinds, shape.kind if identity.is_own else None)
        news = News(row, identity, kinds, self._told.setdefault(of_whom, set()))
        told.append(news)
        self._count(_EACH)
        return news

    def step(self, raw: bytes, before: Step | None) -> Step | None:
        """The step with this line, which tells nothing, of a traceback; None where it is not to be followed.

        `before` is the step before it, None for a header.
        """
        step = self._step(self._shape(raw), len(raw), before)
        return None if step is None or step.news else step

    def _step(self, shape: Shape, size: int, before: Step | None) -> Step | None:
        kind = shape.kind
        if before is None:
            if kind.begins is None:
                kind.begins = Step(kind, None, 1, size)
                self._count(_EACH)
            return kind.begins
        step = before.next.get(kind)
        if step is None:
            if before.lines >= _LONGEST_TRACEBACK or before.size + size > _LARGEST_TRACEBACK:
                return None
            step = before.next[kind] = Step(kind, before, before.lines + 1, before.size + size)
            self._count(_EACH)
        return step

    def _shape(self, raw: bytes) -> Shape:
        shape = digit_shape(raw)
        known = self._shapes.get(shape)
        return self._new_shape(shape, digit_kind(shape), raw) if known is None else known

    def of_known_kind(self, shape: bytes, line: bytes) -> Shape | None:
        """The shape of a line, where its kind is known."""
        known = self._shapes.get(shape)
        if known is not None or shape in self._others:
            return known
        text = digit_kind(shape)
        if text in self._kinds and len(line) <= LONGEST_LINE:
            return self._new_shape(shape, text, line)
        self._others.add(shape)
        self._count(_EACH + len(shape))
        return None

    def _new_shape(self, shape: bytes, kind: bytes, line: bytes) -> Shape:
        self._count(2 * (_EACH + len(shape)))
        if kind not in self._kinds:
            self._kinds[kind] = {}
            self._others.clear()
        text = line.decode("ascii")
        start, spans = origin_of(text).start, spans_of_origin(text)
        layout = Layout(shape)
        # Where a prefix ends in a number it is its own; so are the lines behind it.
        places = layout.of_kind(((start, start), *spans)) or ((-1, len(shape)), *spans)
        of_kind = self._kinds[kind].setdefault(places, LineKind(kind))
        writers = self._writers.setdefault((digit_kind(shape[:start]), places), {})
        known = self._shapes[shape] = Shape(of_kind, layout, places_getter(spans), writers, start)
        return known

    def writer_of(self, line: bytes, shape: Shape) -> Writer:
        """The writer of a line, who is known by it from now on."""
        whom = shape.writer_key(line)
        writer = shape.writers.get(whom, UNKNOWN)
        if writer is UNKNOWN:
            writer = shape.writers[whom] = origin_of(line.decode("ascii")).writer
            self._count(_EACH)
        return writer  # type: ignore[return-value]


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


def digit_shape(text: bytes) -> bytes:
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
def digit_kind(shape: bytes) -> bytes:
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


def places_getter(spans: Spans) -> Callable[[bytes], object]:
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
    sign_keys: frozenset[object]
    known_subjects: set[object]
    known_next_kinds: set[bytes] = field(default_factory=set)
    is_complete_beside_others: bool = False


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
    writer_key: Callable[[bytes], object]
    writers: dict[object, object]
    start: int
    subject_keys: dict[News, Callable[[bytes], object]] = field(default_factory=dict)
    """Who it is about, for what it could tell."""
    known_alone: dict[object, tuple[Writer, News]] = field(default_factory=dict)
    """The writers of lines that told nothing new, and what these told before, by all that tells whom they are
    about."""
    known_alone_key: Callable[[bytes], object] = itemgetter(slice(0, 0))
    _known_alone_for: int = 0

    def subject_key_of(self, news: News) -> Callable[[bytes], object]:
        """What tells, in a line of this shape, who it is about."""
        found = self.subject_keys.get(news)
        if found is None:
            found = self.subject_keys[news] = places_getter(self.layout.of_shape(news.identity.spans))
        return found

    def find_told(self, told: list[News], line: bytes) -> News | None:
        """Which of these a line of this shape tells no more, as it was told of the same before."""
        for news in told:
            of = self.subject_keys.get(news) or self.subject_key_of(news)
            if of(line) in news.known_subjects:
                return news
        return None

    def mark_known_alone(self, line: bytes, writer: Writer, news: News) -> None:
        """Outside of tracebacks this line tells nothing new, nor would another one about the same."""
        if self._known_alone_for != len(self.kind.alone):
            self._known_alone_for = len(self.kind.alone)
            self.known_alone.clear()
            # An identity begins with the places of the writer.
            spans = {span for each in self.kind.alone for span in each.identity.spans}
            self.known_alone_key = places_getter(self.layout.of_shape(tuple(sorted(spans))))
        self.known_alone[self.known_alone_key(line)] = writer, news


@dataclass(slots=True, eq=False)
class Step:
    """A line on the way of a known traceback; `news` is what it tells where it is the exception."""

    kind: LineKind
    before: Step | None
    lines: int
    size: int
    next: dict[LineKind, Step] = field(default_factory=dict)
    news: list[News] = field(default_factory=list)
    last_way: Sequence[LineKind] = ()
    last_way_news: list[News] = field(default_factory=list)
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
class KnownWindow:
    """Lines from a number on, one more than are searched, their shapes, and what is known of each.

    Where there is no further line the shapes have one that no line has.
    """

    start: int
    lines: Sequence[bytes]
    shapes: list[bytes]
    shapes_known: list[Shape | None]

    def unknown(self) -> list[int]:
        """The numbers of the lines of which nothing is known."""
        return [number for number, shape in enumerate(self.shapes_known[:-1], self.start) if shape is None]
