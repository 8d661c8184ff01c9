"""The texts that an expression may be, as far as they are written in the program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from itertools import islice, product

from launcher.frozen import frozen
from launcher.program.dataflow import origins, text_parts
from launcher.program.program import Program


@frozen
class Spelling:
    """A text that an expression may be, and the literals that it is made of."""

    text: str
    literals: tuple[ast.Constant, ...] = ()


NOT_WRITTEN = "\0"
"""Stands in a spelling for what is not known of it."""

MOST_SPELLINGS = 16


def spellings(program: Program, node: ast.expr | None, depth: int = 8) -> list[Spelling]:
    """The texts that an expression may be."""
    if isinstance(node, ast.Constant):
        written = isinstance(node.value, str)
        return [Spelling(str(node.value), (node,))] if written else [Spelling(NOT_WRITTEN)]
    if node is None or depth == 0:
        return [Spelling(NOT_WRITTEN)]
    if isinstance(node, ast.Subscript) and getattr(node.slice, "value", None) == "SM_INPUT_DIR":
        return [Spelling("/opt/ml/input")]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _CASES:
        change = _CASES[node.func.attr]
        inner = spellings(program, node.func.value, depth - 1)
        return [Spelling(change(each.text), each.literals) for each in inner]
    parts, between = text_parts(program, node)
    if parts:
        of_parts = [spellings(program, each, depth - 1) for each in parts]
        return [
            Spelling(
                between.join(each.text for each in chosen),
                tuple(one for each in chosen for one in each.literals),
            )
            for chosen in islice(product(*of_parts), MOST_SPELLINGS)
        ]
    found = [each for each in origins(program, node) if each is not node]
    return [one for each in found for one in spellings(program, each, depth - 1)] or [Spelling(NOT_WRITTEN)]


_CASES: Mapping[str, Callable[[str], str]] = {"upper": str.upper, "lower": str.lower, "strip": str.strip}
