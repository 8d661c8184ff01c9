"""Whether a rank has left a loop that the others are still in, by the text of the user's code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from slipway.watchdog.views import UserLine


def loop_left(
    inside: Sequence[UserLine], elsewhere: Sequence[UserLine], text_of: Callable[[str], str | None]
) -> UserLine | None:
    """The loop that `inside` is in and `elsewhere` is behind; None where there is none, or it is not known.

    Both are the user's lines of a stack, the innermost last. The two stacks are compared from the outside, up
    to the function in which they are at different lines: what is behind a call there is also behind all loops
    of the functions that it called. `text_of` gives a file's text by its name.
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
    try:
        tree = ast.parse(text or "")
    except (SyntaxError, ValueError, RecursionError):
        return None
    loops = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.While))
        and node.lineno <= line.number <= (node.end_lineno or node.lineno)
        and (behind is None or behind > (node.end_lineno or node.lineno))
    ]
    return UserLine(line.file, min(loops), line.function) if loops else None
