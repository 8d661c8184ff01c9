"""Lines that a terminal broke at its width, put together again.

Who copies a log out of a terminal, or out of a page that shows it like one, gets a break wherever a line
reached the edge. Such a text shows it: no line is longer than the width, very many are exactly as long, and
what follows those does not begin as the lines of that log do. All of this is asked for, since joining lines
that belong apart does more harm than leaving them broken.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from launcher.diagnosis.formats.blocks import LONGEST_RAW_LINE, lines_of
from launcher.diagnosis.tracebacks import shape_of

_NARROWEST: Final = 60
_WIDEST: Final = 320
_FEWEST = 4
"""Full lines without which nothing is called wrapped."""
_MOST_LONGER = 0.05
"""The share of lines beyond the width, of all that reach it: what was pasted beside."""
_LEAST_BROKEN = 0.75
"""The share of full lines behind which the text goes on."""
_MARK = 5
"""Characters by whose shape the beginnings of two lines are called alike."""
_DRAWN = frozenset("+-=*#_| ")
"""Characters that lines are drawn with."""
_BEGINS = re.compile(
    r"\s*(?:\[|\(\w+ pid=|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[EWIF]\d{4} |Traceback \(|File \"|"
    r"[\w.]*(?:Error|Exception|Warning)\b|(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\b|"
    r"[\w.-]+:\d+:\d+ \[)|\s{2}"
)
"""How lines of logs begin, whatever printed them; indentation is a beginning too."""


def width_of(lines: Sequence[str]) -> int | None:
    """The width, in characters, at which a terminal broke these lines; None where none did."""
    lengths = Counter(len(line) for line in lines if not _is_rule(line))
    for width in sorted((each for each in lengths if _NARROWEST <= each <= _WIDEST), reverse=True):
        longer = sum(count for length, count in lengths.items() if length > width)
        full = lengths[width]
        if longer > _MOST_LONGER * (full + longer):
            return None  # and narrower ones have more lines beyond them
        if full >= _FEWEST and _goes_on(lines, width) and _is_edge(lengths, width):
            return width
    return None


def joined(blocks: Iterable[bytes], width: int) -> Iterator[bytes]:
    """The text with the lines of exactly that width put together with what follows them."""
    under_way: list[str] = []
    length = 0
    for line in lines_of(blocks):
        under_way.append(line)
        length += len(line)
        if len(line) == width and not _is_rule(line) and length < LONGEST_RAW_LINE:
            continue
        yield "".join([*under_way, "\n"]).encode("utf-8", errors="replace")
        under_way, length = [], 0
    if under_way:
        yield "".join([*under_way, "\n"]).encode("utf-8", errors="replace")


def _goes_on(lines: Sequence[str], width: int) -> bool:
    """Whether most of the full lines do not end where they end."""
    pairs = [(line, after) for line, after in pairwise(lines) if len(line) == width and not _is_rule(line)]
    if not pairs:
        return False
    broken = sum(not _begins(after, line) for line, after in pairs)
    return broken >= _LEAST_BROKEN * len(pairs) and broken >= _FEWEST - 1


def _is_edge(lengths: Counter[int], width: int) -> bool:
    """Whether far more lines are as long than a little shorter: lengths by chance have no edge."""
    below = sum(lengths[width - each] for each in range(1, 11))
    return lengths[width] * 2 >= below


def _begins(line: str, before: str) -> bool:
    """Whether a line begins as lines do, rather than in the middle of one."""
    return not line.strip() or bool(_BEGINS.match(line)) or shape_of(line[:_MARK]) == shape_of(before[:_MARK])


def _is_rule(line: str) -> bool:
    """Whether it is a line drawn with characters."""
    first = set(line[:16])  # which tells it of nearly all lines
    if len(first) > 2 and not first <= _DRAWN:
        return False
    return len(set(line)) <= 2 or set(line) <= _DRAWN
