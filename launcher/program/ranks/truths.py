"""What a test may be in a distributed run, and what comparisons of ranks and world sizes say.

Such a run has two ranks at least: a test is the same on all of them, true on some (a `Guard`), or unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

from launcher.frozen import frozen
from launcher.program.evaluate import Evaluation
from launcher.program.evaluators.arithmetic import COMPARISONS
from launcher.program.values import (
    LAST_RANK,
    Constant,
    Environment,
    RankKind,
    RankValue,
    Several,
    Value,
    WorldSize,
)


@frozen
class Guard:
    """A test that is true on some ranks and false on others.

    True on the ranks of `members` (None: on some, unknown which), or where `outside` on all but them. Without
    `exact` it may be false there too, as of `rank == 0 and step % 10 == 0`. `test` is the expression.
    """

    kind: RankKind
    members: frozenset[int] | None
    outside: bool = False
    exact: bool = True
    test: ast.expr | None = field(default=None, compare=False)

    def opposite(self) -> Guard:
        """The guard of the other ranks."""
        return replace(self, outside=not self.outside)

    def same_ranks(self, other: Guard) -> bool:
        """Whether both are true on the same ranks, as far as they say."""
        return (self.kind, self.members, self.outside) == (other.kind, other.members, other.outside)

    def complements(self, other: Guard) -> bool:
        """Whether the one is true where the other is false."""
        return self.members is not None and self.same_ranks(other.opposite())

    def allows(self, ranks: frozenset[int]) -> bool:
        """Whether all of these ranks may come here."""
        if self.members is None or self.kind is not RankKind.GLOBAL:
            return True
        return not ranks & self.members if self.outside else ranks <= self.members

    @property
    def described(self) -> str:
        """Such as `rank 0`, `local rank 0` or `every rank but 0`."""
        word = {RankKind.LOCAL: "local rank", RankKind.NODE: "host"}.get(self.kind, "rank")
        if self.members is None or self.kind in (RankKind.DERIVED, RankKind.COORDINATE):
            return "some ranks"
        numbers = " and ".join(
            "the last" if each == LAST_RANK else str(each) for each in sorted(self.members)
        )
        if self.outside:
            return f"every {word} but {numbers}"
        return f"{word}{'s' if len(self.members) > 1 else ''} {numbers}"


Truth = Guard | bool | None
"""What a test is in a distributed run: the same on every rank, a Guard, or None where that is unknown."""


def negate(truth: Truth) -> Truth:
    """The truth of `not`; unknown of a guard that is not exact."""
    if isinstance(truth, Guard):
        return truth.opposite() if truth.exact else None
    return None if truth is None else not truth


def choose_truth(condition: Truth, body: Truth, other: Truth) -> Truth:
    """What `body if condition else other` is."""
    if condition is True:
        return body
    if condition is False:
        return other
    if isinstance(condition, Guard) and isinstance(body, bool) and isinstance(other, bool):
        if body == other:
            return body
        return condition if body else condition.opposite()
    if isinstance(body, Guard) and isinstance(other, Guard):
        return body if body.same_ranks(other) else None
    if condition is None and isinstance(body, bool) and body == other:
        return body
    return None


def conjunction(truths: Sequence[Truth]) -> Truth:
    """What `and` makes of the truths of its parts."""
    if False in truths:
        return False
    guards = [each for each in truths if isinstance(each, Guard)]
    if guards:
        # With an unknown condition besides: on these ranks sometimes, on the others never.
        exact = len(guards) == 1 and all(each is True for each in truths if not isinstance(each, Guard))
        return replace(narrowest(guards), exact=guards[0].exact and exact)
    return True if all(each is True for each in truths) else None


def narrowest(guards: Sequence[Guard]) -> Guard:
    """Of guards that are all true, what says most: that of the rank among all before those of its place on a
    host. The first rank of the first host is rank 0 of all."""
    for each in guards:
        if each.kind is RankKind.GLOBAL:
            return each
    first = frozenset({0})
    kinds = {each.kind for each in guards if each.members == first and not each.outside}
    alone = {RankKind.LOCAL, RankKind.NODE} <= kinds
    return Guard(RankKind.GLOBAL, first, test=guards[0].test) if alone else guards[0]


def disjunction(truths: Sequence[Truth]) -> Truth:
    """What `or` makes of the truths of its parts."""
    if True in truths:
        return True
    guards = [each for each in truths if isinstance(each, Guard)]
    if None in truths:
        return None
    if not guards:
        return False
    members = frozenset[int]()
    for each in guards:
        if each.members is None or each.outside or each.kind is not guards[0].kind:
            return replace(guards[0], members=None, exact=False) if len(guards) > 1 else guards[0]
        members |= each.members
    return replace(guards[0], members=members)


# What a comparison of ranks and world sizes says.


_OPERATORS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    **COMPARISONS,
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


def compare_values(
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
        return _compare_rank(test, left, right, sign, mirrored, evaluation, environment)
    if isinstance(left, WorldSize) and isinstance(right, Constant) and sign in _OPERATORS:
        return _compare_size(right.value, sign)
    if isinstance(left, Constant) and isinstance(right, Constant) and sign in _OPERATORS:
        return _compare_literals(left.value, right.value, sign)
    if isinstance(left, Constant) and isinstance(right, Several) and sign in (ast.In, ast.NotIn):
        numbers = _integers_in(right, evaluation, environment)
        return None if numbers is None else (left.value in numbers) == (sign is ast.In)
    return None


def _compare_rank(
    test: ast.Compare,
    rank: RankValue,
    other: Value,
    sign: type[ast.cmpop],
    node: ast.expr,
    evaluation: Evaluation,
    environment: Environment | None,
) -> Truth:
    if isinstance(other, Several) and sign in (ast.In, ast.NotIn):
        numbers = _integers_in(other, evaluation, environment)
        if numbers is None:
            return None
        return _guard_of_members(rank, frozenset(n for n in numbers if n >= 0), sign is ast.NotIn, test)
    if isinstance(other, WorldSize):
        if isinstance(node, ast.BinOp):  # `rank == world_size - 1`.
            minus_one = (
                isinstance(node.op, ast.Sub)
                and isinstance(node.right, ast.Constant)
                and node.right.value == 1
            )
            if minus_one and sign in (ast.Eq, ast.NotEq):
                return _guard_of_members(rank, frozenset({LAST_RANK}), sign is ast.NotEq, test)
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
        return _guard_of_members(rank, where, True, test)
    return _guard_of_members(rank, where, False, test)


def _guard_of_members(rank: RankValue, members: frozenset[int], outside: bool, test: ast.Compare) -> Truth:
    if not members:
        return outside
    return Guard(rank.kind, None if rank.kind is RankKind.DERIVED else members, outside, test=test)


def _compare_size(number: object, sign: type[ast.cmpop]) -> Truth:
    """Alike for every size from two on, or unknown."""
    if not isinstance(number, int):
        return None
    compare = _OPERATORS[sign]
    answers = {
        compare(size, number) for size in (2, 3, max(number - 1, 2), max(number, 2), number + 2, _MANY)
    }
    return answers.pop() if len(answers) == 1 else None


def _compare_literals(left: object, right: object, sign: type[ast.cmpop]) -> Truth:
    try:
        return bool(_OPERATORS[ast.Eq if sign is ast.Is else sign](left, right))
    except TypeError:
        return None


def _integers_in(
    several: Several, evaluation: Evaluation, environment: Environment | None
) -> list[int] | None:
    """The integers of a written list; None where it holds anything else."""
    found = []
    for each in several.node.elts:
        value = evaluation.value(each, environment)
        if not isinstance(value, Constant) or not isinstance(value.value, int):
            return None
        found.append(value.value)
    return found
