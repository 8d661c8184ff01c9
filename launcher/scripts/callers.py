"""Who calls a function of the program, and with what."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.scripts.scopes import (
    BindingKind,
    FunctionNode,
    dotted_name,
    file_of,
    last_name,
    parameters_of,
    parent_of,
    positional_of,
    scope_of,
)
from launcher.scripts.values import Defined, External, RankKind, RankValue, Value

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Evaluation
    from launcher.scripts.program import Program

SPAWNING = frozenset(
    {
        "torch.multiprocessing.spawn",
        "torch.multiprocessing.start_processes",
        "torch_xla.multiprocessing.spawn",
        "torch_xla.launch",
    }
)
"""What runs a function as every rank."""

_PROCESSES = frozenset({"multiprocessing.Process", "threading.Thread"})
_SPAWNED = RankValue(RankKind.LOCAL, "spawn")


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """One call of a function: the expressions of its arguments by parameter, None where that cannot be said.

    `values` are what is known without an expression, such as the index that spawn gives.
    """

    call: ast.Call
    arguments: Mapping[str, ast.expr] | None
    values: Mapping[str, Value] = field(default_factory=dict)


class Callers:
    """The calls of one program, from the side of who is called."""

    def __init__(self, program: Program, evaluation: Evaluation) -> None:
        """Nothing is looked for before somebody asks."""
        self.program = program
        self.evaluation = evaluation
        self._found: dict[ast.AST, list[CallSite] | None] = {}

    def of(self, function: FunctionNode) -> list[CallSite] | None:
        """All calls of a function; None where it may be called from where nobody sees."""
        if function in self._found:
            return self._found[function]
        self._found[function] = None  # While we look, others wait in vain.
        found: list[CallSite] = []
        for each in self._sites(function):
            if each is None:
                return None
            found.append(each)
        self._found[function] = found
        return found

    @cached_property
    def declared_ranks(self) -> frozenset[str]:
        """What is handed to init_process_group as `rank`, as written: `args.rank`."""
        given = (
            dotted_name(keyword.value)
            for file in self.program.mentioning("init_process_group")
            for call in file.calls_of.get("init_process_group", ())
            for keyword in call.keywords
            if keyword.arg == "rank"
        )
        return frozenset(each for each in given if each is not None and "." in each)

    def _sites(self, function: FunctionNode) -> Iterator[CallSite | None]:
        if isinstance(function, ast.Lambda):
            yield None
            return
        owner = scope_of(function).node
        name = function.name
        if isinstance(owner, ast.ClassDef) and name == "__init__":
            yield from self._named(owner.name, owner, function, bound=True)
        elif isinstance(owner, ast.ClassDef):
            yield from self._methods(name, function)
        else:
            yield from self._named(name, function, function, bound=False)

    def _named(
        self, name: str, wanted: ast.AST, function: FunctionNode, bound: bool
    ) -> Iterator[CallSite | None]:
        """What every use of a function's or class's name says; from other modules also as an attribute."""
        for file in self.program.mentioning(name):
            for alias in {name, *file.imported_as.get(name, ())}:
                for use in (*file.names.get(alias, ()), *file.attributes.get(alias, ())):
                    value = self.evaluation.value(use)
                    if isinstance(value, Defined) and value.node is wanted:
                        yield from self._use(use, function, bound)

    def _methods(self, name: str, function: FunctionNode) -> Iterator[CallSite | None]:
        for file in self.program.mentioning(name):
            for use in file.attributes.get(name, ()):
                value = self.evaluation.value(use)
                if isinstance(value, Defined):
                    if value.node is function:
                        yield from self._use(use, function, bound=value.owner is not None)
                elif not isinstance(value, External):
                    yield None

    def _use(self, use: ast.expr, function: FunctionNode, bound: bool) -> Iterator[CallSite | None]:
        parent = parent_of(use)
        if isinstance(parent, ast.Call) and parent.func is use:
            yield CallSite(parent, bound_arguments(function, parent, bound))
            return
        call = parent_of(parent) if isinstance(parent, ast.keyword) else parent
        if isinstance(parent, ast.ClassDef):
            yield from self._inherited(parent, function)
            return
        if isinstance(parent, ast.Attribute):
            return  # A member of a class.
        if not isinstance(call, ast.Call):
            yield None
            return
        called = self.evaluation.value(call.func)
        if isinstance(called, External):
            yield self._started(called.name, call, function)
        elif isinstance(called, Defined) and not isinstance(called.node, ast.ClassDef):
            yield from self._handed_on(called, call, use, function)
        else:
            yield None

    def _inherited(self, definition: ast.ClassDef, function: FunctionNode) -> Iterator[CallSite | None]:
        """The calls of an initialiser by a class that inherits it, or by one that extends it."""
        own = [
            each for each in definition.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"
        ]
        if not own:
            yield from self._named(definition.name, definition, function, bound=True)
            return
        for call in file_of(definition).calls_of.get("__init__", ()):
            above = call.func.value if isinstance(call.func, ast.Attribute) else None
            by_super = isinstance(above, ast.Call) and last_name(above.func) == "super"
            if by_super and scope_of(call).node is own[-1]:
                yield CallSite(call, bound_arguments(function, call, True))

    def _started(self, name: str, call: ast.Call, function: FunctionNode) -> CallSite | None:
        """A function that is handed to what starts processes with it."""
        if name in ("isinstance", "issubclass", "type", "super"):
            return CallSite(call, {})
        if name in SPAWNING:
            given = next((each.value for each in call.keywords if each.arg == "args"), None)
            given = call.args[1] if given is None and len(call.args) > 1 else given
            return _site(call, function, [None, *_elements(given)], _SPAWNED)
        if name in _PROCESSES:
            given = next((each.value for each in call.keywords if each.arg == "args"), None)
            elements = _elements(given)
            first = elements[0] if elements else None
            if isinstance(first, ast.Name) and self._counts(first):
                return _site(call, function, [None, *elements[1:]], _SPAWNED)
            return _site(call, function, [*elements], None)
        return None

    def _counts(self, name: ast.Name) -> bool:
        """Whether a name is the variable of a loop over range."""
        holder = scope_of(name).holder_of(name.id)
        for binding in holder.bindings[name.id] if holder is not None else ():
            value = binding.value
            if binding.kind is not BindingKind.LOOPED or not isinstance(value, ast.Call):
                return False
            if not isinstance(value.func, ast.Name) or value.func.id != "range":
                return False
        return holder is not None

    def _handed_on(
        self, called: Defined, call: ast.Call, use: ast.expr, function: FunctionNode
    ) -> Iterator[CallSite | None]:
        """A function that is an argument of another function of the program: its calls of that parameter."""
        receiver = called.node
        assert not isinstance(receiver, ast.ClassDef)
        arguments = bound_arguments(receiver, call, called.owner is not None) or {}
        parameter = next((name for name, value in arguments.items() if value is use), None)
        if parameter is None:
            yield None
            return
        scope = file_of(receiver).scopes[receiver]
        for name in file_of(receiver).names.get(parameter, ()):
            if scope_of(name).holder_of(parameter) is scope:
                parent = parent_of(name)
                if isinstance(parent, ast.Call) and parent.func is name:
                    yield CallSite(parent, bound_arguments(function, parent, False))
                else:
                    yield None


def bound_arguments(function: FunctionNode, call: ast.Call, bound: bool) -> dict[str, ast.expr] | None:
    """The arguments of a call by the parameters; None where a `*` or `**` hides which are which."""
    if any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if any(each.arg is None for each in call.keywords):
        return None
    positional = [each.arg for each in positional_of(function)]
    if bound:
        positional = positional[1:]
    found = dict(zip(positional, call.args, strict=False))
    names = {each.arg for each in parameters_of(function)}
    found.update(
        {each.arg: each.value for each in call.keywords if each.arg is not None and each.arg in names}
    )
    return found


def _site(
    call: ast.Call, function: FunctionNode, given: list[ast.expr | None], first: Value | None
) -> CallSite:
    positional = [each.arg for each in positional_of(function)]
    arguments = {name: value for name, value in zip(positional, given, strict=False) if value is not None}
    values: dict[str, Value] = {positional[0]: first} if first is not None and positional else {}
    return CallSite(call, arguments, values)


def _elements(node: ast.expr | None) -> list[ast.expr | None]:
    return [*node.elts] if isinstance(node, ast.Tuple | ast.List) else []
