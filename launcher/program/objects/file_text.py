"""The text of a source file, and where in it a node of its syntax tree stands."""

from __future__ import annotations

import ast
import re
from functools import cached_property
from pathlib import Path

from launcher.failure_modes.model import Location


class FileText:
    """A file's text by its lines. `path` is the file as findings name it, `text` its decoded source."""

    def __init__(self, path: Path, text: str) -> None:
        """Cut nothing into lines before somebody asks."""
        self.path = path
        self.text = text

    @cached_property
    def line_begins(self) -> list[int]:
        """The first character of each line in the text, as `ast` counts lines."""
        ends = re.finditer(r"\r\n?|\n", self.text)
        return [0, *(each.end() for each in ends)]

    @cached_property
    def lines(self) -> list[str]:
        """The lines as Python counts them, without their ends."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def column(self, line: int, offset: int) -> int:
        """The column, from 1 and in characters, of a byte offset as `ast` gives it."""
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if not text.isascii():
            offset = len(text.encode("utf-8", "replace")[:offset].decode("utf-8", "ignore"))
        return offset + 1

    def location(self, node: ast.AST) -> Location:
        """Where a statement or expression stands; the end is the column behind its last character."""
        line, offset = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        last, behind = getattr(node, "end_lineno", None) or line, getattr(node, "end_col_offset", None)
        end = None if behind is None else self.column(last, behind)
        return Location(str(self.path), line, self.column(line, offset), last, end)

    def source(self, node: ast.AST) -> str:
        """An expression as it is written, in one line of at most 80 characters."""
        place = self.location(node)
        # `ast.get_source_segment` would cut the whole file into lines each time.
        lines = self.lines[place.line - 1 : place.end_line]
        if lines and place.end_column is not None:
            lines[-1] = lines[-1][: place.end_column - 1]
            lines[0] = lines[0][place.column - 1 :]
        written = " ".join(" ".join(lines).split())
        return written if len(written) <= 80 else f"{written[:77]}..."
