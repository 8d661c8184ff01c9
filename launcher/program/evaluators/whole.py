"""What the parts of an evaluation ask of the whole: what expressions, entries, attributes and results are."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Protocol

from launcher.program.call_graph import CallGraph
from launcher.program.index import Binding, FunctionNode, ProgramFiles
from launcher.program.objects.imported_names import ImportedNames
from launcher.program.values import Dictionary, Environment, Value, WrittenTables


class Results(Protocol):
    """The results of a program's functions."""

    def result(self, function: FunctionNode, environment: Environment | None) -> Value:
        """What a function gives back."""
        ...


class Entries(Protocol):
    """The entries of a program's tables."""

    def item(self, owner: ast.expr, key: str, environment: Environment | None) -> Value:
        """What `owner[key]` is."""
        ...

    def item_of(self, table: Dictionary, owner: ast.expr, key: str) -> Value:
        """What one of the tables that an expression may be has below a key."""
        ...

    def entry(self, owner: Value, key: str, environment: Environment | None) -> Value | None:
        """What an object holds below a key, as it is made."""
        ...


class Members(Protocol):
    """The attributes of a program's objects."""

    def member_of(self, definition: ast.ClassDef, name: str, depth: int = 0, bound: bool = True) -> Value:
        """An attribute of an object of a class of the program."""
        ...


class WholeEvaluation(Protocol):
    """The evaluation of a program's expressions."""

    files: ProgramFiles
    callers: CallGraph
    imports: ImportedNames
    written: WrittenTables
    being_evaluated: set[ast.AST]

    @property
    def calls(self) -> Results:
        """What calls give."""
        ...

    @property
    def tables(self) -> Entries:
        """What tables hold."""
        ...

    @property
    def attributes(self) -> Members:
        """What objects have."""
        ...

    def value(self, node: ast.expr, environment: Environment | None = None) -> Value:
        """What an expression is."""
        ...

    def any_of(self, bindings: Sequence[Binding], environment: Environment | None) -> Value:
        """What a name is that may have got its value from any of these."""
        ...

    def value_of_binding(self, binding: Binding, environment: Environment | None) -> Value:
        """What one binding gives its name."""
        ...

    def any_element(self, listed: ast.expr, value: Value) -> Value:
        """One of the objects of a list."""
        ...
