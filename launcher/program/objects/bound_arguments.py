"""Which parameter of a function gets which argument of a call."""

from __future__ import annotations

import ast

from launcher.program.index import FunctionNode, parameters_of, positional_of
from launcher.program.values import like

_COLLECTED = "collected"
"""Where a call keeps what it gives to the `*args` and `**options` of functions."""


def bind_arguments(function: FunctionNode, call: ast.Call, bound: bool) -> dict[str, ast.expr] | None:
    """The arguments of a call by the parameters; None where a `*` or `**` hides which are which."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if any(each.arg is None for each in call.keywords):
        return None
    positional = [each.arg for each in positional_of(function)][int(bound) :]
    found = dict(zip(positional, call.args, strict=False))
    names = {each.arg for each in parameters_of(function)}
    found |= {name: each.value for each in call.keywords if (name := each.arg) and name in names}
    return found | _collected(function, call, len(positional))


def _collected(function: FunctionNode, call: ast.Call, place: int) -> dict[str, ast.expr]:
    """What a call gives to `*args` and `**options` of a function: the same when it is asked again."""
    known: dict[ast.AST, dict[str, ast.expr]] = call.__dict__.setdefault(_COLLECTED, {})
    if function not in known:
        found = known[function] = {}
        if function.args.vararg is not None:
            found[function.args.vararg.arg] = like(call, ast.Tuple(call.args[place:], ast.Load()))
        if function.args.kwarg is not None:
            names = {each.arg for each in parameters_of(function)}
            extra = [each for each in call.keywords if each.arg not in names]
            keys: list[ast.expr | None] = [like(each.value, ast.Constant(each.arg)) for each in extra]
            given = ast.Dict(keys, [each.value for each in extra])
            found[function.args.kwarg.arg] = like(call, given)
    return known[function]
