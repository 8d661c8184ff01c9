"""In which numbers of a line single digits count, because a row's pattern looks at them.

Most patterns take any digit for another. Some look for an error's number (`[Errno 104]`), an exit status, a
code: such digits stand among other letters of the pattern, and only where a line has these they can count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from re import _constants as regex  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from launcher.diagnosis.known_shapes import WIDEST, Spans, kind_of, shape_of
from launcher.diagnosis.signatures.signature import Signature
from launcher.diagnosis.signatures.table import SIGNATURES

_ALL = frozenset("0123456789")
_REPEATS = (regex.MAX_REPEAT, regex.MIN_REPEAT, regex.POSSESSIVE_REPEAT)
_ASSERTIONS = (regex.ASSERT, regex.ASSERT_NOT)
_WITH_DIGITS = (regex.CATEGORY_DIGIT, regex.CATEGORY_WORD, regex.CATEGORY_NOT_SPACE)
_WIDTHS = (*WIDEST, 20, regex.MAXREPEAT)
"""How wide a number may be for a pattern that takes all of them; none of a log has more than 20 digits."""


class _AnyDigitCounts(Exception):
    """A pattern looks at how wide a number is, or takes digits that need not stand there."""


def parts_with_digits(pattern: re.Pattern[str]) -> frozenset[bytes] | None:
    """The kinds of the texts that a pattern wants where it wants certain digits; None where any digit of a
    number may count."""
    try:
        return frozenset(_parts(parser.parse(pattern.pattern, pattern.flags)))
    except _AnyDigitCounts:
        return None


def _parts(items: Iterable[Any], *, beside: bool = False) -> Iterator[bytes]:
    """`beside` are the items of a lookaround, in which a digit need not be the whole of a number."""
    text = ""
    for (code, value), following in pairwise([*items, (None, None)]):
        # Of an address no digit is told from another.
        is_pointer = (code, value) == (regex.LITERAL, ord("0")) and following == (regex.LITERAL, ord("x"))
        digits = _digits_of(code, value)
        if digits == _ALL and not beside and _is_digit(code, value):
            raise _AnyDigitCounts
        if digits and digits != _ALL and not is_pointer:
            text += "0"
        elif code is regex.LITERAL and not is_pointer:
            text += chr(value)
        else:
            yield from _kind_of_part(text)
            text = ""
            yield from _parts_within(code, value, beside=beside)
    yield from _kind_of_part(text)


def _kind_of_part(text: str) -> Iterator[bytes]:
    if "0" in text:
        yield kind_of(text.lower().encode())


def _parts_within(code: Any, value: Any, *, beside: bool) -> Iterator[bytes]:
    """Those of what an item holds."""
    if code in _REPEATS:
        least, most, items = value
        if len(items) == 1 and _digits_of(*items[0]) == _ALL:
            if _is_digit(*items[0]) and (least > 1 or most not in _WIDTHS):
                raise _AnyDigitCounts
            return
        parts = list(_parts(items, beside=beside))
        if parts and len(items) == 1:
            raise _AnyDigitCounts
        yield from parts
    elif code is regex.SUBPATTERN:
        yield from _parts(value[3], beside=beside)
    elif code is regex.ATOMIC_GROUP:
        yield from _parts(value, beside=beside)
    elif code in _ASSERTIONS:
        yield from _parts(value[1], beside=True)
    elif code is regex.BRANCH:
        for items in value[1]:
            yield from _parts(items, beside=beside)


def _is_digit(code: Any, value: Any) -> bool:
    """Whether an item takes any digit and nothing else."""
    return code is regex.IN and value in (
        [(regex.CATEGORY, regex.CATEGORY_DIGIT)],
        [(regex.RANGE, (ord("0"), ord("9")))],
    )


def _digits_of(code: Any, value: Any) -> frozenset[str]:
    """The digits that an item takes."""
    if code is regex.LITERAL:
        return _ALL & {chr(value)}
    if code is regex.NOT_LITERAL:
        return _ALL - {chr(value)}
    if code is regex.ANY:
        return _ALL
    if code is regex.RANGE:
        return frozenset(digit for digit in _ALL if value[0] <= ord(digit) <= value[1])
    if code is regex.CATEGORY:
        return _ALL if value in _WITH_DIGITS else frozenset()
    if code is not regex.IN:
        return frozenset()
    taken = frozenset[str]().union(*(_digits_of(*member) for member in value))
    return _ALL - taken if value[0][0] is regex.NEGATE else taken


_ROWS: Final[dict[bytes, list[Signature]]] = {}
"""The rows by the kinds of their literals."""
for _row in SIGNATURES:
    _ROWS.setdefault(kind_of(shape_of(_row.literal.encode())), []).append(_row)


@lru_cache(maxsize=1024)
def telling_numbers(kind: bytes) -> Spans | None:
    """Where in lines of a kind, of lower case, there are numbers in which single digits count; None where
    all of them may."""
    parts: set[bytes] = set()
    for literal, rows in _ROWS.items():
        if literal in kind:
            for row in rows:
                of_row = _parts_of_row(row)
                if of_row is None:
                    return None
                parts |= of_row
    return tuple(
        number.span()
        for number in re.finditer(rb"0+", kind)
        if any(_overlaps(part, kind, *number.span()) for part in parts)
    )


def _overlaps(part: bytes, kind: bytes, start: int, end: int) -> bool:
    """Whether a text stands in a kind so that it has something of the number from `start` to `end`."""
    return kind.find(part, max(0, start - len(part) + 1), end + len(part) - 1) >= 0


@lru_cache(maxsize=len(SIGNATURES))
def _parts_of_row(row: Signature) -> frozenset[bytes] | None:
    parts = parts_with_digits(row.pattern)
    of_literal = re.search(r"\d", row.literal) and kind_of(shape_of(row.literal.encode()))
    return parts | {of_literal} if parts is not None and of_literal else parts
