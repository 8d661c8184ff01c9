"""What a block of statements runs, and which ranks leave it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from launcher.scripts.guard import Guard
from launcher.scripts.running import CollectiveRun


@dataclass(frozen=True, slots=True)
class Parted:
    """A collective that some ranks run and others do not.

    `guard` is of those that run it. `leaves` is the statement by which the others go, where they do.
    """

    run: CollectiveRun
    guard: Guard
    leaves: ast.stmt | None = None


@dataclass(frozen=True, slots=True)
class Leaving:
    """Ranks that leave a block before its end: by which statement, which stay, and what they ran before."""

    statement: ast.stmt
    staying: Guard
    ran: frozenset[str]


@dataclass(slots=True)
class Block:
    """What a block runs: `must` on every rank that comes to it, `may` besides.

    `ends` is the statement by which every rank leaves it, where there is one; `leaving` are those by which
    some do. `ends_the_run` says that it raises, or exits with an error.
    """

    must: list[CollectiveRun] = field(default_factory=list)
    may: list[CollectiveRun] = field(default_factory=list)
    leaving: list[Leaving] = field(default_factory=list)
    ends: ast.stmt | None = None
    ends_the_run: bool = False

    @property
    def everything(self) -> list[CollectiveRun]:
        """What it must run and what it may."""
        return [*self.must, *self.may]

    @property
    def certain(self) -> list[CollectiveRun]:
        """What ranks wait in once they come to it: what must run, and collectives that stand here."""
        return [*self.must, *(run for run in self.may if run.direct)]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a function runs, with these arguments; `parted` is where its ranks part."""

    must: tuple[CollectiveRun, ...] = ()
    may: tuple[CollectiveRun, ...] = ()
    parted: tuple[Parted, ...] = ()


def either(body: Block, other: Block) -> Block:
    """The arms of a test of which nobody knows what it is: what both must run, must run."""
    in_other = {run.does for run in other.must}
    both = [run for run in body.must if run.does in in_other]
    rest = [run for run in (*body.everything, *other.everything) if run not in both]
    return Block(both, rest, [*body.leaving, *other.leaving])
