"""What a parameter is: the object of a method, or what all calls of its function give it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import TYPE_CHECKING

from launcher.scripts.scopes import (
    default_of,
    function_of_parameter,
    is_class_method,
    is_static,
    positional_of,
    scope_of,
)
from launcher.scripts.values import UNKNOWN, Defined, External, Instance, Made, Nothing, Value, joined

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Environment, Evaluation


class Parameters:
    """The parameters of one program's functions."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._known: dict[ast.AST, Value] = {}

    def value(self, parameter: ast.AST, environment: Environment | None) -> Value:
        """What a parameter is in a call with these arguments, or in every call."""
        if environment is not None and parameter in environment:
            return environment[parameter]
        known = self._known.get(parameter)
        if known is not None:
            return known
        if parameter in self.evaluation.open:
            return Nothing.ITSELF
        self.evaluation.open.add(parameter)
        try:
            found = self._of_every_call(parameter)
        finally:
            self.evaluation.open.discard(parameter)
        if found is not Nothing.ITSELF:
            self._known[parameter] = found
        return found

    def _of_every_call(self, parameter: ast.AST) -> Value:
        assert isinstance(parameter, ast.arg)
        function = function_of_parameter(parameter)
        if function is None:
            return UNKNOWN
        declared = self._annotated(parameter)
        owner = scope_of(function).node
        if isinstance(owner, ast.ClassDef) and not is_static(function):
            positional = positional_of(function)
            if positional and positional[0] is parameter:
                return Defined(owner) if is_class_method(function) else Made(owner)
        calls = self.evaluation.callers.of(function)
        if calls is None or not calls:
            return declared
        found = joined(
            call.values[parameter.arg]
            if parameter.arg in call.values
            else self._given(call.arguments, parameter)
            for call in calls
        )
        return declared if found is UNKNOWN else found

    def _given(self, arguments: Mapping[str, ast.expr] | None, parameter: ast.arg) -> Value:
        if arguments is None:
            return UNKNOWN
        given = arguments.get(parameter.arg)
        if given is None:
            function = function_of_parameter(parameter)
            given = None if function is None else default_of(function, parameter.arg)
        return UNKNOWN if given is None else self.evaluation.value(given)

    def _annotated(self, parameter: ast.arg) -> Value:
        """An object of the class that the parameter's annotation names."""
        annotation = parameter.annotation
        if isinstance(annotation, ast.BinOp):  # Such as `Accelerator | None`.
            annotation = annotation.left
        if not isinstance(annotation, ast.Name | ast.Attribute):
            return UNKNOWN
        named = self.evaluation.value(annotation)
        if isinstance(named, Defined) and isinstance(named.node, ast.ClassDef):
            return Made(named.node)
        if isinstance(named, External) and named.name.rpartition(".")[2][:1].isupper():
            return Instance(named.name, ast.Call(annotation, [], []))
        return UNKNOWN
