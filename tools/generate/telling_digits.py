"""In which texts a pattern wants certain digits, by its parse tree: lines that differ in others match alike.

As in `literals`, the parse tree is private to `re`, and so is looked at when files are generated only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from re import _constants as regex
from re import _parser as parser
from typing import Any

from launcher.text.log_lines import WIDEST, digit_kind, digit_shape

_ALL_DIGITS = frozenset("0123456789")
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
        if digits == _ALL_DIGITS and not beside and _is_digit(code, value):
            raise _AnyDigitCounts
        if digits and digits != _ALL_DIGITS and not is_pointer:
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
        yield digit_kind(text.lower().encode())


def _parts_within(code: Any, value: Any, *, beside: bool) -> Iterator[bytes]:
    """Those of what an item holds."""
    if code in _REPEATS:
        least, most, items = value
        if len(items) == 1 and _digits_of(*items[0]) == _ALL_DIGITS:
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
        return _ALL_DIGITS & {chr(value)}
    if code is regex.NOT_LITERAL:
        return _ALL_DIGITS - {chr(value)}
    if code is regex.ANY:
        return _ALL_DIGITS
    if code is regex.RANGE:
        return frozenset(digit for digit in _ALL_DIGITS if value[0] <= ord(digit) <= value[1])
    if code is regex.CATEGORY:
        return _ALL_DIGITS if value in _WITH_DIGITS else frozenset()
    if code is not regex.IN:
        return frozenset()
    taken = frozenset[str]().union(*(_digits_of(*member) for member in value))
    return _ALL_DIGITS - taken if value[0][0] is regex.NEGATE else taken


def digits_of_row(pattern: re.Pattern[str], literal: str) -> list[str] | None:
    """The kinds of all texts with digits that a row wants; None where any digit of a line may count."""
    parts = parts_with_digits(pattern)
    if parts is None:
        return None
    if re.search(r"\d", literal):
        parts |= {digit_kind(digit_shape(literal.encode()))}
    return sorted(part.decode() for part in parts)
