"""What a call runs: a collective, a function of the program that leads to one, or the end of the process."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.scripts.collectives import (
    BACKWARD,
    COLLECTIVES,
    GROUP_KEYWORDS,
    NEW_GROUPS,
    REDUCING,
    WORLD,
    Collective,
)
from launcher.scripts.communicating import communicates
from launcher.scripts.forwards import Forwards
from launcher.scripts.guard import Guard
from launcher.scripts.index import EXITS
from launcher.scripts.leading import Leading, may_be_collective
from launcher.scripts.scopes import (
    BindingKind,
    FunctionNode,
    ancestors,
    file_of,
    last_name,
    parent_of,
)
from launcher.scripts.values import (
    Constant,
    Defined,
    External,
    Instance,
    Made,
    Nothing,
    RankKind,
    RankValue,
    Several,
    alternatives,
)

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Environment
    from launcher.scripts.program import Program

_STEPS_TO_THE_MODEL = 3
"""So many assignments lead at most from a loss to the model: `out = model(x)`, `loss = f(out)`."""

Ranks = frozenset[int] | None
"""The members of a group: None for all ranks."""


@dataclass(frozen=True, slots=True)
class CollectiveRun:
    """A collective that a call runs: `node` is the call here, `origin` that of the collective itself.

    `known_group` is False where nobody can say which ranks take part; else `ranks` are they.
    """

    collective: Collective
    node: ast.Call
    origin: ast.Call
    ranks: Ranks = None
    known_group: bool = True
    here: bool = True

    @property
    def does(self) -> str:
        """The collective's short name, by which two are compared."""
        return self.collective.does

    @property
    def direct(self) -> bool:
        """Whether the collective itself stands here, in the open."""
        return self.here and self.node is self.origin

    def called_by(self, call: ast.Call) -> CollectiveRun:
        """The same collective as run by a call of the function in which it stands."""
        return replace(self, node=call, here=True)

    def indirectly(self) -> CollectiveRun:
        """The same collective as one that only may run."""
        return replace(self, here=False)

    def concerns(self, guard: Guard) -> bool:
        """Whether ranks would wait in vain if only those of the guard ran it."""
        if not self.known_group:
            return False
        if (
            self.collective.name.startswith("smdistributed.modelparallel")
            and guard.kind is RankKind.COORDINATE
        ):
            return False  # `rdp_rank() == 0` is what its documentation asks for.
        return self.ranks is None or not guard.allows(self.ranks)


class Running:
    """The calls of one program that may lead to a collective."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program
        self.forwards = Forwards(program)

    @cached_property
    def leading(self) -> Leading:
        """The calls that are worth following."""
        return Leading(self.program, self._makes_ranks_wait, self.forwards.calls)

    def matters(self, function: FunctionNode | ast.Module) -> bool:
        """Whether a function may lead to a collective."""
        return function in self.leading.functions

    def calls_of(self, statement: ast.stmt) -> Sequence[ast.Call]:
        """The calls of a statement that may lead to a collective, as they run: without its inner blocks."""
        return self.leading.of(statement)

    def says_something(self, statement: ast.stmt) -> bool:
        """Whether a statement may lead to a collective, or leave a loop, its function or the run."""
        return self.leading.holds(statement) or statement in file_of(statement).leaving

    def _makes_ranks_wait(self, call: ast.Call) -> bool:
        return may_be_collective(self.program, call) or self.collective(call) is not None

    def collective(self, call: ast.Call, environment: Environment | None = None) -> CollectiveRun | None:
        """The collective that a call is, if it is one."""
        if call in self.forwards.calls:
            return CollectiveRun(self.forwards.calls[call], call, call)
        value = self.program.evaluation.value(call.func, environment)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and value is Nothing.UNKNOWN:
            return CollectiveRun(BACKWARD, call, call) if self._reduces(call.func.value, 0) else None
        if not isinstance(value, External):
            return None
        collective = COLLECTIVES.get(value.name)
        if collective is None or not communicates(self.program, call, collective):
            return None
        known, ranks = self._group(call, collective, environment)
        return CollectiveRun(collective, call, call, ranks, known)

    def _reduces(self, loss: ast.expr, depth: int) -> bool:
        """Whether a loss comes from a call of a model whose gradients the ranks reduce together."""
        if depth > _STEPS_TO_THE_MODEL or _without_sync(loss):
            return False
        for node in ast.walk(loss):
            if isinstance(node, ast.Call):
                made = self.program.value(node.func)
                if isinstance(made, Instance) and made.name in REDUCING:
                    return True
            elif isinstance(node, ast.Name) and getattr(parent_of(node), "func", None) is not node:
                bindings = self.program.evaluation.sources(node)
                values = [each.value for each in bindings if each.kind is BindingKind.ASSIGNED]
                if values and all(each is not None and self._reduces(each, depth + 1) for each in values):
                    return True
        return False

    def function(
        self, call: ast.Call, environment: Environment | None
    ) -> tuple[FunctionNode, Environment | None] | None:
        """The function of the program that a call runs, and what its parameters are."""
        evaluation = self.program.evaluation
        value = evaluation.value(call.func, environment)
        if not isinstance(value, Defined):
            return None
        node = value.node
        if isinstance(node, ast.ClassDef):
            made = next(
                (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"),
                None,
            )
            return None if made is None else (made, None)
        if isinstance(node, ast.AsyncFunctionDef) or (
            node in file_of(node).generators and not _is_context(node)
        ):
            return None  # Its body runs elsewhere.
        inside = evaluation.calls.environment_of(value, call, environment) or {}
        told = {
            each: given for each, given in inside.items() if isinstance(given, Constant | RankValue | Defined)
        }
        return node, told or None

    def calls_the_unknown(self, statements: Sequence[ast.stmt], environment: Environment | None) -> bool:
        """Whether these statements call what nobody can resolve, and which so may run anything."""
        pending: list[ast.AST] = list(statements)
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Call):
                value = self.program.evaluation.value(node.func, environment)
                if any(isinstance(each, Nothing) for each in alternatives(value)) and not _is_method_of_text(
                    node
                ):
                    return True
                made = not isinstance(value, Defined) or isinstance(value.node, ast.ClassDef)
                if made and self._hands_over(node, environment):
                    return True
            if isinstance(node, FunctionNode) and self._is_registered(node):
                return True
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                pending.extend(ast.iter_child_nodes(node))
        return False

    def _hands_over(self, call: ast.Call, environment: Environment | None) -> bool:
        """Whether a library or an object is given what leads to a collective, and may call it at any time.

        A function, also within a list or `partial`, a lambda, or a class or object with such a method.
        """
        parts = [
            part for given in (*call.args, *(each.value for each in call.keywords)) for part in _named(given)
        ]
        for part in parts:
            value = self.program.evaluation.value(part, environment)
            for each in alternatives(value):
                definition = each.definition if isinstance(each, Made) else getattr(each, "node", None)
                if isinstance(each, Defined | Made) and any(map(self.matters, _functions_of(definition))):
                    return True
        return False

    def _is_registered(self, function: FunctionNode) -> bool:
        """Whether a decorator hands a function that leads to a collective to something: `@app.post("/")`."""
        return (
            not isinstance(function, ast.Lambda) and bool(function.decorator_list) and self.matters(function)
        )

    def exits(self, call: ast.Call) -> bool | None:
        """Whether a call ends the process: True with an error, False without, None where it does not."""
        if last_name(call.func) not in EXITS:
            return None
        value = self.program.evaluation.value(call.func)
        name = value.name if isinstance(value, External) else None
        if name == "os.abort":
            return True
        if name not in ("sys.exit", "exit", "quit", "os._exit"):
            return None
        status = self.program.evaluation.value(call.args[0]) if call.args else Constant(None)
        return status not in (Constant(None), Constant(0))

    def _group(
        self, call: ast.Call, collective: Collective, environment: Environment | None
    ) -> tuple[bool, Ranks]:
        """Whether the group of a call is known, and its members."""
        if any(each.arg is None for each in call.keywords) or any(
            isinstance(a, ast.Starred) for a in call.args
        ):
            return False, None
        given = next((each.value for each in call.keywords if each.arg in GROUP_KEYWORDS), None)
        if given is None and collective.group is not None and len(call.args) > collective.group:
            given = call.args[collective.group]
        if given is None:
            return True, None
        value = self.program.evaluation.value(given, environment)
        if value == Constant(None) or (isinstance(value, External) and value.name in WORLD):
            return True, None
        if isinstance(value, Instance) and value.name in NEW_GROUPS:
            return self._members(value.call)
        return False, None

    def _members(self, call: ast.Call) -> tuple[bool, Ranks]:
        """The ranks for which a group is made."""
        given = next((each.value for each in call.keywords if each.arg == "ranks"), None)
        given = call.args[0] if given is None and call.args else given
        if given is None:
            return True, None
        value = self.program.evaluation.value(given)
        if not isinstance(value, Several):
            return False, None
        numbers = [self.program.evaluation.value(each) for each in value.node.elts]
        ranks = [each.value for each in numbers if isinstance(each, Constant) and isinstance(each.value, int)]
        return (True, frozenset(ranks)) if len(ranks) == len(numbers) else (False, None)


def _named(given: ast.expr) -> list[ast.expr]:
    """The names, attributes and lambdas in what a call is given."""
    kinds = ast.Name | ast.Attribute | ast.Lambda
    return [each for each in ast.walk(given) if isinstance(each, kinds)]


def _functions_of(definition: ast.AST | None) -> list[FunctionNode]:
    """A function itself, or the methods of a class."""
    parts = definition.body if isinstance(definition, ast.ClassDef) else [definition]
    return [each for each in parts if isinstance(each, FunctionNode)]


def _without_sync(node: ast.AST) -> bool:
    """Whether a place stands under `no_sync()`, where gradients stay on their rank."""
    return any(
        "no_sync" in ast.unparse(item.context_expr)
        for outer in ancestors(node)
        if isinstance(outer, ast.With)
        for item in outer.items
    )


def _is_method_of_text(call: ast.Call) -> bool:
    """Whether what is called is a method of a written text: `"{}".format(...)`."""
    return isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant | ast.JoinedStr)


def _is_context(function: FunctionNode) -> bool:
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return any(last_name(each) == "contextmanager" for each in decorators)
