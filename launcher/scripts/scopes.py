"""Where a node of a walked tree stands: what holds it, its scope, and what names are bound there."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.scripts.index import FileIndex

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
"""What has parameters and a body of its own."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""What has names of its own, and no more."""

_HOLDERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)

PARENT = "parent"
SCOPE = "scope"
"""Where a walked node keeps what holds it, and in which scope it is evaluated."""


class BindingKind(Enum):
    """How a name got its value."""

    ASSIGNED = "assigned"
    CHANGED = "changed"
    """By `+=` and its like: the new value depends on the old one."""
    PARAMETER = "parameter"
    IMPORTED = "imported"
    DEFINED = "defined"
    LOOPED = "looped"
    """By `for`: `value` is what is looped over."""
    ENTERED = "entered"
    """By `with ... as`: `value` is the context manager."""
    OTHER = "other"
    """Caught exceptions, deleted names, patterns: nothing is known of the value."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place where a name or an attribute is given a value.

    `node` is the statement, parameter or expression that does it, `value` the expression where there is
    one. `item` is the position in the value where that is unpacked. `module` is the dotted name of an
    import, with a dot in front for each level of a relative one.
    """

    name: str
    kind: BindingKind
    node: ast.AST
    value: ast.expr | None = None
    item: int | None = None
    module: str | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """A module, function, class, lambda or comprehension: what its names are bound to, in source order."""

    file: FileIndex
    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    elsewhere: dict[str, Scope] = field(default_factory=dict)
    """The names that `global` or `nonlocal` hands to another scope."""

    def holder_of(self, name: str) -> Scope | None:
        """The scope in which a name that is used here is bound, as Python looks it up; None for builtins, and
        for what `global` names and nothing binds."""
        if name in self.elsewhere:
            holder = self.elsewhere[name]
            return holder if name in holder.bindings else None
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings and (scope is self or not isinstance(scope.node, ast.ClassDef)):
                return scope
            scope = scope.parent
        return None

    @property
    def function(self) -> Scope | None:
        """The nearest scope, this one or around it, that is a function; None in a module's own code."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, FunctionNode):
            scope = scope.parent
        return scope


def parent_of(node: ast.AST) -> ast.AST | None:
    """The node that holds this one; None for a module."""
    found = node.__dict__.get(PARENT)
    return found if isinstance(found, ast.AST) else None


def scope_of(node: ast.AST) -> Scope:
    """The scope in which a node is evaluated: for a function's decorators and defaults that around it."""
    scope = node.__dict__[SCOPE]
    assert isinstance(scope, Scope)
    return scope


def file_of(node: ast.AST) -> FileIndex:
    """The file in which a node stands."""
    return scope_of(node).file


def ancestors(node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node, from the nearest outwards, up to the module."""
    held = parent_of(node)
    while held is not None:
        yield held
        held = parent_of(held)


def statement_of(node: ast.AST) -> ast.stmt:
    """The statement in which an expression stands; a statement itself."""
    while not isinstance(node, ast.stmt):
        parent = parent_of(node)
        assert parent is not None, "every expression stands in a statement"
        node = parent
    return node


def with_those_around(statements: Iterable[ast.stmt]) -> set[ast.AST]:
    """Statements, and what holds them in the same function."""
    found: set[ast.AST] = set()
    for statement in statements:
        node: ast.AST | None = statement
        while node is not None and node not in found and not isinstance(node, _HOLDERS):
            found.add(node)
            node = parent_of(node)
    return found


def class_of(function: ast.AST) -> ast.ClassDef | None:
    """The class whose method a function is; None of a plain function."""
    holder = scope_of(function).node
    return holder if isinstance(holder, ast.ClassDef) else None


def parameters_of(function: FunctionNode) -> list[ast.arg]:
    """The parameters that may be given by position, then those that are given by keyword only."""
    arguments = function.args
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]


def positional_of(function: FunctionNode) -> list[ast.arg]:
    """The parameters that may be given by position."""
    return [*function.args.posonlyargs, *function.args.args]


def default_of(function: FunctionNode, name: str) -> ast.expr | None:
    """What a parameter is where a call does not give it; None where every call must."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    for given, value in zip(reversed(positional), reversed(arguments.defaults), strict=False):
        if given.arg == name:
            return value
    for given, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if given.arg == name:
            return default
    return None


def dotted_name(node: ast.expr) -> str | None:
    """`a.b.c` as it is written; None where anything but names and attributes is in it."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join((node.id, *reversed(parts)))


def last_name(node: ast.AST) -> str | None:
    """`c` of `a.b.c` or of `f().c`, or the name itself."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def function_of_parameter(parameter: ast.AST) -> FunctionNode | None:
    """The function whose parameter this is."""
    arguments = parent_of(parameter)
    function = None if arguments is None else parent_of(arguments)
    return function if isinstance(function, FunctionNode) else None


def is_static(function: FunctionNode) -> bool:
    """Whether a function in a class gets no object."""
    return _decorated_as(function, "staticmethod")


def is_class_method(function: FunctionNode) -> bool:
    """Whether a function in a class gets the class."""
    return _decorated_as(function, "classmethod")


def _decorated_as(function: FunctionNode, name: str) -> bool:
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return any(last_name(each) == name for each in decorators)
