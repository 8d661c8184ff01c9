"""Which text a pattern demands, by its parse tree: so that lines without it need not be searched.

The parse tree is private to `re`, and so is looked at here only, when files are generated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _constants as regex
from re import _parser as parser
from typing import Any

SHORTEST = 6
"""Characters of a text that is worth looking for: a shorter one stands in too many lines."""

_REPEATS = (regex.MAX_REPEAT, regex.MIN_REPEAT, regex.POSSESSIVE_REPEAT)


def literal_of(pattern: re.Pattern[str], near_miss: str) -> str:
    """The longest text, in lower case, that stands in whatever matches and in the near miss as well.

    As the near miss has it, it is the pattern that refuses it. Raises ValueError where there is no such text.
    """
    near, longest = near_miss.lower(), ""
    for text in sorted(demanded(pattern.pattern, pattern.flags)):
        for start in range(len(text)):
            end = start + len(longest) + 1
            while end <= len(text) and text[start:end] in near:
                longest = text[start:end]
                end += 1
    if len(longest) < SHORTEST:
        raise ValueError(
            f"the near miss shares only {longest!r} with what the pattern demands: take a nearer one, "
            "or give a literal"
        )
    return longest


def demanded(pattern: str, flags: int) -> set[str]:
    """Texts, in lower case, that stand in whatever the pattern matches, in one line of it."""
    return {part for text in _demanded(parser.parse(pattern, flags)) for part in text.split("\n")}


def _demanded(items: Iterable[Any]) -> set[str]:
    found, text = set(), ""
    for code, value in _spread(items):
        letter = _letter(code, value)
        if letter is not None:
            text += letter
        elif code not in (regex.AT, regex.ASSERT_NOT):  # These two take no room.
            found.add(text)
            text = ""
            if code in _REPEATS and value[0] > 0:
                found |= _demanded(value[2])
            elif code is regex.BRANCH:
                found |= _common([_demanded(branch) for branch in value[1]])
    return {*found, text}


def _spread(items: Iterable[Any]) -> Iterable[Any]:
    """The items, with those of groups in their place."""
    for code, value in items:
        if code is regex.SUBPATTERN:
            yield from _spread(value[3])
        elif code is regex.ATOMIC_GROUP:
            yield from _spread(value)
        else:
            yield code, value


def _common(branches: list[set[str]]) -> set[str]:
    """The texts that each of the branches demands."""
    first, *others = branches
    pieces = {
        text[start:end]
        for text in first
        for start in range(len(text))
        for end in range(start + 1, len(text) + 1)
    }
    return {piece for piece in pieces if all(any(piece in text for text in other) for other in others)}


def _letter(code: Any, value: Any) -> str | None:
    """The one character that an item takes, in whatever case."""
    taken = [(code, value)] if code is regex.LITERAL else value if code is regex.IN else ()
    letters = {chr(member[1]).lower() if member[0] is regex.LITERAL else None for member in taken}
    return letters.pop() if len(letters) == 1 else None
