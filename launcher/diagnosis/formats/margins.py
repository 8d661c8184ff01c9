"""What whoever copied a log put before each of its lines: indentation, marks of a quotation, numbers, a file.

Issues, mails and chats quote by `> `, Markdown shows as code what is indented; `cat -n`, `nl` and editors
number lines, `grep -H` names the file, `gh run view --log` job and step, and services that start programs
write `stderr: `. Behind it all is as it was printed, so the margin is taken off first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from launcher.diagnosis.formats.blocks import lines_of

_SHARE: Final = 0.95
"""The share of lines with a margin, as somebody may have written a sentence beside."""

_FIRST: Final = 20
"""Lines that are asked before all others, as most logs have no margin."""

_FEWEST: Final = 3
"""Lines that show that numbers count them."""

_FILE = r"^[\w./@-]{1,200}\.(?:log|txt|out|err)(?::\d{1,9})?:"
_STREAM = r"^(?:stdout|stderr)(?: ?\||:)"
_NUMBER = r"^ {0,8}(?P<number>\d{1,9})"
_MARKS: Final = tuple(
    re.compile(mark)
    for mark in (
        r"^(?:> ?)+",
        r"^[^\t]{1,100}\t[^\t]{1,100}\t(?=\d{4}-\d\d-\d\dT)",
        rf"{_STREAM}(?: |$)",
        _STREAM,
        rf"{_FILE}(?: |$)",
        _FILE,
        rf"{_NUMBER}\t",
        rf"{_NUMBER}(?::| {{1,4}}\|)(?: |$)",
        rf"{_NUMBER}:",
    )
)
"""Of those that may have a space behind them first the one with it."""


def margin_of(lines: Sequence[str]) -> re.Pattern[str] | None:
    """What stands before nearly all of these lines and is no part of them; None where nothing does."""
    first = _filled(lines[:_FIRST])
    marks = [mark for mark in _MARKS if _stands_before(mark, first)]
    if not marks and not _indentation(first):
        return None
    filled = _filled(lines)
    indentation = _indentation(filled)
    if indentation:
        return re.compile(re.escape(indentation))
    return next((mark for mark in marks if _stands_before(mark, filled)), None)


def _filled(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.strip()]


def _stands_before(mark: re.Pattern[str], lines: Sequence[str]) -> bool:
    found = [match for line in lines if (match := mark.match(line))]
    enough = len(found) >= max(1, _SHARE * len(lines))
    return enough and ("number" not in mark.groupindex or _count_up(found))


def without_margin(blocks: Iterable[bytes], margin: re.Pattern[str]) -> Iterator[bytes]:
    """Clean text without its margin; what has none stays as it is."""
    for line in lines_of(blocks):
        match = margin.match(line)
        yield f"{line[match.end() :] if match else line}\n".encode("utf-8", errors="replace")


def _indentation(lines: Sequence[str]) -> str:
    """The spaces and tabs with which all lines begin."""
    if not lines or not _depth(lines[0]):
        return ""
    common = min(lines, key=_depth)
    common = common[: _depth(common)]
    return common if all(line.startswith(common) for line in lines) else ""


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _count_up(found: Sequence[re.Match[str]]) -> bool:
    """Whether these are the numbers of lines, rather than of tasks or of steps that each print more."""
    numbers = [int(match["number"]) for match in found]
    return len(found) >= _FEWEST and all(later == earlier + 1 for earlier, later in pairwise(numbers))
