"""Which of a name's bindings a use of it can see."""

from __future__ import annotations

import ast

from launcher.scripts.scopes import Binding, BindingKind, Scope, ancestors, parent_of, scope_of

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match, ast.ExceptHandler)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
Arm = tuple[ast.AST, str]
"""A branching statement and the part of it in which something stands."""


def reaching(holder: Scope, use: ast.Name) -> list[Binding]:
    """The bindings of a name that may hold where it is used.

    In the scope that binds it: those before the use (and in a loop around both, behind it), of which the last
    that surely runs hides what is before. Seen from another function: all.
    """
    bindings = holder.bindings[use.id]
    if len(bindings) == 1 or _own(scope_of(use)) is not holder:
        return bindings
    place = (use.lineno, use.col_offset)
    arms = arms_of(use)
    found: list[Binding] = []
    for each in bindings:
        its_arms = arms_of(each.node)
        if _excluded(its_arms, arms):
            continue
        behind = _end(each) > place
        if behind:
            if _share_a_loop(its_arms, arms):
                found.append(each)
        elif its_arms <= arms and each.kind is not BindingKind.CHANGED:
            found = [each]
        else:
            found.append(each)
    return found or bindings


def arms_of(node: ast.AST) -> set[Arm]:
    """The parts of branching statements of its function in which a node stands."""
    found: set[Arm] = set()
    inner = node
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            break
        if isinstance(outer, _BRANCHES):
            part = next((name for name, value in ast.iter_fields(outer) if _holds(value, inner)), "")
            if part not in ("test", "iter", "finalbody") and not (
                isinstance(outer, ast.Try) and part == "body"
            ):
                found.add((outer, part))
        inner = outer
    return found


def _holds(value: object, node: ast.AST) -> bool:
    return value is node or (isinstance(value, list) and any(each is node for each in value))


def _excluded(one: set[Arm], other: set[Arm]) -> bool:
    """Whether two places stand in different arms of one `if`."""
    first = {node: part for node, part in one if isinstance(node, ast.If)}
    return any(node in first and first[node] != part for node, part in other)


def _share_a_loop(one: set[Arm], other: set[Arm]) -> bool:
    return any(isinstance(node, _LOOPS) for node, _ in one & other)


def _own(scope: Scope) -> Scope:
    """The scope around comprehensions, whose code runs where it stands."""
    while (
        isinstance(scope.node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) and scope.parent
    ):
        scope = scope.parent
    return scope


def _end(binding: Binding) -> tuple[int, int]:
    """Where the binding's value is complete, so that `x = f(x)` uses the x before."""
    node = binding.node
    if binding.kind in (BindingKind.LOOPED, BindingKind.ENTERED) and binding.value is not None:
        node = binding.value
    elif binding.kind is BindingKind.DEFINED:
        return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    elif not hasattr(node, "end_lineno"):
        parent = parent_of(node)
        node = node if parent is None else parent
    return getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0
