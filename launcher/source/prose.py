"""Python source without its docstrings: a container has no reader for them.

Lines keep their numbers, so that a traceback from a container leads to the line in the repository.
"""

from __future__ import annotations

import ast

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of a statement that hold statements, or what holds them."""


def without_docstrings(source: str) -> str:
    """The source with empty docstrings: it does the same, and every line is where it was.

    Raises SyntaxError for what is not Python.
    """
    lines = source.splitlines(keepends=True)
    for text in _docstrings(source):
        assert text.end_lineno is not None and text.end_col_offset is not None
        first, last = text.lineno - 1, text.end_lineno - 1
        before = lines[first].encode()[: text.col_offset].decode()
        behind = lines[last].encode()[text.end_col_offset :].decode()
        blank = ["\n"] * (last - first)
        lines[first : last + 1] = [f'{before}""{behind}', *blank]
    return "".join(lines)


def _docstrings(source: str) -> list[ast.Constant]:
    """The texts that are statements of their own."""
    texts: list[ast.Constant] = []
    nodes: list[ast.AST] = [ast.parse(source)]
    for node in nodes:
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                texts.append(node.value)
            continue
        # Most nodes stand below expressions, which hold no statements: looking at all takes thrice as long.
        for block in _BLOCKS:
            nodes.extend(getattr(node, block, ()))
    return texts
