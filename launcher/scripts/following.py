"""One function, followed statement by statement: what its ranks run, and where they part.

At a test that differs between ranks both arms are compared. Where only one arm leaves (return, break,
continue), the rest of the function or loop belongs to the other. An arm that ends by an exception or by
sys.exit with an error ends the run, and parts nobody. What an arm calls and nobody can resolve may run
anything.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from launcher.scripts.blocks import Block, Leaving, Parted, either
from launcher.scripts.guard import Guard, Truth, in_body, opposite
from launcher.scripts.running import CollectiveRun
from launcher.scripts.scopes import ancestors, last_name
from launcher.scripts.values import RankKind

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Environment
    from launcher.scripts.summaries import Summaries

_DEEPEST_BLOCK = 60
"""So many blocks within blocks; Python itself allows 100."""


class Following:
    """One function, followed with one set of arguments; `parted` is where its ranks part."""

    def __init__(self, summaries: Summaries, environment: Environment | None) -> None:
        """Nothing is followed yet."""
        self.summaries = summaries
        self.guards = summaries.program.guards
        self.environment = environment
        self.parted: list[Parted] = []
        self._among: list[Guard] = []

    def block(self, statements: Sequence[ast.stmt], depth: int) -> Block:
        """What these statements run, one after the other."""
        found = Block()
        if depth > _DEEPEST_BLOCK:
            return found
        says_something = self.summaries.running.says_something
        for number, statement in enumerate(statements):
            if not says_something(statement):
                continue
            if isinstance(statement, ast.If):
                if self._branch(statement, statements[number + 1 :], found, depth):
                    return found
                continue
            self._add(found, self._statement(statement, depth))
            if found.ends is not None:
                break
        return found

    def _add(self, found: Block, inner: Block) -> None:
        """Append what runs next; those who left before do not run it."""
        for leaving in found.leaving:
            self._missed(leaving, inner)
        found.must += inner.must
        found.may += inner.may
        found.leaving += inner.leaving
        found.ends, found.ends_the_run = inner.ends, inner.ends_the_run

    def _missed(self, leaving: Leaving, inner: Block) -> None:
        for run in inner.certain:
            if run.does not in leaving.ran and run.concerns(leaving.staying):
                self.parted.append(Parted(run, leaving.staying, leaving.statement))
                break

    def _branch(self, statement: ast.If, rest: Sequence[ast.stmt], found: Block, depth: int) -> bool:
        """Append an `if`; True where the rest of the block went with it."""
        self._add(found, self._header(statement))
        truth = self._here(self.guards.truth(statement.test, self.environment))
        if isinstance(truth, bool):
            self._add(found, self.block(statement.body if truth else statement.orelse, depth + 1))
            return found.ends is not None
        body, other = self._arms(statement, truth, depth)
        if body.ends_the_run or other.ends_the_run:
            if body.ends_the_run and other.ends_the_run:
                self._add(found, body)
                return True
            self._add(found, other if body.ends_the_run else body)
            return found.ends is not None
        one_ends = (body.ends is None) is not (other.ends is None)
        behind = self.block(rest, depth + 1) if one_ends else Block()
        if isinstance(truth, Guard):
            self._compare(statement, (body, other), behind, truth, found)
            self._add(found, behind)
        else:
            # Where one arm ends, some runs end here, all ranks alike; what follows may run.
            self._add(found, either(body, other))
            self._add(found, Block([], behind.everything, behind.leaving, behind.ends))
        if one_ends:
            return True
        if body.ends is not None and other.ends is not None:
            found.ends = body.ends
            return True
        return False

    def _here(self, truth: Truth) -> Truth:
        """What a test is on the ranks that come here: `rank > 0` is true in the `else` of `rank == 0`."""
        if not isinstance(truth, Guard) or truth.members is None:
            return truth
        if truth.exact and any(each.same_ranks(truth) for each in self._among):
            return True
        return False if any(each.complements(truth) for each in self._among) else truth

    def _arms(self, statement: ast.If, truth: Truth, depth: int) -> tuple[Block, Block]:
        """The two arms of an `if`, each followed with the ranks that come to it."""
        known = isinstance(truth, Guard) and truth.kind in (RankKind.GLOBAL, RankKind.LOCAL, RankKind.NODE)
        found = []
        for statements, guard in (
            (statement.body, truth),
            (statement.orelse, opposite(truth)),
        ):
            before = len(self._among)
            if known and isinstance(guard, Guard):
                self._among.append(guard)
            found.append(self.block(statements, depth + 1))
            del self._among[before:]
        return found[0], found[1]

    def _compare(
        self, statement: ast.If, both: tuple[Block, Block], behind: Block, guard: Guard, found: Block
    ) -> None:
        """Append the two arms of a guard: what both run, and say what one runs alone.

        Where one arm leaves, what is behind the `if` belongs to the other.
        """
        body, other = both
        arms = [(body, other, guard, statement.orelse)]
        if guard.exact:
            arms.append((other, body, guard.opposite(), statement.body))
        running = self.summaries.running
        for one, another, staying, statements in arms:
            answering = [*another.everything, *(behind.everything if one.ends is not None else ())]
            there = {run.does for run in answering}
            alone = [run for run in one.certain if run.does not in there and run.concerns(staying)]
            if alone and not running.calls_the_unknown(statements, self.environment):
                self.parted += [Parted(run, staying) for run in alone]
        in_other = {run.does for run in other.must}
        must = [run for run in body.must if run.does in in_other]
        inner = Block(must, [run for run in (*body.everything, *other.everything) if run not in must])
        inner.leaving = [*body.leaving, *other.leaving]
        for leaves, stays, staying, statements in (
            (body, other, guard.opposite(), statement.body),
            (other, body, guard, statement.orelse),
        ):
            one_leaves = leaves.ends is not None and stays.ends is None
            if (
                leaves.ends is not None
                and one_leaves
                and not running.calls_the_unknown(statements, self.environment)
            ):
                ran = frozenset(run.does for run in leaves.everything)
                inner.leaving.append(Leaving(leaves.ends, staying, ran))
        self._add(found, inner)

    def _statement(self, statement: ast.stmt, depth: int) -> Block:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return Block()
        found = self._header(statement)
        if isinstance(statement, ast.Return | ast.Break | ast.Continue):
            found.ends = statement
        elif isinstance(statement, ast.Raise):
            found.ends, found.ends_the_run = statement, True
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            exits = self.summaries.running.exits(statement.value)
            if exits is not None:
                found.ends, found.ends_the_run = statement, exits
        elif isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            self._add(found, self._loop(statement, depth))
        elif isinstance(statement, ast.With | ast.AsyncWith):
            before = len(self.parted)
            body = self.block(statement.body, depth + 1)
            contexts = {last_name(each.func) for each in _calls(statement)}
            if contexts & {"assertRaises", "assertRaisesRegex", "raises"}:  # A test expects the timeout.
                del self.parted[before:]
                body = Block([], [run.indirectly() for run in body.everything])
            elif contexts & {"Join", "join"}:  # Ranks without data answer the collectives of the others.
                body = Block([], [run.indirectly() for run in body.everything], [], body.ends)
            self._add(found, body)
        elif isinstance(statement, ast.Try | ast.TryStar):
            self._add(found, self._tried(statement, depth))
        elif isinstance(statement, ast.Match):
            arms = [self.block(case.body, depth + 1) for case in statement.cases]
            self._add(found, Block([], [run for arm in arms for run in arm.everything]))
        return found

    def _loop(self, statement: ast.For | ast.AsyncFor | ast.While, depth: int) -> Block:
        body = self.block(statement.body, depth + 1)
        for leaving in body.leaving:
            if isinstance(leaving.statement, ast.Break):  # The others go on to the next round.
                self._missed(Leaving(leaving.statement, leaving.staying, frozenset()), _rounds(body, leaving))
        body.leaving = [each for each in body.leaving if isinstance(each.statement, ast.Return | ast.Expr)]
        # A loop is taken to run once at least; what stands behind a `break` for all is not run again.
        body.ends, body.ends_the_run = None, False
        self._add(body, self.block(statement.orelse, depth + 1))
        return body

    def _tried(self, statement: ast.Try | ast.TryStar, depth: int) -> Block:
        found = self.block(statement.body, depth + 1)
        ends, raises = found.ends, found.ends_the_run
        if raises and statement.handlers:
            found.ends, found.ends_the_run = None, False
            ends = None
        for handler in statement.handlers:
            caught = self.block(handler.body, depth + 1)
            found.may += [run.indirectly() for run in caught.everything]
            if caught.ends is None:
                found.ends, found.ends_the_run = None, False
        if ends is None:
            self._add(found, self.block(statement.orelse, depth + 1))
        last = self.block(statement.finalbody, depth + 1)
        found.must += last.must
        found.may += last.may
        return found

    def _header(self, statement: ast.stmt) -> Block:
        """What the statement itself runs, without the blocks that it holds."""
        found = Block()
        for call in self.summaries.running.calls_of(statement):
            must, may = self._call(call)
            under = self._within(call, statement)
            if under is None:
                found.must += must
                found.may += may
            elif isinstance(under, Guard):
                self.parted += [Parted(run, under) for run in must if run.concerns(under)]
                found.may += [run.indirectly() for run in (*must, *may)]
            else:
                found.may += [run.indirectly() for run in (*must, *may)]
        return found

    def _within(self, call: ast.Call, statement: ast.stmt) -> Guard | bool | None:
        """The guard of the part of an expression in which a call stands; True for another condition."""
        inner: ast.AST = call
        under: Guard | bool | None = None
        for outer in ancestors(call):
            if outer is statement:
                break
            if isinstance(outer, ast.IfExp) and inner is not outer.test:
                truth = self.guards.truth(outer.test, self.environment)
                if isinstance(truth, Guard):
                    return truth if in_body(outer, inner) else truth.opposite()
                under = True
            elif isinstance(outer, ast.BoolOp) and inner is not outer.values[0]:
                first = self.guards.truth(outer.values[0], self.environment)
                if isinstance(first, Guard):
                    return first if isinstance(outer.op, ast.And) else first.opposite()
                under = True
            inner = outer
        return under

    def _call(self, call: ast.Call) -> tuple[list[CollectiveRun], list[CollectiveRun]]:
        """What a call must run, and what it may."""
        running = self.summaries.running
        run = running.collective(call, self.environment)
        if run is not None:
            return [run], []
        called = running.function(call, self.environment)
        if called is None:
            return [], []
        function, environment = called
        if not running.matters(function):
            return [], []
        inner = self.summaries.of(function, environment)
        parted = [each.run for each in inner.parted]
        return (
            [each.called_by(call) for each in inner.must],
            [each.called_by(call) for each in (*inner.may, *parted)],
        )


def _calls(statement: ast.With | ast.AsyncWith) -> list[ast.Call]:
    """The calls that make the contexts of a `with`."""
    contexts = (item.context_expr for item in statement.items)
    return [each for each in contexts if isinstance(each, ast.Call)]


def _rounds(body: Block, leaving: Leaving) -> Block:
    """What the ranks that stay in a loop run in the next round."""
    return Block(list(body.must), [run for run in body.may if run.direct])
