"""The arguments of a call of a library, by name or position."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from launcher.scripts.scopes import SCOPE
from launcher.scripts.values import Constant, Instance, Value, alternatives

if TYPE_CHECKING:
    from launcher.scripts.program import Program


def is_open(call: ast.Call) -> bool:
    """Whether `*` or `**` may give a call arguments that nobody sees."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    )


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """What a call gives a parameter; None where it does not, or where `*` hides which argument is which."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is None or any(isinstance(each, ast.Starred) for each in call.args[: position + 1]):
        return None
    return call.args[position] if position < len(call.args) else None


def constant(program: Program, node: ast.expr | None) -> Constant | None:
    """The literal that an expression surely is."""
    value = None if node is None else program.value(node)
    return value if isinstance(value, Constant) else None


def made_by(value: Value, *names: str) -> frozenset[ast.Call] | None:
    """The calls of these names that gave a value; None where it may come from anything else."""
    found = set[ast.Call]()
    for each in alternatives(value):
        # What an annotation says stands in no file: it is not known how such an object was made.
        if not isinstance(each, Instance) or each.name not in names or SCOPE not in each.call.__dict__:
            return None
        found.add(each.call)
    return frozenset(found)
