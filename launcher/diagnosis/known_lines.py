"""Lines of a storm that are known: the same again, of the same rank and host, tells nothing new.

A line is known by its kind, which is the line but for its numbers (see `known_shapes`), by whom it is about
(see `line_identity`), and by what follows it where that may be of its record. Tracebacks are known as ways
from kind to kind, from the header to the exception; each writer goes its own way, however its lines are mixed
with those of others. What is left out would have changed nothing, so the answers are the same without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from typing import Final

from launcher.diagnosis.known_shapes import (
    FollowedSoFar,
    Glance,
    Identity,
    Layout,
    LineKind,
    News,
    Shape,
    Spans,
    Step,
    Writer,
    getter,
    kind_of,
    shape_of,
)
from launcher.diagnosis.signatures.signature import Signature
from launcher.text.line_length import LONGEST_LINE
from launcher.text.line_origin import origin_of, spans_of_origin

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

_UNKNOWN: Final = object()


class KnownLines:
    """What is known of one stream. `is_busy` is whether so many of its lines are looked at that it pays."""

    def __init__(self, bounds: KnownBounds) -> None:
        self.is_busy = False
        self.revision = 0
        """Goes on whenever something was forgotten."""
        self.open: Collection[Writer] = ()
        """The writers with a traceback of which every line is looked at."""
        self._under_way: dict[Writer, FollowedSoFar] = {}
        self._shapes: dict[bytes, Shape] = {}
        self._kinds: dict[bytes, dict[Spans, LineKind]] = {}
        """Those of one text, by where they tell their writer."""
        self._others: set[bytes] = set()
        """Shapes of which no kind is known."""
        self._writers: dict[tuple[bytes, Spans], dict[object, object]] = {}
        self._told: dict[tuple[object, ...], set[object]] = {}
        """To whom something is told, by the kind of prefix, how many places tell whom, and the signs."""
        self._bounds = bounds
        bounds.streams.append(self)

    @property
    def follows(self) -> bool:
        """Whether a traceback is under way of which the lines were left out so far."""
        return bool(self._under_way)

    def forget(self) -> None:
        """What comes now counts anew: training went on, or was started again."""
        self.revision += 1
        self._shapes.clear()
        self._kinds.clear()
        self._others.clear()
        self._writers.clear()
        self._told.clear()

    def take(self, writer: Writer) -> FollowedSoFar | None:
        """The traceback of a writer that is under way, which from now on somebody else follows."""
        under_way = self._under_way.pop(writer, None)
        if under_way is not None:
            self._bounds.under_way -= 1
        return under_way

    def messages(self, lines: Sequence[bytes]) -> list[str]:
        """Lines of a traceback that was followed, without their prefixes."""
        shapes = [self._shapes.get(shape_of(line)) for line in lines]
        texts = [line.decode("ascii") for line in lines]
        return [
            text[origin_of(text).start if shape is None else shape.start :]
            for text, shape in zip(texts, shapes, strict=True)
        ]

    def writers(self) -> list[Writer]:
        """Those of whom a traceback is under way."""
        return list(self._under_way)

    def glance(self, lines: Sequence[bytes], start: int, end: int) -> Glance:
        """What is known of the kinds of the lines from `start` to `end`."""
        shapes = shape_of(b"\n".join(lines[start : end + 1])).split(b"\n")
        found = list(map(self._shapes.get, shapes))
        if len(lines) <= end:
            shapes.append(b"\n")  # no line has this shape
            found.append(None)
        if self._kinds and None in found:
            for at, shape in enumerate(shapes[: len(lines) - start]):
                if found[at] is None:
                    found[at] = self._of_known_kind(shape, lines[start + at])
        return Glance(start, shapes, found)

    def left(
        self, lines: Sequence[bytes], glance: Glance, time_of: Callable[[int], float | None], first: int
    ) -> Iterator[int]:
        """The numbers of the lines at a glance that are to be looked at, each before the next one is judged.

        `first` is the number of the first of all lines in its stream, `time_of` tells the time by such a
        number.
        """
        ours = lines[glance.start : glance.start + len(glance.found)]
        begun = 0
        if not (self._under_way or self.open):
            for at in self._unsettled(ours, glance.found):
                shape = glance.found[at] or self._of_known_kind(glance.shapes[at], ours[at])
                glance.found[at] = shape  # It may be known since the glance.
                begun = at
                if shape is not None and shape.kind.begins is not None:
                    break
                if shape is None or self._is_news_alone(shape, ours, glance, at):
                    yield glance.start + at
                    begun = at + 1
                    if self.open:
                        break
            else:
                return
        yield from self._left_of_tracebacks(ours, glance, time_of, first, begun)

    def _is_news_alone(self, shape: Shape, lines: Sequence[bytes], glance: Glance, at: int) -> bool:
        """Whether a line outside of tracebacks may tell something that was not told before; where not, it is
        settled for what comes."""
        news = shape.told(shape.kind.alone, lines[at])
        if news is None:
            return True
        writer = self._writer_of(lines[at], shape)
        shape.settle(lines[at], writer, news)
        self._bounds.count(_EACH)
        return self._may_go_on(news, writer, lines, glance, at)

    def _unsettled(self, lines: Sequence[bytes], found: Sequence[Shape | None]) -> list[int]:
        """The places of the lines that may tell something new, as far as is known by now, where no traceback
        is followed."""
        told = [
            None if shape is None else shape.settled.get(shape.of_settled(line))
            for line, shape in zip(lines, found, strict=False)
        ]
        told.append(None)
        return [
            at
            for at, (this, after, shape) in enumerate(zip(told, told[1:], found[1:], strict=False))
            if this is None
            or after is None
            or shape is None
            or (
                shape.kind.text not in this[1].followed_by
                if this[0] is None or after[0] is None or this[0] == after[0]
                else not this[1].beside
            )
        ]

    def _left_of_tracebacks(
        self,
        ours: Sequence[bytes],
        glance: Glance,
        time_of: Callable[[int], float | None],
        first: int,
        begun: int,
    ) -> Iterator[int]:
        """Those of the lines from a place on, each of which may be of a traceback."""
        start, shapes, found = glance.start, glance.shapes, glance.found
        under_way, bounds = self._under_way, self._bounds
        kinds = [None if shape is None else shape.kind for shape in found]
        writers = [
            _UNKNOWN if shape is None else shape.writers.get(shape.of(line), _UNKNOWN)
            for line, shape in zip(ours, found, strict=False)
        ]
        writers.append(_UNKNOWN)
        each = zip(range(len(found) - 1), found, kinds, ours, writers, strict=False)
        for at, shape, kind, line, writer in islice(each, begun, None):
            if shape is None or kind is None:
                shape = found[at] = self._of_known_kind(shapes[at], line)  # It may be known since the glance.
                if shape is None:
                    yield start + at
                    continue
                kind = kinds[at] = shape.kind
            if writer is _UNKNOWN:
                writer = writers[at] = self._writer_of(line, shape)
            followed = under_way.get(writer)  # type: ignore[call-overload]
            if followed is not None:
                step = followed.step.next.get(kind)
                if step is None:
                    yield start + at
                elif not step.news:
                    followed.step = step
                    followed.lines.append(line)
                elif self._is_news(step.news, shape, writer, ours, glance, at):
                    yield start + at
                else:
                    del under_way[writer]  # type: ignore[arg-type]
                    bounds.under_way -= 1
            elif writer in self.open:
                yield start + at
            elif kind.begins is not None and bounds.under_way < _MOST_UNDER_WAY:
                header, index = kind.begins, first + start + at
                size = len(header.usual)
                if (
                    header.usual_news
                    and kinds[at : at + size] == header.usual
                    and writers[at : at + size].count(writer) == size
                    and at + size < len(found)
                    and (last := found[at + size - 1]) is not None
                    and not self._is_news(header.usual_news, last, writer, ours, glance, at + size - 1)
                ):
                    next(islice(each, size - 2, None), None)  # All of it lies here, and is known.
                    continue
                under_way[writer] = FollowedSoFar(header, index, time_of(index), [line])  # type: ignore[index]
                bounds.under_way += 1
            elif self._is_news(kind.alone, shape, writer, ours, glance, at):
                yield start + at

    def _is_news(
        self,
        told: list[News],
        shape: Shape,
        writer: object,
        lines: Sequence[bytes],
        glance: Glance,
        at: int,
    ) -> bool:
        """Whether a line may tell something that was not told before."""
        news = shape.told(told, lines[at])
        return news is None or self._may_go_on(news, writer, lines, glance, at)

    def _may_go_on(self, news: News, writer: object, lines: Sequence[bytes], glance: Glance, at: int) -> bool:
        """Whether the line after a known one may be of its record, and new."""
        shape = glance.found[at + 1]
        if writer is not None and at + 1 < len(lines):
            following = (
                self._writer_of(lines[at + 1], shape)
                if shape is not None
                else origin_of(lines[at + 1].decode("utf-8", "replace")).writer
            )
            if following is not None and following != writer:
                return not news.beside
        kind = kind_of(glance.shapes[at + 1]) if shape is None else shape.kind.text
        return kind not in news.followed_by

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
                header.usual, header.usual_news = way, told
        news = self._news(told, shape, row, identity, kinds)
        if news is None:
            return
        whom = shape.whom_of(news)(raw)
        if whom not in news.whom:
            news.whom.add(whom)
            self._bounds.count(_EACH)
        if following is None:
            news.beside = True
            return
        kind = kind_of(shape_of(following))
        if kind not in news.followed_by:
            news.followed_by.add(kind)
            self._bounds.count(_EACH + len(kind))

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
            if news.row is row and news.identity == identity and news.kinds == kinds:
                return news
        if len(told) >= _MOST_NEWS:
            return None
        of_whom = (id(shape.writers), len(identity.spans), kinds, shape.kind if identity.is_own else None)
        news = News(row, identity, kinds, self._told.setdefault(of_whom, set()))
        told.append(news)
        self._bounds.count(_EACH)
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
                self._bounds.count(_EACH)
            return kind.begins
        step = before.next.get(kind)
        if step is None:
            if before.lines >= _LONGEST_TRACEBACK or before.size + size > _LARGEST_TRACEBACK:
                return None
            step = before.next[kind] = Step(kind, before, before.lines + 1, before.size + size)
            self._bounds.count(_EACH)
        return step

    def _shape(self, raw: bytes) -> Shape:
        shape = shape_of(raw)
        known = self._shapes.get(shape)
        return self._new_shape(shape, kind_of(shape), raw) if known is None else known

    def _of_known_kind(self, shape: bytes, line: bytes) -> Shape | None:
        """The shape of a line, where its kind is known."""
        known = self._shapes.get(shape)
        if known is not None or shape in self._others:
            return known
        text = kind_of(shape)
        if text in self._kinds and len(line) <= LONGEST_LINE:
            return self._new_shape(shape, text, line)
        self._others.add(shape)
        self._bounds.count(_EACH + len(shape))
        return None

    def _new_shape(self, shape: bytes, kind: bytes, line: bytes) -> Shape:
        self._bounds.count(2 * (_EACH + len(shape)))
        if kind not in self._kinds:
            self._kinds[kind] = {}
            self._others.clear()
        text = line.decode("ascii")
        start, spans = origin_of(text).start, spans_of_origin(text)
        layout = Layout(shape)
        # Where a prefix ends in a number it is its own; so are the lines behind it.
        places = layout.of_kind(((start, start), *spans)) or ((-1, len(shape)), *spans)
        of_kind = self._kinds[kind].setdefault(places, LineKind(kind))
        writers = self._writers.setdefault((kind_of(shape[:start]), places), {})
        known = self._shapes[shape] = Shape(of_kind, layout, getter(spans), spans, writers, start)
        return known

    def _writer_of(self, line: bytes, shape: Shape) -> Writer:
        """The writer of a line, who is known by it from now on."""
        whom = shape.of(line)
        writer = shape.writers.get(whom, _UNKNOWN)
        if writer is _UNKNOWN:
            writer = shape.writers[whom] = origin_of(line.decode("ascii")).writer
            self._bounds.count(_EACH)
        return writer  # type: ignore[return-value]


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
