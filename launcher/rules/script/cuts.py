"""Where a program cuts a list by rank: `files[rank::world_size]` and its like."""

from __future__ import annotations

import ast

from launcher.scripts.program import Program
from launcher.scripts.scopes import parent_of
from launcher.scripts.values import External, RankValue, WorldSize


def is_cut_by_rank(program: Program, node: ast.expr) -> bool:
    """Whether a list is cut where it stands: by a stride, in blocks, or by islice."""
    parent = parent_of(node)
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.slice, ast.Slice):
        bounds = (parent.slice.lower, parent.slice.upper, parent.slice.step)
        return any(each is not None and _is_rank(program, each) for each in bounds)
    if isinstance(parent, ast.Call) and parent.args[:1] == [node]:
        called = program.value(parent.func)
        return called == External("itertools.islice") and any(
            _is_rank(program, each) for each in parent.args[1:]
        )
    return False


def is_uneven_cut(program: Program, node: ast.AST) -> bool:
    """Whether an expression takes every N-th element, beginning with the rank: counts differ by one."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        cut = node.slice
        return (
            cut.lower is not None
            and cut.step is not None
            and cut.upper is None
            and _is_rank(program, cut.lower)
            and isinstance(program.value(cut.step), WorldSize)
        )
    if isinstance(node, ast.Call) and len(node.args) == 4:
        _, first, stop, step = node.args
        return (
            program.value(node.func) == External("itertools.islice")
            and isinstance(stop, ast.Constant)
            and stop.value is None
            and _is_rank(program, first)
            and isinstance(program.value(step), WorldSize)
        )
    return _keeps_its_turn(program, node)


def _keeps_its_turn(program: Program, node: ast.AST) -> bool:
    """`i % world_size == rank`, of what is numbered."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    if not isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return False
    sides = (node.left, node.comparators[0])
    divided = [each for each in sides if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod)]
    return (
        len(divided) == 1
        and isinstance(program.value(divided[0].right), WorldSize)
        and any(_is_rank(program, each) for each in sides if each is not divided[0])
    )


def _is_rank(program: Program, node: ast.expr) -> bool:
    return isinstance(program.value(node), RankValue)
