"""Files of cases, `*.test`: parts that each begin with a heading such as `[case NAME]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


class BadCase(Exception):
    """A file of cases that cannot be read; the message names the file and the line."""


@dataclass(frozen=True)
class Part:
    """A heading, with its line's number, and the lines to the next heading."""

    file: Path
    number: int
    kind: str
    name: str
    lines: tuple[str, ...]

    def bad(self, message: str, line: int = 0) -> BadCase:
        """The exception that says what is wrong at a line of the part, of which the heading is line 0."""
        return BadCase(f"{self.file}:{self.number + line}: {message}")


def read_parts(file: Path, heading: re.Pattern[str]) -> list[Part]:
    """The parts of a file, in their order; the groups of a heading are its kind and its name.

    Raises:
        BadCase: Something stands before the first heading.
    """
    # Not `splitlines`: a line of a case may hold other characters that it takes for line breaks.
    lines = file.read_text("utf-8").split("\n")
    found = {number: match for number, line in enumerate(lines) if (match := heading.fullmatch(line))}
    if any(line.strip() for line in lines[: next(iter(found), None)]):
        raise BadCase(f"{file}:1: a file begins with `[case NAME]`")
    ends = [*list(found)[1:], len(lines)]
    return [
        Part(file, start + 1, match[1], match[2] or "", tuple(lines[start + 1 : end]))
        for (start, match), end in zip(found.items(), ends, strict=True)
    ]
