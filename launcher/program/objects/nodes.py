"""Syntax trees, gone through without what holds no nodes."""

from __future__ import annotations

import ast

FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}
_WITHOUT_NODES = frozenset(
    {"ctx", "op", "ops", "id", "attr", "arg", "name", "names", "kind", "type_comment", "module", "level"}
    | {"simple", "conversion", "rest", "kwd_attrs"}
)


def fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold nodes; operators and contexts are shared, and none."""
    names = () if kind is ast.Constant else kind._fields
    return FIELDS.setdefault(kind, tuple(each for each in names if each not in _WITHOUT_NODES))


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and what is below it but operators and contexts, level by level: quicker than `ast.walk`."""
    found = [node]
    for each in found:  # It grows while it is read.
        kind = each.__class__
        held = each.__dict__
        for name in FIELDS[kind] if kind in FIELDS else fields_of(kind):
            value = held.get(name)
            if value.__class__ is list:
                # A list holds nodes alone, but for the `None` of a key or a default that is not written.
                found += value if None not in value else [part for part in value if part is not None]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


def children_of(node: ast.AST) -> list[ast.AST]:
    """What is right below a node but operators and contexts, in the order of the fields."""
    found: list[ast.AST] = []
    kind = node.__class__
    for name in FIELDS[kind] if kind in FIELDS else fields_of(kind):
        value = node.__dict__.get(name)
        if value.__class__ is list:
            found += [each for each in value if each is not None]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def nodes_by_kind(tree: ast.AST) -> dict[type[ast.AST], list[ast.AST]]:
    """What is in a tree but operators and contexts, by kinds, each in the order of the source."""
    found: dict[type[ast.AST], list[ast.AST]] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        found.setdefault(node.__class__, []).append(node)
        pending += reversed(children_of(node))
    return found


def catches(node: ast.AST) -> bool:
    """Whether a program goes on after what fails in a `try`, as one of its handlers does not raise again."""
    handlers = node.handlers if isinstance(node, ast.Try | ast.TryStar) else []
    return any(not isinstance(each.body[-1], ast.Raise) for each in handlers)
