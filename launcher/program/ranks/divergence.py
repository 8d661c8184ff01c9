"""Where the ranks of a program diverge: a collective that some run and others do not.

Per function a summary says what every rank that enters must run and what it may. A function is followed
statement by statement. At a test that differs between ranks both arms are compared. Where only one arm
leaves (return, break, continue), the rest of the function or loop belongs to the other. An arm that ends by
an exception or by sys.exit with an error ends the run, and parts nobody. What an arm calls and nobody can
resolve may run anything.

Where a wrapped model is trained (`wrapped_training_loops`), every rank must take the same turns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from launcher.frozen import frozen
from launcher.program.index import (
    FunctionNode,
    ancestors,
    class_of,
    file_of,
    last_name,
    parent_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.collective_calls import BACKWARD, CollectiveCalls, CollectiveRun
from launcher.program.ranks.guards import Guards, is_in_body
from launcher.program.ranks.truths import Guard, Truth, negate
from launcher.program.values import (
    Constant,
    Defined,
    Environment,
    External,
    Made,
    RankKind,
    RankValue,
    Value,
)

_DEEPEST_FUNCTION = 12
"""So many functions within functions are followed."""


_CACHE_DECORATORS = frozenset({"functools.cache", "functools.lru_cache", "functools.cached_property"})


class FunctionSummaries:
    """The functions of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is followed before somebody asks."""
        self.program = program
        self.collective_calls = CollectiveCalls(program)
        self._known: dict[tuple[ast.AST, frozenset[tuple[ast.AST, Value]]], FunctionSummary] = {}
        self._depth = 0

    def summary(
        self, function: FunctionNode | ast.Module, environment: Environment | None = None
    ) -> FunctionSummary:
        """The summary of a function or of a module's own code."""
        key = (function, frozenset((environment or {}).items()))
        if key in self._known:
            return self._known[key]
        if self._depth >= _DEEPEST_FUNCTION:
            return FunctionSummary()
        self._known[key] = FunctionSummary()  # Of a function that calls itself.
        self._depth += 1
        try:
            found = self._known[key] = self._summarised(function, environment)
        finally:
            self._depth -= 1
        return found

    def _summarised(
        self, function: FunctionNode | ast.Module, environment: Environment | None
    ) -> FunctionSummary:
        function_walk = FunctionWalk(self, environment)
        if isinstance(function, ast.Lambda):
            inner = [each for each in walk(function.body) if isinstance(each, ast.Call)]
            found = function_walk.run_calls(inner, function)
            return FunctionSummary(tuple(found.must), tuple(found.may), tuple(function_walk.divergences))
        block = function_walk.walk(function.body, 0)
        divergences = tuple(_without_counterparts(function_walk.divergences, block.may))
        if isinstance(function, ast.Module):
            return FunctionSummary(tuple(block.must), tuple(block.may), divergences)
        guard = self.program.analysis(Guards).decorator_guard(function)
        if guard is not None:
            decorated = (Divergence(run, guard) for run in block.must if run.concerns(guard))
            return FunctionSummary((), (), (*decorated, *divergences))
        must = () if self._answers_from_memory(function) else tuple(block.must)
        return FunctionSummary(must, tuple(block.may), divergences)

    def _answers_from_memory(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether a call of a function need not run it, as one with the same arguments has before."""
        made = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
        return any(self.program.qualified(each) in _CACHE_DECORATORS for each in made)

    def _is_called_back(self, function: FunctionNode | ast.Module) -> bool:
        """Whether some ranks alone hand a function to a library, so that the others answer it elsewhere.

        `if rank == 0: optimizer.step(closure)`, while the others wait in a loop for what closure sends.
        """
        if isinstance(function, ast.Module | ast.Lambda):
            return False
        for use in file_of(function).names.get(function.name, ()):
            call = parent_of(use)
            if (
                isinstance(call, ast.Call)
                and use in call.args
                and self.program.analysis(Guards).guard_around(call)
            ):
                called, value = self.program.value(call.func), self.program.value(use)
                mine = isinstance(value, Defined) and value.node is function
                if mine and not isinstance(called, Defined):
                    return True
        return False

    def divergences(self) -> list[Divergence]:
        """Where the ranks of the program part, in the order of its files, each place once."""
        found: dict[ast.AST, Divergence] = {}
        for file in self.program.files:
            for function in (file.tree, *file.functions):
                if self.collective_calls.matters(function) and not self._is_called_back(function):
                    for each in self.summary(function).divergences:
                        found.setdefault(each.leaves or each.run.node, each)
        for (_, given), summary in [*self._known.items()]:
            if any(isinstance(each, Defined | External) or _is_text(each) for _, each in given):
                for each in summary.divergences:
                    found.setdefault(each.leaves or each.run.node, each)
        for each in self._made_on_some_ranks():
            found.setdefault(each.leaves or each.run.node, each)
        return list(found.values())

    def _made_on_some_ranks(self) -> Iterator[Divergence]:
        """The collectives of what some ranks alone list or choose: `if main: hooks.append(Average())`."""
        guards = self.program.analysis(Guards)
        followed = [each for each in self.collective_calls.paths.functions if isinstance(each, FunctionNode)]
        for function in sorted(followed, key=lambda each: (str(file_of(each).path), each.lineno)):
            made = class_of(function) or function
            name = getattr(made, "name", "")
            uses = [use for file in self.program.mentioning(name) for use in file.names.get(name, ())]
            own: list[ast.expr] = [use for use in uses if self.program.value(use) == Defined(made)]
            own = [function] if isinstance(function, ast.Lambda) else own
            for chosen in (own, [*self._reads_of(function)]):
                found = [guards.guard_of_choice(use, self._answers) for use in chosen]
                must = self.summary(function).must if found else ()
                if must and found[0] is not None and None not in found and must[0].concerns(found[0]):
                    yield Divergence(must[0], found[0])

    def _reads_of(self, method: FunctionNode) -> Iterator[ast.expr]:
        """Where a method of an object is read, to be called or kept: `{0: self.publish}`."""
        name = getattr(method, "name", "")
        for file in self.program.mentioning(name) if class_of(method) is not None else ():
            for use in file.attributes.get(name, ()):
                if getattr(self.program.value(use), "node", None) is method:
                    yield use

    def _answers(self, other: ast.expr) -> bool:
        """Whether what the other ranks choose may run collectives, too."""
        if isinstance(other, ast.List | ast.Tuple):
            return any(map(self._answers, other.elts))
        value = self.program.value(other)
        if isinstance(value, Made) and not value.definition.bases:
            return any(map(self.collective_calls.matters, _methods_of(value.definition)))
        called = getattr(value, "node", None)
        return not isinstance(called, FunctionNode) or self.collective_calls.matters(called)


def _methods_of(definition: ast.ClassDef) -> list[FunctionNode]:
    return [each for each in definition.body if isinstance(each, FunctionNode)]


def _is_text(value: Value) -> bool:
    """Whether a value is a text, such as the name of an event of which all hooks are told."""
    return isinstance(value, Constant) and isinstance(value.value, str)


def _without_counterparts(parted: Sequence[Divergence], may: Sequence[CollectiveRun]) -> list[Divergence]:
    """Where ranks part and no other part of the function makes up for it: first the others wait, then rank 0
    releases them.

    Where nobody knows which ranks part, the same collective under an unknown test may be the other half.
    """
    known = {each.run.node for each in parted}
    unknown = {run.short_name for run in may if run.node not in known}
    left = [each for each in parted if each.guard.members is not None or each.run.short_name not in unknown]
    for waiting_first in (True, False):
        for each in parted:
            if each not in left or each.leaves is not None or (waiting_first and not each.guard.outside):
                continue
            behind = [other for other in left if other.run.node.lineno > each.run.node.lineno]
            answer = next((other for other in behind if _is_counterpart(other, each)), None)
            if answer is not None:
                left.remove(each)
                left.remove(answer)
    return left


def _is_counterpart(one: Divergence, other: Divergence) -> bool:
    return (
        one.leaves is None
        and one.run.short_name == other.run.short_name
        and one.guard.complements(other.guard)
    )


def collectives_run_by(program: Program, statements: Iterable[ast.stmt]) -> list[CollectiveRun]:
    """What ranks that come to these statements wait in, whatever stands around them."""
    return FunctionWalk(program.analysis(FunctionSummaries), None).walk(list(statements), 0).certain


def may_run_collectives(program: Program, statements: Iterable[ast.stmt]) -> bool:
    """Whether ranks that come to these statements may run a collective in them."""
    return bool(FunctionWalk(program.analysis(FunctionSummaries), None).walk(list(statements), 0).everything)


_DEEPEST_BLOCK = 60
"""So many blocks within blocks; Python itself allows 100."""


class FunctionWalk:
    """One function, followed with one set of arguments; `divergences` are where its ranks part."""

    def __init__(self, summaries: FunctionSummaries, environment: Environment | None) -> None:
        """Nothing is followed yet."""
        self.summaries = summaries
        self.guards = summaries.program.analysis(Guards)
        self.environment = environment
        self.divergences: list[Divergence] = []
        self._among: list[Guard] = []

    def walk(self, statements: Sequence[ast.stmt], depth: int) -> Block:
        """What these statements run, one after the other."""
        found = Block()
        if depth > _DEEPEST_BLOCK:
            return found
        matters_here = self.summaries.collective_calls.matters_here
        for number, statement in enumerate(statements):
            if not matters_here(statement):
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

    def _missed(self, leaving: Departure, inner: Block) -> None:
        for run in inner.certain:
            if run.short_name not in leaving.ran and run.concerns(leaving.staying):
                self.divergences.append(Divergence(run, leaving.staying, leaving.statement))
                break

    def _branch(self, statement: ast.If, rest: Sequence[ast.stmt], found: Block, depth: int) -> bool:
        """Append an `if`; True where the rest of the block went with it."""
        self._add(found, self._header(statement))
        truth = self._here(self.guards.truth(statement.test, self.environment))
        opposite = self.guards.opposite(statement.test, self.environment) if truth is None else None
        if isinstance(opposite, Guard):
            truth = self._here(opposite)
            swapped = ast.If(statement.test, statement.orelse, statement.body)
            statement = ast.copy_location(swapped, statement)
        truth = self.summaries.collective_calls.asks_for_method(statement.test) if truth is None else truth
        if isinstance(truth, bool):
            self._add(found, self.walk(statement.body if truth else statement.orelse, depth + 1))
            return found.ends is not None
        body, other = self._arms(statement, truth, depth)
        if body.ends_the_run or other.ends_the_run:
            if body.ends_the_run and other.ends_the_run:
                self._add(found, body)
                return True
            self._add(found, other if body.ends_the_run else body)
            return found.ends is not None
        one_ends = (body.ends is None) is not (other.ends is None)
        behind = self.walk(rest, depth + 1) if one_ends else Block()
        if isinstance(truth, Guard):
            self._compare(statement, (body, other), behind, truth, found)
            self._add(found, behind)
        else:
            # Where one arm ends, some runs end here, all ranks alike; what follows may run.
            self._add(found, merge_arms(body, other))
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
            (statement.orelse, negate(truth)),
        ):
            before = len(self._among)
            if known and isinstance(guard, Guard):
                self._among.append(guard)
            found.append(self.walk(statements, depth + 1))
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
        collective_calls = self.summaries.collective_calls
        for one, another, staying, statements in arms:
            answering = [*another.everything, *(behind.everything if one.ends is not None else ())]
            there = {run.short_name for run in answering}
            alone = [run for run in one.certain if run.short_name not in there and run.concerns(staying)]
            if alone and not collective_calls.calls_the_unknown(statements, self.environment):
                self.divergences += [Divergence(run, staying) for run in alone]
        in_other = {run.short_name for run in other.must}
        must = [run for run in body.must if run.short_name in in_other]
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
                and not collective_calls.calls_the_unknown(statements, self.environment)
            ):
                ran = frozenset(run.short_name for run in leaves.everything)
                inner.leaving.append(Departure(leaves.ends, staying, ran))
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
            exits = self.summaries.collective_calls.exits(statement.value)
            if exits is not None:
                found.ends, found.ends_the_run = statement, exits
        elif isinstance(statement, ast.For | ast.AsyncFor | ast.While):
            self._add(found, self._loop(statement, depth))
        elif isinstance(statement, ast.With | ast.AsyncWith):
            before = len(self.divergences)
            body = self.walk(statement.body, depth + 1)
            contexts = {last_name(each.func) for each in _context_calls(statement)}
            if contexts & {"assertRaises", "assertRaisesRegex", "raises"}:  # A test expects the timeout.
                del self.divergences[before:]
                body = Block([], [run.perhaps() for run in body.everything])
            elif contexts & {"Join", "join"}:  # Ranks without data answer the collectives of the others.
                body = Block([], [run.perhaps() for run in body.everything], [], body.ends)
            self._add(found, body)
        elif isinstance(statement, ast.Try | ast.TryStar):
            self._add(found, self._tried(statement, depth))
        elif isinstance(statement, ast.Match):
            arms = [self.walk(case.body, depth + 1) for case in statement.cases]
            self._add(found, Block([], [run for arm in arms for run in arm.everything]))
        return found

    def _loop(self, statement: ast.For | ast.AsyncFor | ast.While, depth: int) -> Block:
        body = self.walk(statement.body, depth + 1)
        more = self._rounds_by_rank(statement.iter) if isinstance(statement, ast.For) else None
        if more is not None and all(run.collective is not BACKWARD for run in body.everything):
            self.divergences += [Divergence(run, more) for run in body.certain if run.concerns(more)]
            body = Block([], [run.perhaps() for run in body.everything])
        for leaving in body.leaving:
            if not isinstance(leaving.statement, ast.Continue):  # The others go on to the next round.
                self._missed(
                    Departure(leaving.statement, leaving.staying, frozenset()), _next_round(body, leaving)
                )
        body.leaving = [each for each in body.leaving if isinstance(each.statement, ast.Return | ast.Expr)]
        # A loop is taken to run once at least; what stands behind a `break` for all is not run again.
        body.ends, body.ends_the_run = None, False
        self._add(body, self.walk(statement.orelse, depth + 1))
        return body

    def _rounds_by_rank(self, counted: ast.expr) -> Guard | None:
        """The ranks that go through a loop more often than others: of `range(rank)` all but 0."""
        is_range = isinstance(counted, ast.Call) and last_name(counted.func) == "range"
        number = counted.args[0] if isinstance(counted, ast.Call) and len(counted.args) == 1 else None
        value = None if number is None else self.summaries.program.evaluation.value(number, self.environment)
        if not is_range or not isinstance(value, RankValue) or value.kind is RankKind.DERIVED:
            return None
        return Guard(value.kind, frozenset({0}), outside=True, test=counted)

    def _tried(self, statement: ast.Try | ast.TryStar, depth: int) -> Block:
        found = self.walk(statement.body, depth + 1)
        ends, raises = found.ends, found.ends_the_run
        if raises and statement.handlers:
            found.ends, found.ends_the_run = None, False
            ends = None
        for handler in statement.handlers:
            caught = self.walk(handler.body, depth + 1)
            found.may += [run.perhaps() for run in caught.everything]
            if caught.ends is None:
                found.ends, found.ends_the_run = None, False
        if ends is None:
            self._add(found, self.walk(statement.orelse, depth + 1))
        last = self.walk(statement.finalbody, depth + 1)
        found.must += last.must
        found.may += last.may
        return found

    def _header(self, statement: ast.stmt) -> Block:
        """What the statement itself runs, without the blocks that it holds."""
        return self.run_calls(self.summaries.collective_calls.calls_of(statement), statement)

    def run_calls(self, calls: Iterable[ast.Call], statement: ast.AST) -> Block:
        """What the calls in a statement or a lambda run, each under the conditions around it."""
        found = Block()
        for call in calls:
            must, may = self._call(call)
            under = self._within(call, statement)
            if under is None:
                found.must += must
                found.may += may
            elif isinstance(under, Guard):
                self.divergences += [Divergence(run, under) for run in must if run.concerns(under)]
                found.may += [run.perhaps() for run in (*must, *may)]
            else:
                found.may += [run.perhaps() for run in (*must, *may)]
        return found

    def _within(self, call: ast.Call, statement: ast.AST) -> Guard | bool | None:
        """The guard of the part of an expression in which a call stands; True for another condition."""
        inner: ast.AST = call if parent_of(call.func) is call else call.func  # The read of a property.
        under: Guard | bool | None = None
        for outer in ancestors(call):
            if outer is statement:
                break
            if isinstance(outer, ast.IfExp) and inner is not outer.test:
                truth = self.guards.truth(outer.test, self.environment)
                if isinstance(truth, Guard):
                    return truth if is_in_body(outer, inner) else truth.opposite()
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
        collective_calls = self.summaries.collective_calls
        run = collective_calls.collective(call, self.environment)
        if run is not None:
            return [run], []
        functions, all_of_them = collective_calls.called_functions(call, self.environment)
        found = Block()
        for function, environment in functions:
            if collective_calls.matters(function):
                inner = self.summaries.summary(function, environment)
                must, may = (inner.must, inner.may) if all_of_them else ((), (*inner.must, *inner.may))
                found.must += [each.called_by(call, is_sure=True) for each in must]
                # By way of this call all that come from one place are one.
                others = {
                    (each.origin, each.collective.name, each.ranks, each.known_group): each
                    for each in (*may, *(each.run for each in inner.divergences))
                }
                found.may += [each.called_by(call, is_sure=False) for each in others.values()]
        return found.must, found.may


def _context_calls(statement: ast.With | ast.AsyncWith) -> list[ast.Call]:
    """The calls that make the contexts of a `with`."""
    contexts = (item.context_expr for item in statement.items)
    return [each for each in contexts if isinstance(each, ast.Call)]


def _next_round(body: Block, leaving: Departure) -> Block:
    """What the ranks that stay in a loop run in the next round."""
    return Block(list(body.must), [run for run in body.may if run.is_sure])


@frozen
class Divergence:
    """A collective that some ranks run and others do not.

    `guard` is of those that run it. `leaves` is the statement by which the others go, where they do.
    """

    run: CollectiveRun
    guard: Guard
    leaves: ast.stmt | None = None


@frozen
class Departure:
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
    leaving: list[Departure] = field(default_factory=list)
    ends: ast.stmt | None = None
    ends_the_run: bool = False

    @property
    def everything(self) -> list[CollectiveRun]:
        """What it must run and what it may."""
        return [*self.must, *self.may]

    @property
    def certain(self) -> list[CollectiveRun]:
        """What ranks wait in once they come to it, be it under a test that nobody knows."""
        return [*self.must, *(run for run in self.may if run.is_sure)]


@frozen
class FunctionSummary:
    """What a function runs, with these arguments; `divergences` are where its ranks part."""

    must: tuple[CollectiveRun, ...] = ()
    may: tuple[CollectiveRun, ...] = ()
    divergences: tuple[Divergence, ...] = ()


def merge_arms(body: Block, other: Block) -> Block:
    """The arms of a test of which nobody knows what it is: what both must run, must run."""
    in_other = {run.short_name for run in other.must}
    both = [run for run in body.must if run.short_name in in_other]
    rest = [run for run in (*body.everything, *other.everything) if run not in both]
    return Block(both, rest, [*body.leaving, *other.leaving])
