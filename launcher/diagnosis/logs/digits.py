"""A line but for its digits: the shape, in which each is a zero, and the kind, in which numbers of like width
are one.

In a shape everything stands where it stood in the line. Places in lines of one kind are those of the kind,
and a `Layout` finds them in a shape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import TypeAlias

Spans: TypeAlias = tuple[tuple[int, int], ...]
"""Places in a text, each from and to."""

_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_POINTER = re.compile(rb"(0x)(?<![0-9A-Za-z]0x)([0-9A-Fa-f]+)")
"""With its literal first, ahead of what may not stand before it, it is sought twelve times as fast."""
_FACTOR = re.compile(rb"(?<![0-9A-Za-z])0(?=x)")
_RUN = re.compile(rb"0+")

WIDEST = (4, 6, 7, 9, 10, 18)
"""Numbers with as many digits as one of these, and no more than it, have one kind: patterns take numbers up
to such a width."""

_WIDTHS = tuple(sum(width > widest for widest in WIDEST) + 1 for width in range(WIDEST[-1] + 1))


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
