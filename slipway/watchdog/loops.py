"""Whether a rank has left a loop that the others are still in, by the text of the user's code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from slipway.watchdog.views import UserLine

_OF_MODELS = frozenset({"parameters", "named_parameters", "param_groups", "buffers", "named_buffers"})


def loop_left(
    inside: Sequence[UserLine], elsewhere: Sequence[UserLine], text_of: Callable[[str], str | None]
) -> UserLine | None:
    """The loop that `inside` is in and `elsewhere` is behind; None where there is none, or it is not known.

    Both are the user's lines of a stack, the innermost last. The two stacks are compared from the outside, up
    to the function in which they are at different lines: what is behind a call there is also behind all loops
    of the functions that it called. Where both are in one loop around it, the others may be in its next
    round: a loop over parameters has not been left for good then. `text_of` gives a file's text by its name.
    """
    for depth in range(min(len(inside), len(elsewhere))):
        here, there = inside[depth], elsewhere[depth]
        if (here.file, here.function) != (there.file, there.function):
            return None
        if here.number != there.number:
            break
    else:
        return None
    if there.number < here.number:
        return None
    around = (_outermost_loop(line, text_of(line.file)) for line in inside[depth + 1 :])
    mine = _outermost_loop(here, text_of(here.file), behind=there.number)
    return mine or next((loop for loop in around if loop is not None), None)


def _outermost_loop(line: UserLine, text: str | None, behind: int | None = None) -> UserLine | None:
    """The loop of its function around a line, the outermost of those that end before the line `behind`."""
    loops = _loops_around(line.number, text)
    if behind is not None:
        left = [loop for loop in loops if behind > (loop.end_lineno or loop.lineno)]
        loops = (
            left if len(left) == len(loops) else [loop for loop in left if not _goes_over_parameters(loop)]
        )
    return UserLine(line.file, min(loop.lineno for loop in loops), line.function) if loops else None


def _loops_around(number: int, text: str | None) -> list[ast.stmt]:
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        and node.lineno <= number <= (node.end_lineno or node.lineno)
    ]


def _goes_over_parameters(loop: ast.stmt) -> bool:
    """Whether a loop has as many rounds on all ranks, whatever their data: one that averages gradients."""
    over = getattr(loop, "iter", None)
    asked = ast.walk(over) if over is not None else ()
    return any(isinstance(node, ast.Attribute) and node.attr in _OF_MODELS for node in asked)
