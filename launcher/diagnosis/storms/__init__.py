"""Lines of a storm that are known: the same again, of the same rank and host, tells nothing new.

A line is known by its kind, which is the line but for its numbers (`kinds`), by whom it is about, which
`signs.topics` says, and by what follows it where that may be of its record. Tracebacks are known as ways
from kind to kind, from the header to the exception; each writer goes its own way, however its lines are
mixed with those of others. What is left out would have changed nothing, so the answers are the same without
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

from launcher.diagnosis.storms.kinds import UNKNOWN, FollowedSoFar, KnownKinds, KnownWindow, Writer

_MOST_BYTES = 16_000_000
"""What may be known of all streams together, in bytes of memory, roughly; beyond it all is forgotten."""

_MOST_UNDER_WAY = 2048
"""Tracebacks that may be followed at one time, of which the lines are kept."""


class KnownLines:
    """What of one stream is left out. `is_busy` is whether so many lines are looked at that it pays."""

    def __init__(self, bounds: KnownBounds) -> None:
        self.is_busy = False
        self.revision = 0
        """Goes on whenever something was forgotten."""
        self.open: Collection[Writer] = ()
        """The writers with a traceback of which every line is looked at."""
        self.kinds = KnownKinds(bounds.count)
        self._under_way: dict[Writer, FollowedSoFar] = {}
        self._bounds = bounds
        bounds.streams.append(self)

    @property
    def is_following(self) -> bool:
        """Whether a traceback is under way of which the lines were left out so far."""
        return bool(self._under_way)

    def forget(self) -> None:
        """What comes now counts anew: training went on, or was started again."""
        self.revision += 1
        self.kinds.forget()

    def take_over(self, writer: Writer) -> FollowedSoFar | None:
        """The traceback of a writer that is under way, which from now on somebody else follows."""
        under_way = self._under_way.pop(writer, None)
        if under_way is not None:
            self._bounds.under_way -= 1
        return under_way

    def writers(self) -> list[Writer]:
        """Those of whom a traceback is under way."""
        return list(self._under_way)

    def leaves_out(self, line: bytes, after: Sequence[bytes]) -> bool:
        """Whether a line outside of tracebacks, with those after it, tells only what was told before."""
        if not self.kinds.knows_any:
            return False
        glance = self.kinds.look_up((line, *after[:1]), 0, 1)
        shape = glance.shapes_known[0]
        if shape is None or shape.kind.begins is not None:
            return False
        return not self.kinds.is_news_alone(shape, glance, 0)

    def lines_to_look_at(
        self, glance: KnownWindow, time_of: Callable[[int], float | None], first: int
    ) -> Iterator[int]:
        """The numbers of the lines at a glance that are to be looked at, each before the next one is judged.

        `first` is the number of the first of all lines in its stream, `time_of` tells the time by such a
        number.
        """
        begun = 0
        if not (self._under_way or self.open):
            for at in _places_with_news(glance):
                shape = glance.shapes_known[at] or self.kinds.of_known_kind(
                    glance.shapes[at], glance.lines[at]
                )
                glance.shapes_known[at] = shape  # It may be known since the glance.
                begun = at
                if shape is not None and shape.kind.begins is not None:
                    break
                if shape is None or self.kinds.is_news_alone(shape, glance, at):
                    yield glance.start + at
                    begun = at + 1
                    if self.open:
                        break
            else:
                return
        yield from self._left_of_tracebacks(glance, time_of, first, begun)

    def _left_of_tracebacks(
        self,
        glance: KnownWindow,
        time_of: Callable[[int], float | None],
        first: int,
        begun: int,
    ) -> Iterator[int]:
        """Those of the lines from a place on, each of which may be of a traceback."""
        start, ours, found, known = glance.start, glance.lines, glance.shapes_known, self.kinds
        under_way, bounds = self._under_way, self._bounds
        kinds = [None if shape is None else shape.kind for shape in found]
        writers = [
            UNKNOWN if shape is None else shape.writers.get(shape.writer_key(line), UNKNOWN)
            for line, shape in zip(ours, found, strict=False)
        ]
        writers.append(UNKNOWN)
        each = zip(range(len(found) - 1), found, kinds, ours, writers, strict=False)
        for at, shape, kind, line, writer in islice(each, begun, None):
            if shape is None or kind is None:
                shape = found[at] = known.of_known_kind(
                    glance.shapes[at], line
                )  # It may be known since the glance.
                if shape is None:
                    yield start + at
                    continue
                kind = kinds[at] = shape.kind
            if writer is UNKNOWN:
                writer = writers[at] = known.writer_of(line, shape)
            followed = under_way.get(writer)  # type: ignore[call-overload]
            if followed is not None:
                step = followed.step.next.get(kind)
                if step is None:
                    yield start + at
                elif not step.news:
                    followed.step = step
                    followed.lines.append(line)
                elif known.is_news(step.news, shape, writer, glance, at):
                    yield start + at
                else:
                    del under_way[writer]  # type: ignore[arg-type]
                    bounds.under_way -= 1
            elif writer in self.open:
                yield start + at
            elif kind.begins is not None and bounds.under_way < _MOST_UNDER_WAY:
                header, index = kind.begins, first + start + at
                size = len(header.last_way)
                if (
                    header.last_way_news
                    and kinds[at : at + size] == header.last_way
                    and writers[at : at + size].count(writer) == size
                    and at + size < len(found)
                    and (last := found[at + size - 1]) is not None
                    and not known.is_news(header.last_way_news, last, writer, glance, at + size - 1)
                ):
                    next(islice(each, size - 2, None), None)  # All of it lies here, and is known.
                    continue
                under_way[writer] = FollowedSoFar(header, index, time_of(index), [line])  # type: ignore[index]
                bounds.under_way += 1
            elif known.is_news(kind.alone, shape, writer, glance, at):
                yield start + at


def _places_with_news(glance: KnownWindow) -> list[int]:
    """The places of the lines that may tell something new, as far as is known by now, where no traceback
    is followed."""
    told = [
        None if shape is None else shape.known_alone.get(shape.known_alone_key(line))
        for line, shape in zip(glance.lines, glance.shapes_known, strict=False)
    ]
    told.append(None)
    return [
        at
        for at, (this, after, shape) in enumerate(zip(told, told[1:], glance.shapes_known[1:], strict=False))
        if this is None
        or after is None
        or shape is None
        or (
            shape.kind.text not in this[1].known_next_kinds
            if this[0] is None or after[0] is None or this[0] == after[0]
            else not this[1].is_complete_beside_others
        )
    ]


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
