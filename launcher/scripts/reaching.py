"""Which of a name's bindings a use of it can see."""

from __future__ import annotations

import ast

from launcher.scripts.scopes import Binding, BindingKind, Scope, parent_of, scope_of

_BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.Match, ast.ExceptHandler)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_HOLDERS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_ARMS, _PART = "arms", "part"
"""Where a node keeps what was found out about its place: like its parent, the same in every program."""

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


def arms_of(node: ast.AST) -> frozenset[Arm]:
    """The parts of branching statements of its function in which a node stands."""
    within: list[tuple[ast.AST, ast.AST]] = []
    found: frozenset[Arm] | None = node.__dict__.get(_ARMS)
    inner = node
    while found is None:
        outer = parent_of(inner)
        if outer is None or isinstance(outer, _HOLDERS):
            found = frozenset()
        else:
            within.append((outer, inner))
            found = outer.__dict__.get(_ARMS)
            inner = outer
    for outer, inner in reversed(within):
        if isinstance(outer, _BRANCHES):
            part = _part_of(outer, inner)
            if part not in ("test", "iter", "finalbody") and not (
                isinstance(outer, ast.Try) and part == "body"
            ):
                found |= {(outer, part)}
        if isinstance(inner, ast.stmt):  # Each is asked for again by what stands in it.
            inner.__dict__[_ARMS] = found
    return found


def _part_of(branch: ast.AST, inner: ast.AST) -> str:
    """The field of a branching statement that holds a node. The first to ask writes it down for all of them:
    one after the other they would look through the same long blocks."""
    if _PART not in inner.__dict__:
        for name, value in ast.iter_fields(branch):
            for each in value if isinstance(value, list) else (value,):
                if isinstance(each, ast.AST):
                    each.__dict__[_PART] = name
    part = inner.__dict__[_PART]
    assert isinstance(part, str)
    return part


def _excluded(one: frozenset[Arm], other: frozenset[Arm]) -> bool:
    """Whether two places stand in different arms of one `if`."""
    first = {node: part for node, part in one if isinstance(node, ast.If)}
    return any(node in first and first[node] != part for node, part in other)


def _share_a_loop(one: frozenset[Arm], other: frozenset[Arm]) -> bool:
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
