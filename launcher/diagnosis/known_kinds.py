"""The kinds of lines that are known in a stream: what they told already, of whom, and who wrote them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from launcher.diagnosis.known_shapes import (
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
    def any(self) -> bool:
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
        shapes = [self._shapes.get(shape_of(line)) for line in lines]
        texts = [line.decode("ascii") for line in lines]
        return [
            text[origin_of(text).start if shape is None else shape.start :]
            for text, shape in zip(texts, shapes, strict=True)
        ]

    def glance(self, lines: Sequence[bytes], start: int, end: int) -> Glance:
        """What is known of the kinds of the lines from `start` to `end`."""
        ours = lines[start : end + 1]
        shapes = shape_of(b"\n".join(ours)).split(b"\n")
        found = list(map(self._shapes.get, shapes))
        if self._kinds and None in found:
            for at, shape in enumerate(shapes):
                if found[at] is None:
                    found[at] = self.of_known_kind(shape, ours[at])
        if len(lines) <= end:
            shapes.append(b"\n")
            found.append(None)
        return Glance(start, ours, shapes, found)

    def is_news(self, told: list[News], shape: Shape, writer: object, glance: Glance, at: int) -> bool:
        """Whether a line at a glance may tell something that was not told before."""
        news = shape.told(told, glance.lines[at])
        return news is None or self._may_go_on(news, writer, glance, at)

    def is_news_alone(self, shape: Shape, glance: Glance, at: int) -> bool:
        """The same of a line outside of tracebacks; where it is none, it is settled for what comes."""
        line = glance.lines[at]
        news = shape.told(shape.kind.alone, line)
        if news is None:
            return True
        writer = self.writer_of(line, shape)
        shape.settle(line, writer, news)
        self._count(_EACH)
        return self._may_go_on(news, writer, glance, at)

    def _may_go_on(self, news: News, writer: object, glance: Glance, at: int) -> bool:
        """Whether the line after a known one may be of its record, and new."""
        lines, shape = glance.lines, glance.found[at + 1]
        if writer is not None and at + 1 < len(lines):
            following = (
                self.writer_of(lines[at + 1], shape)
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
            self._count(_EACH)
        if following is None:
            news.beside = True
            return
        kind = kind_of(shape_of(following))
        if kind not in news.followed_by:
            news.followed_by.add(kind)
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
            if news.row is row and news.identity == identity and news.kinds == kinds:
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
        shape = shape_of(raw)
        known = self._shapes.get(shape)
        return self._new_shape(shape, kind_of(shape), raw) if known is None else known

    def of_known_kind(self, shape: bytes, line: bytes) -> Shape | None:
        """The shape of a line, where its kind is known."""
        known = self._shapes.get(shape)
        if known is not None or shape in self._others:
            return known
        text = kind_of(shape)
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
        writers = self._writers.setdefault((kind_of(shape[:start]), places), {})
        known = self._shapes[shape] = Shape(of_kind, layout, getter(spans), writers, start)
        return known

    def writer_of(self, line: bytes, shape: Shape) -> Writer:
        """The writer of a line, who is known by it from now on."""
        whom = shape.of(line)
        writer = shape.writers.get(whom, UNKNOWN)
        if writer is UNKNOWN:
            writer = shape.writers[whom] = origin_of(line.decode("ascii")).writer
            self._count(_EACH)
        return writer  # type: ignore[return-value]
