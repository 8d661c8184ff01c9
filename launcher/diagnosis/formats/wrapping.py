"""Lines that a terminal broke at its width, put together again.

Who copies a log out of a terminal, or out of a page that shows it like one, gets a break wherever a line
reached the edge. Such a text shows it: no line is longer than the width, very many are exactly as long, and
what follows those does not begin as the lines of that log do. All of this is asked for, since joining lines
that belong apart does more harm than leaving them broken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
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
_NEARLY = 10
"""Characters that a line may lack to be a little shorter than another."""
_MARK = 5
"""Characters by whose shape the beginnings of two lines are called alike."""
_DRAWN = "+-=*#_| "
"""Characters that lines are drawn with."""
_BEGINS = re.compile(
    r"\s*(?:\[|\(\w+ pid=|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|[EWIF]\d{4} |Traceback \(|File \"|"
    r"[\w.]*(?:Error|Exception|Warning)\b|(?:INFO|WARNING|WARN|ERROR|DEBUG|CRITICAL)\b|"
    r"[\w.-]+:\d+:\d+ \[)|\s{2}"
)
"""How lines of logs begin, whatever printed them; indentation is a beginning too."""


def width_of(lines: Sequence[str]) -> int | None:
    """The width, in characters, at which a terminal broke these lines; None where none did."""
    by_length = sorted(lines, key=len, reverse=True)
    longer = 0
    for width, alike in groupby(by_length, len):
        if width < _NARROWEST:
            break
        full = sum(not _is_rule(line) for line in alike)
        if width <= _WIDEST and full:
            if longer > _MOST_LONGER * (full + longer):
                break  # and narrower ones have more lines beyond them
            if full >= _FEWEST and _goes_on(lines, width) and _is_edge(by_length, full, width):
                return width
        longer += full
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


def _is_edge(lines: Sequence[str], full: int, width: int) -> bool:
    """Whether far more lines are as long than a little shorter: lengths by chance have no edge."""
    below = sum(width - _NEARLY <= len(line) < width and not _is_rule(line) for line in lines)
    return full * 2 >= below


def _begins(line: str, before: str) -> bool:
    """Whether a line begins as lines do, rather than in the middle of one."""
    return not line.strip() or bool(_BEGINS.match(line)) or shape_of(line[:_MARK]) == shape_of(before[:_MARK])


def _is_rule(line: str) -> bool:
    """Whether it is a line drawn with characters."""
    if not line.strip(_DRAWN):
        return True
    behind_first = line.lstrip(line[0])
    return not behind_first.strip(line[0] + behind_first[:1])  # two characters and no more
