"""The parts of what is unpacked, by what stands left of a `=`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

Part = tuple[ast.expr, ast.expr | None, int | None]
"""What gets a value, the value, and the position in it where it is a part of it."""


def unpacked_parts(
    target: ast.Tuple | ast.List,
    value: ast.expr | None,
    item: int | None,
    placed: Callable[[ast.expr, ast.expr], ast.expr],
) -> Iterator[Part]:
    """What each of the targets that stand side by side gets of a value, or of a part of it.

    `placed` makes an expression for a part by its position or slice.
    """
    if value is None:
        yield from ((each, None, None) for each in target.elts)
        return
    value = value if item is None else placed(value, ast.Constant(item))
    count = len(target.elts)
    star = next((n for n, each in enumerate(target.elts) if isinstance(each, ast.Starred)), count)
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == count == star:
        yield from ((each, given, None) for each, given in zip(target.elts, value.elts, strict=True))
        return
    for number, each in enumerate(target.elts):
        behind = number - count
        if number == star:
            end = ast.Constant(behind + 1) if behind < -1 else None
            yield each, placed(value, ast.Slice(ast.Constant(number), end)), None
        else:
            yield each, value, number if number < star else behind
