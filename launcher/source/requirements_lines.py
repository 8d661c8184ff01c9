"""The lines of a requirements file as pip reads them (pip documentation, "Requirements File Format")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_COMMENT = re.compile(r"(?:^|(?<=\s))#.*$")


def logical_lines(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Each line with its number from 1: continued ones are joined, comments and empty ones left out."""
    joined, start = "", 0
    for number, line in enumerate(lines, start=1):
        start = start or number
        # A comment may stand between the lines of a continued one, and does not end it.
        commented = joined and line.lstrip().startswith("#")
        continues = line.endswith("\\") and not commented
        joined += "" if commented else line[:-1].rstrip() + " " if continues else line
        if continues or commented:
            continue
        if bare := _without_comment(joined):
            yield start, bare
        joined, start = "", 0
    if bare := _without_comment(joined):
        yield start, bare


def _without_comment(line: str) -> str:
    return _COMMENT.sub("", line).strip()
