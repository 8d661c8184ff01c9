"""Which expressions made what a name holds: through assignments, attributes, choices and arguments.

A `Value` is what an expression surely is. Where a model is wrapped under `if distributed:`, rules ask here
what it may be.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.scripts.scopes import BindingKind, FunctionNode, default_of, function_of_parameter
from launcher.scripts.values import Instance

if TYPE_CHECKING:
    from launcher.scripts.program import Program
    from launcher.scripts.scopes import Binding

_DEEPEST = 12
"""So many names behind each other; what lies deeper is unknown."""


def origins(program: Program, node: ast.expr) -> tuple[ast.expr | None, ...]:
    """The expressions, no names any more, that may have made this one; None for what is unknown."""
    return tuple(dict.fromkeys(_origins(program, node, frozenset(), _DEEPEST)))


def _origins(
    program: Program, node: ast.expr, seen: frozenset[ast.AST], depth: int
) -> Iterator[ast.expr | None]:
    if isinstance(node, ast.IfExp):
        yield from _origins(program, node.body, seen, depth)
        yield from _origins(program, node.orelse, seen, depth)
    elif isinstance(node, ast.NamedExpr):
        yield from _origins(program, node.value, seen, depth)
    elif isinstance(node, ast.Name | ast.Attribute):
        bindings = program.evaluation.sources(node) if depth else []
        if not bindings:
            yield node if isinstance(node, ast.Attribute) else None
        for binding in bindings:
            if binding.node not in seen:
                yield from _bound(program, binding, seen | {binding.node}, depth - 1)
    else:
        yield node


def _bound(
    program: Program, binding: Binding, seen: frozenset[ast.AST], depth: int
) -> Iterator[ast.expr | None]:
    if binding.kind is BindingKind.PARAMETER and isinstance(binding.node, ast.arg):
        for given in _arguments(program, binding.node):
            if given is None:
                yield None
            else:
                yield from _origins(program, given, seen, depth)
    elif binding.kind is BindingKind.ASSIGNED and binding.value is not None:
        if binding.item is None:
            yield from _origins(program, binding.value, seen, depth)
        elif isinstance(binding.value, ast.Tuple | ast.List) and binding.item < len(binding.value.elts):
            yield from _origins(program, binding.value.elts[binding.item], seen, depth)
        else:
            yield None
    else:
        yield None


def _arguments(program: Program, parameter: ast.arg) -> Iterator[ast.expr | None]:
    """What every call gives a parameter."""
    function = function_of_parameter(parameter)
    sites = None if function is None else program.evaluation.callers.of(function)
    if not sites:
        yield None
        return
    for site in sites:
        given = None if site.arguments is None else site.arguments.get(parameter.arg)
        if given is None and isinstance(function, FunctionNode) and site.arguments is not None:
            given = default_of(function, parameter.arg)
        yield given


def may_be(program: Program, node: ast.expr, *names: str) -> list[ast.Call]:
    """The calls of these functions or classes of libraries that may have made what an expression is."""
    found: list[ast.Call] = []
    for origin in origins(program, node):
        if isinstance(origin, ast.Call) and program.qualified(origin.func) in names:
            found.append(origin)
    value = program.value(node)
    if not found and isinstance(value, Instance) and value.name in names and value.item is None:
        found.append(value.call)
    return found
