"""One Python file, walked once: scopes with what they bind, calls, definitions, attributes that are set.

Every node of the tree afterwards knows its parent and its scope, and the scope its file; `scopes` asks. The
walk is iterative, so that no nesting reaches Python's recursion limit.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property
from pathlib import Path

from launcher.failure_modes.model import Location
from launcher.scripts.scopes import (
    Binding,
    Scope,
    last_name,
    scope_of,
    statement_of,
    with_those_around,
)
from launcher.scripts.walk import walk

EXITS = ("exit", "_exit", "quit", "abort")
"""The last names of what ends the process."""


class FileIndex:
    """What one file holds. `path` is the file as findings name it, `text` its decoded source."""

    def __init__(self, path: Path, text: str, tree: ast.Module) -> None:
        """Walk the tree once."""
        self.path = path
        self.text = text
        self.tree = tree
        self.calls: list[ast.Call] = []
        self.functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self.classes: list[ast.ClassDef] = []
        self.statements: dict[type[ast.stmt], list[ast.stmt]] = {}
        self.imports: list[Binding] = []
        self.stars: list[str] = []
        """The modules of `from ... import *`."""
        self.names: dict[str, list[ast.Name]] = {}
        """Every name that is read, by its identifier."""
        self.attributes: dict[str, list[ast.Attribute]] = {}
        """Every attribute that is read, by its last name."""
        self.set_attributes: dict[str, list[Binding]] = {}
        """Every attribute that is set, by its last name; `Binding.name` is the whole of it, as written."""
        self.generators: set[ast.AST] = set()
        """The functions that have a `yield` of their own."""
        self.module = Scope(self, tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        walk(self)

    @cached_property
    def line_begins(self) -> list[int]:
        """The first character of each line in the text, as `ast` counts lines."""
        ends = re.finditer(r"\r\n?|\n", self.text)
        return [0, *(each.end() for each in ends)]

    @cached_property
    def calls_of(self) -> dict[str, list[ast.Call]]:
        """The calls by the last name of what is called: `barrier` of `dist.barrier()`."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.calls:
            name = last_name(call.func)
            if name is not None:
                found.setdefault(name, []).append(call)
        return found

    @cached_property
    def mentioned(self) -> frozenset[str]:
        """The last names of all that the file reads, sets or imports."""
        return frozenset((*self.names, *self.attributes, *self.set_attributes, *self.imported_as))

    @cached_property
    def imported_as(self) -> dict[str, list[str]]:
        """The names under which the file imports something, by the last part of where it comes from."""
        found: dict[str, list[str]] = {}
        for binding in self.imports:
            found.setdefault((binding.module or "").rpartition(".")[2], []).append(binding.name)
        return found

    @cached_property
    def aliases(self) -> dict[str, list[str]]:
        """The names that imports and assignments give to what has a last name: `gather = dist.gather`."""
        found = {last: [*names] for last, names in self.imported_as.items()}
        for statement in self.statements.get(ast.Assign, []):
            if isinstance(statement, ast.Assign):
                last = last_name(statement.value)
                for name in map(last_name, statement.targets):
                    if last and name and name != last:
                        found.setdefault(last, []).append(name)
        return found

    @cached_property
    def returns_of(self) -> dict[ast.AST, list[ast.Return]]:
        """The `return` statements by their function."""
        found: dict[ast.AST, list[ast.Return]] = {}
        for statement in self.statements.get(ast.Return, []):
            if isinstance(statement, ast.Return):
                found.setdefault(scope_of(statement).node, []).append(statement)
        return found

    @cached_property
    def leaving(self) -> set[ast.AST]:
        """The statements by which a loop, a function or the run may be left, and those around them."""
        kinds = (ast.Return, ast.Break, ast.Continue, ast.Raise)
        leaving = [each for kind in kinds for each in self.statements.get(kind, ())]
        leaving += [statement_of(call) for name in EXITS for call in self.calls_of.get(name, ())]
        return with_those_around(leaving)

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
