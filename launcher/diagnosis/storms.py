"""Lines of a storm that are known: the same again, of the same rank and host, tells nothing new.

A line is known by its kind, which is the line but for its numbers (`logs.digits`), by whom it is about, which
`signs.topics` says, and by what follows it where that may be of its record. Tracebacks are known as ways
from kind to kind, from the header to the exception; each writer goes its own way, however its lines are
mixed with those of others. What is left out would have changed nothing, so the answers are the same without
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from operator import itemgetter
from typing import Final, NamedTuple

from launcher.diagnosis.logs.lines import Writer
from launcher.diagnosis.signatures import Signature
from launcher.frozen import frozen
from launcher.text.log_lines import (
    LONGEST_LINE,
    Layout,
    Spans,
    digit_kind,
    digit_shape,
    origin_of,
    places_getter,
    spans_of_origin,
)

_MOST_BYTES = 16_000_000
"""What may be known of all streams together, in bytes of memory, roughly; beyond it all is forgotten."""

_MOST_UNDER_WAY = 2048
"""Tracebacks that may be followed at one time, of which the lines are kept."""


_LONGEST_TRACEBACK, _LARGEST_TRACEBACK = 100, 16_000
"""Lines and bytes of a traceback that is followed."""

_EACH = 200
"""Bytes of memory that whatever is known takes beside its text, roughly."""

_MOST_NEWS = 8
"""Ways to tell whom lines of one kind are about, which differ in the numbers of which the digits count."""


class _UnknownWriter(Enum):
    UNKNOWN = auto()


UNKNOWN: Final = _UnknownWriter.UNKNOWN
"""The writer of a line of whom nothing is known, as None is a writer of whom no line tells."""


class KnownLines:
    """What is known of the lines of one stream, so that others like them are left out.

    `is_busy` is whether so many lines are looked at that leaving some out pays.
    """

    def __init__(self, bounds: KnownBounds) -> None:
        self.is_busy = False
        self.revision = 0
        """Goes on whenever something was forgotten."""
        self.open: Collection[Writer] = ()
        """The writers with a traceback of which every line is looked at."""
        self._kinds = _KnownKinds(bounds.count)
        self._under_way: dict[Writer, FollowedSoFar] = {}
        self._bounds = bounds
        bounds.streams.append(self)

    @property
    def is_following(self) -> bool:
        """Whether a traceback is under way of which the lines were left out so far."""
        return bool(self._under_way)

    @property
    def may_follow_more(self) -> bool:
        """Whether there is room to follow another traceback."""
        return self._bounds.under_way < _MOST_UNDER_WAY

    def forget(self) -> None:
        """What comes now counts anew: training went on, or was started again."""
        self.revision += 1
        self._kinds.forget()

    def follow(self, writer: Writer, begun: FollowedSoFar) -> None:
        """Follow a traceback of a writer, of which the lines are left out until one tells something new."""
        self._under_way[writer] = begun
        self._bounds.under_way += 1

    def take_over(self, writer: Writer) -> FollowedSoFar | None:
        """The traceback of a writer that is under way, which from now on somebody else follows."""
        under_way = self._under_way.pop(writer, None)
        if under_way is not None:
            self._bounds.under_way -= 1
        return under_way

    def writers(self) -> list[Writer]:
        """Those of whom a traceback is under way."""
        return list(self._under_way)

    def messages(self, lines: Sequence[bytes]) -> list[str]:
        """Lines of a traceback that was followed, without their prefixes."""
        return self._kinds.messages(lines)

    def learn_step(self, raw: bytes, before: Step | None) -> Step | None:
        """The step with this line, which tells nothing, of a traceback; None where it is not to be followed.

        `before` is the step before it, None for a header.
        """
        return self._kinds.step(raw, before)

    def learn(
        self,
        raw: bytes,
        identity: Identity,
        row: Signature | None,
        sign_keys: frozenset[object],
        following: bytes | None,
        after: Step | None = None,
    ) -> None:
        """This line told all that another of its kind about the same could tell.

        `row` is the one that counts for it, `sign_keys` are the kinds of the signs in it, `following` is the
        line after it, None for one of another writer; `after` is the step before it, where it is the
        exception of a traceback.
        """
        self._kinds.learn(raw, identity, row, sign_keys, following, after)

    def look_up(self, lines: Sequence[bytes], start: int, end: int) -> KnownWindow:
        """What is known of the kinds of the lines from `start` to `end`."""
        return self._kinds.look_up(lines, start, end)

    def leaves_out(self, line: bytes, after: Sequence[bytes]) -> bool:
        """Whether a line outside of tracebacks, with those after it, tells only what was told before."""
        if not self._kinds.knows_any:
            return False
        window = self._kinds.look_up((line, *after[:1]), 0, 1)
        shape = window.shapes_known[0]
        if shape is None or shape.kind.begins is not None:
            return False
        return not self._kinds.is_news_alone(shape, window, 0)

    def lines_to_look_at(
        self, window: KnownWindow, time_of: Callable[[int], float | None], first: int
    ) -> Iterator[int]:
        """The numbers of the lines of a window that are to be looked at, each before the next one is judged.

        `first` is the number of the first of all lines in its stream, `time_of` tells the time by such a
        number.
        """
        kinds, begun = self._kinds, 0
        if not (self._under_way or self.open):
            for at in _places_with_news(window):
                shape = window.shapes_known[at] or kinds.of_known_kind(window.shapes[at], window.lines[at])
                window.shapes_known[at] = shape  # It may be known since the window was looked up.
                begun = at
                if shape is not None and shape.kind.begins is not None:
                    break
                if shape is None or kinds.is_news_alone(shape, window, at):
                    yield window.start + at
                    begun = at + 1
                    if self.open:
                        break
            else:
                return
        yield from _WindowWalk(self, kinds, self._under_way, window, time_of, first).numbers(begun)


def _places_with_news(window: KnownWindow) -> list[int]:
    """The places of the lines that may tell something new, as far as is known by now, where no traceback
    is followed."""
    known = [
        None if shape is None else shape.known_alone.get(shape.known_alone_key(line))
        for line, shape in zip(window.lines, window.shapes_known, strict=False)
    ]
    known.append(None)
    return [
        at
        for at, (this, after, shape) in enumerate(
            zip(known, known[1:], window.shapes_known[1:], strict=False)
        )
        if this is None
        or after is None
        or shape is None
        or (
            shape.kind.text not in this[1].known_next_kinds
            if this[0] is None or after[0] is None or this[0] == after[0]
            else not this[1].is_complete_beside_others
        )
    ]


class _WindowWalk:
    """Which lines of a window are to be looked at, where each may be of a traceback.

    `first` is the number of the window's first line in its stream, `time_of` tells the time by such a number.
    """

    def __init__(
        self,
        known: KnownLines,
        kinds: _KnownKinds,
        under_way: Mapping[Writer, FollowedSoFar],
        window: KnownWindow,
        time_of: Callable[[int], float | None],
        first: int,
    ) -> None:
        self._known = known
        self._known_kinds = kinds
        self._under_way = under_way
        self._window = window
        self._time_of = time_of
        self._first = first + window.start
        self._kinds = [None if shape is None else shape.kind for shape in window.shapes_known]
        self._writers: list[Writer | _UnknownWriter] = [
            UNKNOWN if shape is None else shape.writers.get(shape.writer_key(line), UNKNOWN)
            for line, shape in zip(window.lines, window.shapes_known, strict=False)
        ]
        self._writers.append(UNKNOWN)

    def numbers(self, at: int) -> Iterator[int]:
        """The numbers of such lines from a place on, each before the next line is judged."""
        window, known, kinds, writers = self._window, self._known, self._known_kinds, self._writers
        shapes, lines, under_way = window.shapes_known, window.lines, self._under_way
        end = len(shapes) - 1
        while at < end:
            size = 1
            shape = shapes[at] or self._look_up_again(at)
            if shape is None:
                is_wanted = True
            else:
                writer = writers[at]
                if writer is UNKNOWN:
                    writer = writers[at] = kinds.writer_of(lines[at], shape)
                followed = under_way.get(writer)
                if followed is not None:
                    step = followed.step.next.get(shape.kind)
                    if step is not None and not step.news:
                        followed.step = step
                        followed.lines.append(lines[at])
                        at += 1
                        continue
                    is_wanted = step is None or not self._completes(step, shape, writer, at)
                elif writer in known.open:
                    is_wanted = True
                elif shape.kind.begins is not None and known.may_follow_more:
                    is_wanted = False
                    size = self._follow(shape.kind.begins, writer, at)
                else:
                    is_wanted = kinds.is_news(shape.kind.alone, shape, writer, window, at)
            if is_wanted:
                yield window.start + at
            at += size

    def _look_up_again(self, at: int) -> Shape | None:
        """The shape of a line that was not known when the window was looked up."""
        window = self._window
        shape = self._known_kinds.of_known_kind(window.shapes[at], window.lines[at])
        if shape is not None:
            window.shapes_known[at] = shape
            self._kinds[at] = shape.kind
        return shape

    def _completes(self, step: Step, shape: Shape, writer: Writer, at: int) -> bool:
        """Whether the traceback that is followed ends with a line, and told nothing new."""
        if self._known_kinds.is_news(step.news, shape, writer, self._window, at):
            return False
        self._known.take_over(writer)
        return True

    def _follow(self, header: Step, writer: Writer, at: int) -> int:
        """Follow the traceback that begins in a line; returns how many lines of it are done with: all, where
        it lies here and is known."""
        size = len(header.last_way)
        if header.last_way_news and self._kinds[at : at + size] == header.last_way:
            last = at + size - 1
            shapes = self._window.shapes_known
            if (
                self._writers[at : at + size].count(writer) == size
                and last + 1 < len(shapes)
                and (shape := shapes[last]) is not None
                and not self._known_kinds.is_news(header.last_way_news, shape, writer, self._window, last)
            ):
                return size
        index = self._first + at
        self._known.follow(
            writer, FollowedSoFar(header, index, self._time_of(index), [self._window.lines[at]])
        )
        return 1


class KnownBounds:
    """Keeps what is known of all streams together within bounds."""

    def __init__(self) -> None:
        self.streams: list[KnownLines] = []
        self.under_way = 0
        """How many tracebacks are followed at present."""
        self._bytes = 0

    def count(self, size: int) -> None:
        """So many bytes more are known."""
        self._bytes += size
        if self._bytes >= _MOST_BYTES:
            self._bytes = 0
            for stream in self.streams:
                stream.forget()


class _KnownKinds:
    """What is known of the lines of one stream; `count` is called with the bytes that are known beside."""

    def __init__(self, count: Callable[[int], None]) -> None:
        self._count = count
        self._shapes: dict[bytes, Shape] = {}
        self._kinds: dict[bytes, dict[Spans, LineKind]] = {}
        """Those of one text, by where they tell their writer."""
        self._others: set[bytes] = set()
        """Shapes of which no kind is known."""
        self._writers: dict[tuple[bytes, Spans], dict[object, Writer]] = {}
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
        """See `KnownLines.messages`."""
        shapes = [self._shapes.get(digit_shape(line)) for line in lines]
        texts = [line.decode("ascii") for line in lines]
        return [
            text[origin_of(text).start if shape is None else shape.start :]
            for text, shape in zip(texts, shapes, strict=True)
        ]

    def look_up(self, lines: Sequence[bytes], start: int, end: int) -> KnownWindow:
        """See `KnownLines.look_up`."""
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

    def is_news(self, told: list[News], shape: Shape, writer: Writer, window: KnownWindow, at: int) -> bool:
        """Whether a line of a window may tell something that was not told before."""
        news = shape.find_told(told, window.lines[at])
        return news is None or self._may_go_on(news, writer, window, at)

    def is_news_alone(self, shape: Shape, window: KnownWindow, at: int) -> bool:
        """The same of a line outside of tracebacks; where it is none, it is settled for what comes."""
        line = window.lines[at]
        news = shape.find_told(shape.kind.alone, line)
        if news is None:
            return True
        writer = self.writer_of(line, shape)
        shape.mark_known_alone(line, writer, news)
        self._count(_EACH)
        return self._may_go_on(news, writer, window, at)

    def _may_go_on(self, news: News, writer: Writer, window: KnownWindow, at: int) -> bool:
        """Whether the line after a known one may be of its record, and new."""
        lines, shape = window.lines, window.shapes_known[at + 1]
        if writer is not None and at + 1 < len(lines):
            following = (
                self.writer_of(lines[at + 1], shape)
                if shape is not None
                else origin_of(lines[at + 1].decode("utf-8", "replace")).writer
            )
            if following is not None and following != writer:
                return not news.is_complete_beside_others
        kind = digit_kind(window.shapes[at + 1]) if shape is None else shape.kind.text
        return kind not in news.known_next_kinds

    def learn(
        self,
        raw: bytes,
        identity: Identity,
        row: Signature | None,
        sign_keys: frozenset[object],
        following: bytes | None,
        after: Step | None = None,
    ) -> None:
        """See `KnownLines.learn`."""
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
        news = self._news(told, shape, row, identity, sign_keys)
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
        sign_keys: frozenset[object],
    ) -> News | None:
        """What lines like this one tell, added where there is room for it."""
        for news in told:
            if news.row is row and news.identity == identity and news.sign_keys == sign_keys:
                return news
        if len(told) >= _MOST_NEWS:
            return None
        of_whom = (id(shape.writers), len(identity.spans), sign_keys, shape.kind if identity.is_own else None)
        news = News(row, identity, sign_keys, self._told.setdefault(of_whom, set()))
        told.append(news)
        self._count(_EACH)
        return news

    def step(self, raw: bytes, before: Step | None) -> Step | None:
        """See `KnownLines.learn_step`."""
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
        return writer


class Identity(NamedTuple):
    """How a line is known again: by what stands at `spans`, which are places of its kind. `is_own` is whether
    only lines of this kind tell what it tells."""

    spans: Spans
    is_own: bool = False


@dataclass(slots=True, eq=False)
class News:
    """What a kind of line could tell: whose lines told it, and with which kinds of lines after them.

    `sign_keys` are the kinds of its signs; `known_subjects` is shared by all lines that tell the same kinds.
    `is_complete_beside_others` is whether a line of another writer may follow, which is never of the same
    record.
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
    writers: dict[object, Writer]
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


@frozen
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
