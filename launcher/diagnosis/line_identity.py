"""Whom a line is about, and whether another line of its shape could bring something new.

What moves something each time it is printed (a restart, a step, a collective, the size of the world) is
never the same again. Where a pattern looks at single digits, all digits of the line count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from launcher.diagnosis import analysis_lines, attempts, rank_lines, stack_lines, torchrun_table
from launcher.diagnosis.known_shapes import Identity, shape_of
from launcher.diagnosis.progress import counters_in
from launcher.diagnosis.record import Line
from launcher.diagnosis.signatures.signature import Signature
from launcher.diagnosis.signatures.table import CONTEXTS, SIGNATURES
from launcher.diagnosis.tracebacks import BOX_END, HEADER
from launcher.diagnosis.world_size import LITERALS as WORLD_SIZE_LITERALS
from launcher.text.line_length import LONGEST_LINE
from launcher.text.line_origin import spans_of_origin

OF_THE_JOB: Final = (
    "slipway: restart ",
    "reporting training success",
    "reporting training failure",
    "exception ignored",
    "exception in thread",
)
"""Lower-case parts of lines that the reader itself acts on, each time that they come."""

_DIGIT = re.compile(r"\d")
_ANY_DIGIT = re.compile(r"\\d|\{\d*(?:,\d*)?\}")
_GROUP = re.compile(r"\[PG [^\]\[]{0,200}Rank \d{1,6}\]|\bRank \d{1,6}\]")
"""Where lines of a process group tell the group and the rank."""


def _one_of(literals: Sequence[str]) -> re.Pattern[bytes]:
    shapes = sorted({shape_of(literal.encode()) for literal in literals})
    return re.compile(b"|".join(map(re.escape, shapes)))


def _looks_at_digits(row: Signature) -> bool:
    return bool(_DIGIT.search(_ANY_DIGIT.sub("", row.pattern.pattern)) or _DIGIT.search(row.literal))


_NEVER = _one_of(
    [
        *OF_THE_JOB,
        *attempts.LITERALS,
        *WORLD_SIZE_LITERALS,
        *rank_lines.LITERALS,
        *stack_lines.LITERALS,
        *analysis_lines.LITERALS,
        *(part.lower() for part in rank_lines.OF_COLLECTIVES),
        *(context.literal for context in CONTEXTS),
        torchrun_table.TITLE,
    ]
)
_OPENS = _one_of((HEADER.lower(), BOX_END))
_LITERALS_WITH_DIGITS = {row.literal.encode() for row in SIGNATURES if _looks_at_digits(row)}
_WITH_DIGITS = {
    shape: frozenset(literal for literal in _LITERALS_WITH_DIGITS if shape_of(literal) == shape)
    for shape in sorted(map(shape_of, _LITERALS_WITH_DIGITS))
}
_OF_DIGITS = re.compile(b"|".join(map(re.escape, _WITH_DIGITS)))


def opens(raw: bytes) -> bool:
    """Whether a traceback may begin in a line."""
    return _OPENS.search(shape_of(raw.lower())) is not None


def says_nothing(raw: bytes) -> bool:
    """Whether a line of a stack tells nothing beside it, nor would another of its shape."""
    return is_plain(raw) and _NEVER.search(shape_of(raw.lower())) is None


def is_plain(raw: bytes) -> bool:
    """Whether a line is read as it stands: ASCII, without control characters, not too long."""
    if len(raw) > LONGEST_LINE or not raw.isascii():
        return False
    return raw.decode("ascii").replace("\t", " ").isprintable()


def identity_of(raw: bytes, line: Line, row: Signature | None, *, traced: bool = False) -> Identity | None:
    """How to know a line again; None where another line of its shape may bring something new.

    `row` is the one that counts for it, `traced` whether it is of a traceback, below its header.
    """
    shape = shape_of(raw.lower())
    if not is_plain(raw) or _NEVER.search(shape):
        return None
    if row is None and not traced and counters_in(line.text):
        return None
    text = raw.decode("ascii")
    start = len(text) - len(line.text)
    spans = spans_of_origin(text)
    captures = row is not None and bool({"rank", "host"} & {*row.captures})
    if captures and row is not None and not row.pattern.search(line.text):
        return None  # It is told in the lines that follow.
    digits = _places_of_digits(raw.lower(), shape) if _OF_DIGITS.search(shape) else ()
    if captures or digits is None:
        return Identity((*spans, (start, len(raw))))
    group = [(start + found.start(), start + found.end()) for found in _GROUP.finditer(line.text)]
    return Identity((*spans, *group), digits)


def _places_of_digits(lower: bytes, shape: bytes) -> tuple[tuple[int, int, frozenset[bytes]], ...] | None:
    """Where a line would have which literals if its digits were others; None where it has one, so that each
    digit may count."""
    places: list[tuple[int, int, frozenset[bytes]]] = []
    for literal, alike in _WITH_DIGITS.items():
        at = shape.find(literal)
        while at >= 0:
            end = at + len(literal)
            if lower[at:end] in alike:
                return None
            places.append((at, end, alike))
            at = shape.find(literal, at + 1)
    return tuple(places)


def is_followed_by_another(after: Sequence[bytes]) -> bool:
    """Whether the next line is one that cannot be of the same record, and in which no single digit counts."""
    if not after or not is_plain(after[0]):
        return False
    following = after[0]
    if following[:1] in (b" ", b"\t") or b"  " in following or b"\t" in following:
        return False
    return _OF_DIGITS.search(shape_of(following.lower())) is None
