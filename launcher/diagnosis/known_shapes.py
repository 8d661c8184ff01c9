"""What is known of lines by their shapes: who wrote them, what they tell, and the ways that tracebacks go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from launcher.diagnosis.signatures.signature import Signature

_ZEROS = bytes.maketrans(b"123456789", b"000000000")

Spans: TypeAlias = tuple[tuple[int, int], ...]
Writer: TypeAlias = "int | str | None"


class Identity(NamedTuple):
    """How a line is known again: by what stands at `spans`, unless one of these literals of lower case
    stands at one of the `unless`, each from and to."""

    spans: Spans
    unless: tuple[tuple[int, int, frozenset[bytes]], ...] = ()


def shape_of(text: bytes) -> bytes:
    """The text with each digit made a zero, so that everything stands where it stood."""
    return text.translate(_ZEROS)


def getter(spans: Spans) -> Callable[[bytes], object]:
    """What stands in a line at these places."""
    if not spans:
        return itemgetter(slice(0, 0))
    return itemgetter(*(slice(start, end) for start, end in spans))


@dataclass(slots=True, eq=False)
class News:
    """What a kind of line could tell: whose lines told it, and with which lines after them.

    `kinds` are those of its signs; with `whom` all lines share it that tell the same kinds. `beside` is
    whether that of another writer may follow, which is never of the same record.
    """

    row: Signature | None
    identity: Identity
    of: Callable[[bytes], object]
    kinds: frozenset[object]
    whom: set[object]
    followed_by: set[bytes] = field(default_factory=set)
    beside: bool = False


@dataclass(slots=True, eq=False)
class Shape:
    """A kind of line: where it tells its writer, which writers are known, and where the message begins.

    `alone` is what it tells outside of tracebacks, `begins` the step with which it is a traceback's header.
    """

    of: Callable[[bytes], object]
    writers: dict[object, object]
    start: int
    alone: News | None = None
    begins: Step | None = None


@dataclass(slots=True, eq=False)
class Step:
    """A line on the way of a known traceback; `news` is what it tells where it is the exception."""

    shape: Shape
    before: Step | None
    lines: int
    size: int
    next: dict[Shape, Step] = field(default_factory=dict)
    news: News | None = None
    usual: Sequence[Shape] = ()
    usual_news: News | None = None
    """Of a header: the shapes of the traceback that was learned last, and what its exception tells."""

    def way(self) -> list[Shape]:
        """The shapes from the header to this line."""
        step: Step | None = self
        shapes = []
        while step is not None:
            shapes.append(step.shape)
            step = step.before
        return shapes[::-1]


@dataclass(slots=True, eq=False)
class FollowedSoFar:
    """A traceback that is known so far: the last line's step, the header's number and time, its lines."""

    step: Step
    index: int
    time: float | None
    lines: list[bytes]

    def messages(self) -> list[str]:
        """The lines without their prefixes."""
        way = self.step.way()
        return [line[shape.start :].decode("ascii") for line, shape in zip(self.lines, way, strict=True)]


@dataclass(frozen=True, slots=True)
class Glance:
    """The shapes of lines from a number on, of one more than are searched, and what is known of each."""

    start: int
    shapes: list[bytes]
    found: list[Shape | None]

    def unknown(self) -> list[int]:
        """The numbers of the lines of which nothing is known."""
        return [number for number, shape in enumerate(self.found[:-1], self.start) if shape is None]
