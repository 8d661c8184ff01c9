"""In which lines literals begin, where the lines are searched together.

Lines are joined without their breaks, so that a literal which is torn over two of them is found as well.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from launcher.diagnosis.literals import Finder, Hit
from launcher.diagnosis.signatures.signature import SHORTLY
from launcher.diagnosis.windows import TAIL, Window

OF_A_RECORD: Final = 3
"""Lines after a line that may be of its record."""

EXPLAINED_WITHIN: Final = SHORTLY + OF_A_RECORD
"""Lines after a context in which a literal tells what it may explain; a sign can begin before that line."""

_SPARSE = 16
"""Where fewer than one of so many lines can have a literal, they are found by their places in the text."""

_BREAK = ord(b"\n")


@dataclass(frozen=True, slots=True)
class Hits:
    """The numbers of the lines of a window in which a literal begins: of all of them, and of those that tell
    something by themselves or shortly before one that does."""

    every: list[int]
    telling: list[int]


class LiteralPlaces:
    """Tells the lines in which a finder's literals begin. Those of `contexts` count shortly before others."""

    def __init__(self, finder: Finder, contexts: Collection[str] = ()) -> None:
        self._finder = finder
        self._sizes = [len(literal) for literal in finder.literals]
        self._alone = [literal.decode() not in contexts for literal in finder.literals]

    def near(self, lines: list[bytes], left: list[int], end: int) -> list[int]:
        """The numbers of the lines with a literal, among those that are left and the next ones after each."""
        if not left:
            return []
        first, reach = left[0], OF_A_RECORD + 2
        near = lines[first : end + reach]
        if len(left) * 2 < end - first:
            kept = [b""] * len(near)
            for number in left:
                at = number - first
                kept[at : at + reach] = near[at : at + reach]
            near = kept
        return [first + number for number in self._of_lines(near)]

    def within(self, window: Window) -> Hits:
        """The lines of a window in which a literal begins that ends there or in the next one.

        Ordinary lines are contexts (every checkpoint that is saved), so they are left out where nothing
        follows that they could explain; the last lines of a window are not, as nobody knows what follows.
        """
        found = self._finder.hits(window.joined)
        if len(found) * _SPARSE > window.count:
            numbers = self._numbered(window.lines, found)
        else:
            numbers = self._of_few(window, found)
        every = sorted(numbers)
        alone = [number for number in every if numbers[number]]
        if len(alone) == len(every):
            return Hits(every, every)
        telling = []
        for number in every:
            after = bisect_right(alone, number)
            followed = after < len(alone) and alone[after] <= number + EXPLAINED_WITHIN
            if numbers[number] or followed or number >= window.count - TAIL:
                telling.append(number)
        return Hits(every, telling)

    def _of_few(self, window: Window, found: list[Hit]) -> dict[int, bool]:
        """As `_numbered`, without cutting the lines of a window apart."""
        text = window.text
        sizes, alone = self._sizes, self._alone
        numbers: dict[int, bool] = {}
        # A place in the text, and how many lines end before it.
        at = breaks = 0
        for behind, literal in found:
            place = behind - sizes[literal]
            while (back := at - breaks - place) > 0:
                breaks -= _breaks_in(text[at - back : at])
                at -= back
            while (further := place + breaks - at) > 0:
                breaks += _breaks_in(text[at : at + further])
                at += further
            while text[at] == _BREAK:
                at, breaks = at + 1, breaks + 1
            end = text.index(b"\n", at)
            reach = text.find(b"\n", end + 1)
            if behind <= (end - breaks if reach < 0 else reach - breaks - 1):
                numbers[breaks] = alone[literal] or numbers.get(breaks, False)
                window.note(breaks, text.rfind(b"\n", 0, at) + 1)
        return numbers

    def _of_lines(self, lines: list[bytes]) -> list[int]:
        return sorted(self._numbered(lines, self._finder.hits(b"".join(lines))))

    def _numbered(self, lines: list[bytes], found: list[Hit]) -> dict[int, bool]:
        """The numbers of the lines with a literal, and whether one of theirs tells something by itself."""
        if not found:
            return {}
        ends = list(accumulate(map(len, lines)))
        last = len(ends) - 1
        sizes, alone = self._sizes, self._alone
        numbers: dict[int, bool] = {}
        added = first = end = further = 0
        # Where the line that was added last begins and ends, and where the next one ends.
        for behind, literal in found:
            place = behind - sizes[literal]
            if first <= place < end and behind <= further:
                numbers[added] |= alone[literal]  # Of the line that was added last.
                continue
            number = bisect_right(ends, place)
            begins, finishes = ends[number] - len(lines[number]), ends[number]
            reach = ends[min(number + 1, last)]
            if behind <= reach:
                numbers[number] = alone[literal] or numbers.get(number, False)
                added, first, end, further = number, begins, finishes, reach
        return numbers


def _breaks_in(text: bytes) -> int:
    """How many lines end in a text; four times as fast as counting them, which looks at byte after byte."""
    return len(text) - len(text.replace(b"\n", b""))
