"""Whom a line is about, and whether another line of its kind could bring something new.

What moves something each time it is printed (a restart, a step) is never the same again; of a collective and
of a communicator the numbers count. Where a pattern looks at single digits, so do the numbers that may have
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from launcher.diagnosis import analysis_lines, attempts, rank_lines, stack_lines, torchrun_table
from launcher.diagnosis.known_shapes import Identity, Layout, kind_of, shape_of
from launcher.diagnosis.progress import counters_in
from launcher.diagnosis.record import Line
from launcher.diagnosis.signatures.signature import Signature
from launcher.diagnosis.signatures.table import CONTEXTS
from launcher.diagnosis.telling_digits import telling_numbers
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

_MOST_REMEMBERED = 2048
_IDENTITIES: dict[tuple[object, ...], Identity | None] = {}
"""How lines are known again, by their kind, where the message begins, the row and whether they are traced."""

_GROUP = re.compile(r"\[PG [^\]\[]{0,200}Rank \d{1,6}\]|\bRank \d{1,6}\]")
"""Where lines of a process group tell the group and the rank."""


def _one_of(literals: Iterable[str]) -> re.Pattern[bytes]:
    shapes = sorted({shape_of(literal.encode()) for literal in literals})
    return re.compile(b"|".join(map(re.escape, shapes)))


_OF_RANKS = {*rank_lines.OF_NUMBERS, *(part.lower() for part in rank_lines.OF_COLLECTIVES)}
_NEVER_AGAIN = {
    *OF_THE_JOB,
    *attempts.LITERALS,
    *WORLD_SIZE_LITERALS,
    *rank_lines.LITERALS,
    *stack_lines.LITERALS,
    *analysis_lines.LITERALS,
    *(context.literal for context in CONTEXTS),
    torchrun_table.TITLE,
} - _OF_RANKS
_NEVER = _one_of(_NEVER_AGAIN)
_TELLS_OF_RANKS = _one_of(_OF_RANKS)
_SPEAKS = _one_of(_NEVER_AGAIN | _OF_RANKS)
_OPENS = _one_of((HEADER.lower(), BOX_END))


def opens(raw: bytes) -> bool:
    """Whether a traceback may begin in a line."""
    return _OPENS.search(shape_of(raw.lower())) is not None


def says_nothing(raw: bytes) -> bool:
    """Whether a line of a stack tells nothing beside it, nor would another of its kind."""
    return is_plain(raw) and not _speaks(shape_of(raw.lower()))


@lru_cache(maxsize=1024)
def _speaks(shape: bytes) -> bool:
    return _SPEAKS.search(shape) is not None


def is_plain(raw: bytes) -> bool:
    """Whether a line is read as it stands: ASCII, without control characters, not too long."""
    if len(raw) > LONGEST_LINE or not raw.isascii():
        return False
    return raw.decode("ascii").replace("\t", " ").isprintable()


def identity_of(raw: bytes, line: Line, row: Signature | None, *, traced: bool = False) -> Identity | None:
    """How to know a line again, by places of its kind; None where another line of its kind may bring
    something new.

    `row` is the one that counts for it, `traced` whether it is of a traceback, below its header. Lines of one
    kind for which the same row counts have one answer, so it is remembered.
    """
    if not is_plain(raw):
        return None
    shape = shape_of(raw)
    start = len(raw) - len(line.text)
    key = (kind_of(shape), Layout(shape).of_kind(((start, start),)), id(row), traced)
    if key not in _IDENTITIES:
        if len(_IDENTITIES) >= _MOST_REMEMBERED:
            _IDENTITIES.clear()
        _IDENTITIES[key] = _identity_of(raw, line, row, traced=traced)
    return _IDENTITIES[key]


def _identity_of(raw: bytes, line: Line, row: Signature | None, *, traced: bool) -> Identity | None:
    shape = shape_of(raw.lower())
    if _NEVER.search(shape) or (row is None and not traced and counters_in(line.text)):
        return None
    of_ranks = rank_lines.places_of_numbers(line.text)
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
    if not after or not is_plain(after[0]):
        return False
    following = after[0]
    if following[:1] in (b" ", b"\t") or b"  " in following or b"\t" in following:
        return False
    return not torn or telling_numbers(kind_of(shape_of(following.lower()))) == ()
