"""Whom a line is about, and whether another line of its kind could bring something new.

What moves something each time it is printed (a restart, a step) is never the same again; of a collective and
of a communicator the numbers count. Where a pattern looks at single digits, so do the numbers that may have
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from launcher.diagnosis import rank_lines
from launcher.diagnosis.known_shapes import Identity, Layout, Spans, kind_of, shape_of
from launcher.diagnosis.progress import counters_in
from launcher.diagnosis.record import Line, is_plain, may_be_indented
from launcher.diagnosis.signatures.signature import Signature
from launcher.diagnosis.telling_digits import telling_numbers
from launcher.diagnosis.topics import LITERALS_OF, topics_of_shape
from launcher.diagnosis.tracebacks import BOX_END, HEADER
from launcher.text.line_origin import spans_of_origin

_MOST_REMEMBERED = 2048
_IDENTITIES: dict[tuple[object, ...], Identity | None] = {}
"""How lines are known again, by all that it depends on."""

_GROUP = re.compile(r"\[PG [^\]\[]{0,200}Rank \d{1,6}\]|\bRank \d{1,6}\]")
"""Where lines of a process group tell the group and the rank."""


def _one_of(literals: Iterable[str]) -> re.Pattern[bytes]:
    shapes = sorted({shape_of(literal.encode()) for literal in literals})
    return re.compile(b"|".join(map(re.escape, shapes)))


_OF_RANKS = {*rank_lines.OF_NUMBERS, *(part.lower() for part in rank_lines.OF_COLLECTIVES)}
_NEVER_AGAIN = {literal for literals in LITERALS_OF.values() for literal in literals} - _OF_RANKS
_NEVER = _one_of(_NEVER_AGAIN)
_TELLS_OF_RANKS = _one_of(_OF_RANKS)
_OPENS = (HEADER.lower().encode(), BOX_END.encode())


def opens(raw: bytes) -> bool:
    """Whether a traceback may begin in a line."""
    lower = raw.lower()
    return any(beginning in lower for beginning in _OPENS)


def says_nothing(raw: bytes) -> bool:
    """Whether a line of a stack tells nothing beside it, nor would another of its kind."""
    return is_plain(raw) and not topics_of_shape(shape_of(raw.lower()))


def identity_of(
    raw: bytes, line: Line, row: Signature | None, *, traced: bool = False, settled: bool = False
) -> Identity | None:
    """How to know a line again, by places of its kind; None where another line of its kind may bring
    something new.

    `row` is the one that counts for it, `traced` whether it is of a traceback, below its header, `settled`
    whether it tells of a collective of which the number does not count any more. Lines of one kind for which
    the same row counts have one answer, so it is remembered.
    """
    if not is_plain(raw):
        return None
    key = (*_message_in_kind(shape_of(raw), len(raw) - len(line.text)), id(row), traced, settled)
    if key not in _IDENTITIES:
        if len(_IDENTITIES) >= _MOST_REMEMBERED:
            _IDENTITIES.clear()
        _IDENTITIES[key] = _identity_of(raw, line, row, traced=traced, settled=settled)
    return _IDENTITIES[key]


@lru_cache(maxsize=1024)
def _message_in_kind(shape: bytes, start: int) -> tuple[bytes, Spans | None]:
    """The kind of a shape, and where in it the message begins that begins there in the shape."""
    return kind_of(shape), Layout(shape).of_kind(((start, start),))


def _identity_of(
    raw: bytes, line: Line, row: Signature | None, *, traced: bool, settled: bool
) -> Identity | None:
    shape = shape_of(raw.lower())
    if _NEVER.search(shape) or (row is None and not traced and counters_in(line.text)):
        return None
    of_ranks = () if settled else rank_lines.places_of_numbers(line.text)
    if of_ranks is None:
        return None
    text = raw.decode("ascii")
    start = len(text) - len(line.text)
    found = list(of_ranks)
    if row is not None and (of_whom := {"rank", "host"} & {*row.captures}):
        match = row.pattern.search(line.text)
        if match is None:
            return None  # It is told in the lines that follow, or behind a prefix that nobody knows.
        found += [match.span(name) for name in sorted(of_whom) if match[name]]
    found += [group.span() for group in _GROUP.finditer(line.text)]
    telling = telling_numbers(kind_of(shape))
    if telling is None:
        found.append((0, len(line.text)))
    layout = Layout(shape)
    spans = layout.of_kind((*spans_of_origin(text), *((start + first, start + end) for first, end in found)))
    if spans is None:
        return None
    return Identity((*spans, *(telling or ())), is_own=_TELLS_OF_RANKS.search(shape) is not None)


def is_followed_by_another(after: Sequence[bytes], *, torn: bool) -> bool:
    """Whether the next line is one that cannot be of the same record; where the two may be `torn`, also one
    in which no single digit counts."""
    if not after or may_be_indented(after[0]):
        return False
    return not torn or telling_numbers(kind_of(shape_of(after[0].lower()))) == ()
