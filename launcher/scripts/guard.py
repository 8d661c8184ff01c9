"""The ranks on which something runs."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from launcher.scripts.ranks import LAST
from launcher.scripts.values import RankKind


@dataclass(frozen=True, slots=True)
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
    def ranks(self) -> str:
        """Such as `rank 0`, `local rank 0` or `every rank but 0`."""
        word = {RankKind.LOCAL: "local rank", RankKind.NODE: "host"}.get(self.kind, "rank")
        if self.members is None or self.kind in (RankKind.DERIVED, RankKind.COORDINATE):
            return "some ranks"
        numbers = " and ".join("the last" if each == LAST else str(each) for each in sorted(self.members))
        if self.outside:
            return f"every {word} but {numbers}"
        return f"{word}{'s' if len(self.members) > 1 else ''} {numbers}"


Truth = Guard | bool | None
"""What a test is in a distributed run: the same on every rank, a Guard, or None where that is unknown."""


def opposite(truth: Truth) -> Truth:
    """The truth of `not`; unknown of a guard that is not exact."""
    if isinstance(truth, Guard):
        return truth.opposite() if truth.exact else None
    return None if truth is None else not truth


def in_body(branch: ast.If | ast.IfExp, inner: ast.AST) -> bool:
    """Whether a part of a branch is what runs where its test is true."""
    body = branch.body
    return any(each is inner for each in body) if isinstance(body, list) else body is inner


def branched(condition: Truth, body: Truth, other: Truth) -> Truth:
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
