"""Where a program cuts a list by rank: `files[rank::world_size]` and its like."""

from __future__ import annotations

import ast

from launcher.scripts.guard import Guard
from launcher.scripts.origins import origins
from launcher.scripts.program import Program
from launcher.scripts.ranks import LAST
from launcher.scripts.scopes import parent_of
from launcher.scripts.values import Constant, External, RankValue, WorldSize

_PARTS = frozenset({"numpy.array_split", "torch.tensor_split", "torch.chunk"})
"""What makes so many parts, of lengths that differ where the whole does not divide."""

_ROUNDS_UP = frozenset({"math.ceil", "numpy.ceil"})
_ROUNDS = frozenset({"int", "round"})


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


def is_uneven_block(program: Program, node: ast.AST) -> bool:
    """Whether an expression takes this rank's block of a list cut into as many as there are ranks, not all
    equally long: `np.array_split(x, n)[rank]`, or `x[rank * size:(rank + 1) * size]` with a rounded-up size.
    """
    if not isinstance(node, ast.Subscript):
        return False
    if _is_rank(program, node.slice) and isinstance(node.value, ast.Call) and len(node.value.args) == 2:
        parts = node.value
        split = isinstance(program.value(parts.func), External) and program.qualified(parts.func) in _PARTS
        return split and isinstance(program.value(parts.args[1]), WorldSize)
    if not isinstance(node.slice, ast.Slice) or node.slice.lower is None or node.slice.step is not None:
        return False
    size = _size_of_blocks(program, node.slice.lower)
    return size is not None and all(_is_rounded_up(program, each) for each in origins(program, size))


def has_a_longer_last_block(program: Program, node: ast.AST) -> bool:
    """Whether this rank's block of a list is longer on the last rank, which takes the rest:
    `x[rank * size:len(x) if rank == world_size - 1 else (rank + 1) * size]`.
    """
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
        return False
    lower, upper = node.slice.lower, node.slice.upper
    if lower is None or upper is None or _size_of_blocks(program, lower) is None:
        return False
    made = [upper] if isinstance(upper, ast.IfExp) else _assigned(program, upper)
    return bool(made) and all(
        isinstance(each, ast.IfExp) and _is_for_the_last(program, each) for each in made
    )


def _assigned(program: Program, node: ast.expr) -> list[ast.expr | None]:
    """What a name was set to; a choice stays whole."""
    return [each.value for each in program.evaluation.sources(node)]


def _is_for_the_last(program: Program, choice: ast.IfExp) -> bool:
    """Whether a choice is the whole length, or None, on the last rank alone."""
    truth = program.guards.truth(choice.test)
    if not isinstance(truth, Guard) or truth.members != frozenset({LAST}):
        return False
    last = choice.orelse if truth.outside else choice.body
    whole = isinstance(last, ast.Call) and program.value(last.func) == External("len")
    return whole or program.value(last) == Constant(None)


def _size_of_blocks(program: Program, start: ast.expr) -> ast.expr | None:
    """The size of blocks of which this rank's begins here: that of `rank * size`."""
    for made in [start, *(each for each in _assigned(program, start) if each is not None)]:
        if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult):
            for one, other in ((made.left, made.right), (made.right, made.left)):
                if _is_rank(program, one):
                    return other
    return None


def _is_rounded_up(program: Program, size: ast.expr | None) -> bool:
    """Whether a size is a length divided by the number of ranks and rounded up."""
    while isinstance(size, ast.Call) and size.args:
        name = program.qualified(size.func)
        inner = size.args[0]
        if name in _ROUNDS_UP:
            return (
                isinstance(inner, ast.BinOp)
                and isinstance(inner.op, ast.Div)
                and isinstance(program.value(inner.right), WorldSize)
            )
        if name not in _ROUNDS:
            return False
        size = inner
    return False


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
