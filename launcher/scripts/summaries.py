"""What ranks run: per function what every rank that enters must run and what it may, and where ranks part."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from launcher.scripts.blocks import Parted, Summary
from launcher.scripts.following import Following
from launcher.scripts.running import CollectiveRun, Running
from launcher.scripts.scopes import FunctionNode, file_of, parent_of
from launcher.scripts.values import Defined

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Environment
    from launcher.scripts.program import Program

_DEEPEST = 12
"""So many functions within functions are followed."""


_MEMORIES = frozenset({"functools.cache", "functools.lru_cache"})


class Summaries:
    """The functions of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is followed before somebody asks."""
        self.program = program
        self.running = Running(program)
        self._known: dict[object, Summary] = {}
        self._depth = 0

    def of(self, function: FunctionNode | ast.Module, environment: Environment | None = None) -> Summary:
        """The summary of a function or of a module's own code."""
        key = (function, frozenset((environment or {}).items()))
        if key in self._known:
            return self._known[key]
        if self._depth >= _DEEPEST:
            return Summary()
        self._known[key] = Summary()  # Of a function that calls itself.
        self._depth += 1
        try:
            found = self._known[key] = self._summarised(function, environment)
        finally:
            self._depth -= 1
        return found

    def _summarised(self, function: FunctionNode | ast.Module, environment: Environment | None) -> Summary:
        if isinstance(function, ast.Lambda):
            return Summary()
        follow = Following(self, environment)
        block = follow.block(function.body, 0)
        guard = None if isinstance(function, ast.Module) else self.program.guards.of_decorators(function)
        if guard is not None:
            parted = [Parted(run, guard) for run in block.must if run.concerns(guard)]
            return Summary((), (), (*parted, *_unmatched(follow.parted, block.may)))
        if not isinstance(function, ast.Module) and self._answers_from_memory(function):
            return Summary((), tuple(block.may), tuple(_unmatched(follow.parted, block.may)))
        return Summary(tuple(block.must), tuple(block.may), tuple(_unmatched(follow.parted, block.may)))

    def _answers_from_memory(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Whether a call of a function need not run it, as one with the same arguments has before."""
        made = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
        return any(self.program.qualified(each) in _MEMORIES for each in made)

    def _is_called_back(self, function: FunctionNode | ast.Module) -> bool:
        """Whether some ranks alone hand a function to a library, so that the others answer it elsewhere.

        `if rank == 0: optimizer.step(closure)`, while the others wait in a loop for what closure sends.
        """
        if isinstance(function, ast.Module | ast.Lambda):
            return False
        for use in file_of(function).names.get(function.name, ()):
            call = parent_of(use)
            if isinstance(call, ast.Call) and use in call.args and self.program.guards.around(call):
                called, value = self.program.value(call.func), self.program.value(use)
                mine = isinstance(value, Defined) and value.node is function
                if mine and not isinstance(called, Defined):
                    return True
        return False

    def parted(self) -> list[Parted]:
        """Where the ranks of the program part, in the order of its files, each place once."""
        found: dict[tuple[ast.AST, ast.AST | None], Parted] = {}
        for file in self.program.files:
            for function in (file.tree, *file.functions):
                if self.running.matters(function) and not self._is_called_back(function):
                    for each in self.of(function).parted:
                        found.setdefault((each.run.node, each.leaves), each)
        return list(found.values())


def _unmatched(parted: Sequence[Parted], may: Sequence[CollectiveRun]) -> list[Parted]:
    """Where ranks part and no other part of the function makes up for it: first the others wait, then rank 0
    releases them.

    Where nobody knows which ranks part, the same collective under an unknown test may be the other half.
    """
    known = {each.run.node for each in parted}
    unknown = {run.does for run in may if run.node not in known}
    left = [each for each in parted if each.guard.members is not None or each.run.does not in unknown]
    for waiting_first in (True, False):
        for each in parted:
            if each not in left or each.leaves is not None or (waiting_first and not each.guard.outside):
                continue
            behind = [other for other in left if other.run.node.lineno > each.run.node.lineno]
            answer = next((other for other in behind if _answers(other, each)), None)
            if answer is not None:
                left.remove(each)
                left.remove(answer)
    return left


def _answers(one: Parted, other: Parted) -> bool:
    return one.leaves is None and one.run.does == other.run.does and one.guard.complements(other.guard)


def runs_of(statements: Iterable[ast.stmt], summaries: Summaries) -> list[CollectiveRun]:
    """What ranks that come to these statements wait in, whatever stands around them."""
    return Following(summaries, None).block(list(statements), 0).certain


def may_run(statements: Iterable[ast.stmt], summaries: Summaries) -> bool:
    """Whether ranks that come to these statements may run a collective in them."""
    return bool(Following(summaries, None).block(list(statements), 0).everything)
