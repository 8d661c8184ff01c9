"""Which calls of a program may lead to a collective, so that all others need not be followed.

Two steps, both wide rather than narrow. A call is a collective by what it is, wherever it is called from. A
call leads to one by its name alone, if a function of the program that is called by this name has a call of
either kind. Most functions of a program are of neither.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launcher.scripts.collectives import COLLECTIVES, last_names
from launcher.scripts.scopes import file_of, scope_of, statement_of, with_those_around
from launcher.scripts.values import External, alternatives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from launcher.scripts.program import Program


class Leading:
    """The calls of one program that may lead to a collective, and the functions and modules they stand in."""

    def __init__(
        self, program: Program, makes_ranks_wait: Callable[[ast.Call], bool], passes: Iterable[ast.Call]
    ) -> None:
        """Look for them; `makes_ranks_wait` says of a call with a collective's name whether it is one, and
        `passes` are the forward passes that are."""
        self.program = program
        self.calls: set[ast.Call] = set()
        self.functions: set[ast.AST] = set()
        self._named: set[str] = set()
        imported = (each.module for file in program.files for each in file.imports if each.module)
        pending = [call for call in self._called(last_names(imported)) if makes_ranks_wait(call)]
        pending += passes
        while pending:
            call = pending.pop()
            if call not in self.calls:
                self.calls.add(call)
                pending += self._callers(call)
        self._of: dict[ast.stmt, list[ast.Call]] = {}
        for call in self.calls:
            if not isinstance(scope_of(call).node, ast.Lambda):
                self._of.setdefault(statement_of(call), []).append(call)
                scope = scope_of(call).function
                self.functions.add(file_of(call).tree if scope is None else scope.node)
        for calls in self._of.values():
            calls.sort(key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0))
        self._holding = with_those_around(self._of)

    def of(self, statement: ast.stmt) -> Sequence[ast.Call]:
        """Those of a statement, as they run: without its inner blocks."""
        return self._of.get(statement, ())

    def holds(self, statement: ast.stmt) -> bool:
        """Whether such a call stands in a statement or in its inner blocks."""
        return statement in self._holding

    def _called(self, lasts: set[str]) -> Iterator[ast.Call]:
        """The calls of what has one of these last names, or another name for that."""
        for last in sorted(self.program.known_as(lasts)):
            for file in self.program.mentioning(last):
                yield from file.calls_of.get(last, ())

    def _callers(self, call: ast.Call) -> Iterator[ast.Call]:
        """The calls of the function in which a call stands, by its name."""
        name = _name_around(call)
        if name is not None and name not in self._named:
            self._named.add(name)
            yield from self._called({name})


def may_be_collective(program: Program, call: ast.Call) -> bool:
    """Whether what is called is a collective, or one among others."""
    called = alternatives(program.value(call.func))
    return any(isinstance(each, External) and each.name in COLLECTIVES for each in called)


def _name_around(call: ast.Call) -> str | None:
    """The name by which the function in which a call stands is called."""
    scope = scope_of(call).function
    if scope is None or isinstance(scope.node, ast.Lambda):
        return None
    function = scope.node
    assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
    holder = scope.parent.node if scope.parent is not None else None
    if function.name == "__init__" and isinstance(holder, ast.ClassDef):
        return holder.name
    return function.name
