"""What a call gives: a rank, an object of a library, or the result of a function of the program."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from launcher.scripts.callers import bound_arguments
from launcher.scripts.ranks import GROUPED, VARIABLES, rank_of
from launcher.scripts.scopes import FunctionNode, default_of, file_of, is_static, parameters_of
from launcher.scripts.values import (
    UNKNOWN,
    Constant,
    Defined,
    External,
    Instance,
    Made,
    Nothing,
    RankKind,
    RankValue,
    Value,
    alternatives,
    joined,
)

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Environment, Evaluation

_AS_IT_IS = frozenset({"int", "str", "float", "torch.tensor", "typing.cast"})
"""Calls that give their first argument back, for our purposes."""

_READERS = frozenset({"os.environ.get", "os.getenv", "os.environ.setdefault", "os.environ.pop"})


class Calls:
    """The results of one program's calls."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._results: dict[object, Value] = {}

    def value(self, node: ast.Call, environment: Environment | None) -> Value:
        """What a call gives."""
        called = self.evaluation.value(node.func, environment)
        return joined(self._called(each, node, environment) for each in alternatives(called))

    def _called(self, called: Value, node: ast.Call, environment: Environment | None) -> Value:
        if isinstance(called, External):
            return self._library_call(called.name, node, environment)
        if isinstance(called, Defined):
            if isinstance(called.node, ast.ClassDef):
                return Made(called.node)
            return self.result(called.node, self.environment_of(called, node, environment))
        return UNKNOWN

    def _library_call(self, name: str, node: ast.Call, environment: Environment | None) -> Value:
        if name in _READERS:
            return self.variable(node.args[0] if node.args else None, environment)
        if name in _AS_IT_IS and node.args:
            return self.evaluation.value(node.args[-1 if name == "typing.cast" else 0], environment)
        if name == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            return self._got(node, environment)
        found = rank_of(name)
        if found is not None:
            grouped = bool(node.args or node.keywords) and name in GROUPED
            return RankValue(RankKind.COORDINATE, name) if grouped else found
        return Instance(name, node)

    def _got(self, node: ast.Call, environment: Environment | None) -> Value:
        """`getattr(args, "rank", 0)`."""
        name = node.args[1]
        assert isinstance(name, ast.Constant)
        attribute = ast.Attribute(node.args[0], str(name.value), ast.Load())
        attribute.__dict__.update({key: node.__dict__.get(key) for key in ("parent", "scope")})
        found = self.evaluation.attributes.value(attribute, environment)
        if len(node.args) == 3:
            return joined((found, self.evaluation.value(node.args[2], environment)))
        return found

    def variable(self, name: ast.expr | None, environment: Environment | None) -> Value:
        """What an environment variable of this name holds."""
        value = UNKNOWN if name is None else self.evaluation.value(name, environment)
        return VARIABLES.get(str(value.value), UNKNOWN) if isinstance(value, Constant) else UNKNOWN

    def environment_of(
        self, called: Defined, node: ast.Call, environment: Environment | None
    ) -> Environment | None:
        """What the parameters of a called function are in this call."""
        function = called.node
        if isinstance(function, ast.ClassDef):
            return None
        arguments = bound_arguments(function, node, called.owner is not None)
        if arguments is None:
            return None
        parameters = parameters_of(function)
        found: dict[ast.AST, Value] = {}
        for each in parameters:
            given = arguments.get(each.arg)
            if given is not None:
                found[each] = self.evaluation.value(given, environment)
            elif (default := default_of(function, each.arg)) is not None:
                found[each] = self.evaluation.value(default)
        if called.owner is not None and parameters and not is_static(function):
            found[parameters[0]] = Made(called.owner)
        return {each: value for each, value in found.items() if value is not UNKNOWN}

    def result(self, function: FunctionNode, environment: Environment | None) -> Value:
        """What a function gives back."""
        if isinstance(function, ast.Lambda):
            return self.evaluation.value(function.body, environment)
        key = (function, frozenset((environment or {}).items()))
        if key in self._results:
            return self._results[key]
        if function in self.evaluation.open:
            return Nothing.ITSELF
        self.evaluation.open.add(function)
        try:
            returns = file_of(function).returns_of.get(function, [])
            found = joined(
                Constant(None) if each.value is None else self.evaluation.value(each.value, environment)
                for each in returns
            )
        finally:
            self.evaluation.open.discard(function)
        if found is not Nothing.ITSELF:
            self._results[key] = found
        return found
