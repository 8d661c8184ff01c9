"""What a comparison of ranks and world sizes says in a distributed run, which has two ranks at least."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from launcher.scripts.guard import Guard, Truth
from launcher.scripts.ranks import LAST
from launcher.scripts.values import Constant, RankKind, RankValue, Several, Value, WorldSize

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Environment, Evaluation

_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: lambda one, other: one is other,
    ast.IsNot: lambda one, other: one is not other,
}
_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
_MANY = 1 << 30
"""Stands for a number that is larger than those in the program."""


def compared(
    test: ast.Compare, left: Value, right: Value, evaluation: Evaluation, environment: Environment | None
) -> Truth:
    """What a comparison of these two values is; None where they do not tell."""
    sign = type(test.ops[0])
    if isinstance(right, RankValue | WorldSize) and not isinstance(left, RankValue | WorldSize):
        left, right, sign = right, left, _MIRRORED.get(sign, sign)
        mirrored = test.left
    else:
        mirrored = test.comparators[0]
    if isinstance(right, Constant) and right.value is None and isinstance(left, RankValue | WorldSize):
        return {ast.Is: False, ast.Eq: False, ast.IsNot: True, ast.NotEq: True}.get(sign)
    if isinstance(left, RankValue):
        return _rank(test, left, right, sign, mirrored, evaluation, environment)
    if isinstance(left, WorldSize) and isinstance(right, Constant) and sign in _OPERATORS:
        return _size(right.value, sign)
    if isinstance(left, Constant) and isinstance(right, Constant) and sign in _OPERATORS:
        return _literals(left.value, right.value, sign)
    if isinstance(left, Constant) and isinstance(right, Several) and sign in (ast.In, ast.NotIn):
        numbers = _numbers(right, evaluation, environment)
        return None if numbers is None else (left.value in numbers) == (sign is ast.In)
    return None


def _rank(
    test: ast.Compare,
    rank: RankValue,
    other: Value,
    sign: type[ast.cmpop],
    node: ast.expr,
    evaluation: Evaluation,
    environment: Environment | None,
) -> Truth:
    if isinstance(other, Several) and sign in (ast.In, ast.NotIn):
        numbers = _numbers(other, evaluation, environment)
        if numbers is None:
            return None
        return _guard(rank, frozenset(n for n in numbers if n >= 0), sign is ast.NotIn, test)
    if isinstance(other, WorldSize):
        if isinstance(node, ast.BinOp):  # `rank == world_size - 1`.
            minus_one = (
                isinstance(node.op, ast.Sub)
                and isinstance(node.right, ast.Constant)
                and node.right.value == 1
            )
            if minus_one and sign in (ast.Eq, ast.NotEq):
                return _guard(rank, frozenset({LAST}), sign is ast.NotEq, test)
            return None
        return {ast.Lt: True, ast.NotEq: True, ast.GtE: False, ast.Eq: False}.get(sign)
    if not isinstance(other, Constant):
        return None
    try:
        number = int(other.value) if isinstance(other.value, int | str) else None
    except ValueError:
        number = None
    if number is None or sign not in _OPERATORS:
        return None
    if rank.kind is RankKind.DERIVED:
        return Guard(rank.kind, None, test=test) if sign in (ast.Eq, ast.NotEq) and number >= 0 else None
    compare = _OPERATORS[ast.Eq if sign is ast.Is else ast.NotEq if sign is ast.IsNot else sign]
    where = frozenset(each for each in range(min(max(number, 0), 64) + 2) if compare(each, number))
    if compare(_MANY, number):  # True of the high ranks: name those for which it is not.
        where = frozenset(each for each in range(min(max(number, 0), 64) + 2) if not compare(each, number))
        return _guard(rank, where, True, test)
    return _guard(rank, where, False, test)


def _guard(rank: RankValue, members: frozenset[int], outside: bool, test: ast.Compare) -> Truth:
    if not members:
        return outside
    return Guard(rank.kind, None if rank.kind is RankKind.DERIVED else members, outside, test=test)


def _size(number: object, sign: type[ast.cmpop]) -> Truth:
    """Alike for every size from two on, or unknown."""
    if not isinstance(number, int):
        return None
    compare = _OPERATORS[sign]
    answers = {
        compare(size, number) for size in (2, 3, max(number - 1, 2), max(number, 2), number + 2, _MANY)
    }
    return answers.pop() if len(answers) == 1 else None


def _literals(left: object, right: object, sign: type[ast.cmpop]) -> Truth:
    try:
        return bool(_OPERATORS[ast.Eq if sign is ast.Is else sign](left, right))
    except TypeError:
        return None


def _numbers(several: Several, evaluation: Evaluation, environment: Environment | None) -> list[int] | None:
    """The integers of a written list; None where it holds anything else."""
    found = []
    for each in several.node.elts:
        value = evaluation.value(each, environment)
        if not isinstance(value, Constant) or not isinstance(value.value, int):
            return None
        found.append(value.value)
    return found
