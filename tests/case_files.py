"""Files of cases: `*.test`, whose parts begin with a heading such as `[case NAME]`, and tables of YAML."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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


def put(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy with values at dotted paths; null takes away what is there."""
    changed: dict[str, Any] = copy.deepcopy(dict(data))
    for path, value in changes.items():
        *way, last = path.split(".")
        part = changed
        for key in way:
            part = part.setdefault(key, {})
        part[last] = copy.deepcopy(value)
    return {key: value for key, value in changed.items() if value is not None}


def look_up(data: Any, path: str) -> Any:
    """The value at a dotted path through mappings, lists and attributes; None where there is none."""
    for key in path.split("."):
        if isinstance(data, Mapping):
            data = data.get(key)
        elif isinstance(data, list):
            data = data[int(key)] if -len(data) <= int(key) < len(data) else None
        else:
            data = None if data is None else getattr(data, key)
    return data
