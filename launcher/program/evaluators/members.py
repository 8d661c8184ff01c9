"""The members of a program's classes: set by methods or from outside, inherited, overridden, handed on."""

from __future__ import annotations

import argparse
import ast
from collections import OrderedDict, UserDict
from collections.abc import Iterator, Sequence
from types import SimpleNamespace

from launcher.program.evaluators.whole import WholeEvaluation
from launcher.program.index import (
    Binding,
    ancestors,
    class_of,
    file_of,
    is_attribute_of_self,
    is_class_method,
    is_property,
    is_static,
    method_of,
    parameters_of,
    scope_of,
)
from launcher.program.records import RecordFields
from launcher.program.values import (
    RANK_ATTRIBUTES,
    UNKNOWN,
    Constant,
    Defined,
    Environment,
    External,
    Made,
    Value,
    alternatives,
    canonical_name,
    function_of,
    is_set_by_method,
    joined,
)

_DEEPEST = 10
"""So many classes that derive from one another."""

_OPEN_RECORDS = {
    "dict": dict,
    "collections.OrderedDict": OrderedDict,
    "collections.UserDict": UserDict,
    "argparse.Namespace": argparse.Namespace,
    "types.SimpleNamespace": SimpleNamespace,
}
"""Classes of the library whose objects take any attribute, mostly of what a file or command line says."""


class ClassMembers:
    """The members of the classes of one program."""

    def __init__(self, evaluation: WholeEvaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self.records = RecordFields(evaluation.files, evaluation.value)
        self._outer_stores: dict[str, list[tuple[Binding, ast.expr]]] = {}

    def member_of(self, definition: ast.ClassDef, name: str, depth: int = 0, bound: bool = True) -> Value:
        """An attribute of an object of a class of the program: set by a method, a method, or inherited."""
        if not (bindings := self.bindings_in_class(definition, name)):
            found = self._inherited(definition, name, depth)
            return self._of_others(definition, name, depth) if found is UNKNOWN and bound else found
        put = [each for each in bindings if self._takes_the_place(each, definition)]
        found = self.evaluation.any_of(put or bindings, None)
        if put and isinstance(found, Defined) and bound:
            return Defined(found.node, definition)
        return joined(self._member(each, definition, name, depth, bound) for each in alternatives(found))

    def _takes_the_place(self, binding: Binding, definition: ast.ClassDef) -> bool:
        """Whether a function of the program is put in the place of a method: `Trainer.step = own_step`."""
        owner = binding.node.value if isinstance(binding.node, ast.Attribute) else None
        if owner is None or binding.value is None or self.evaluation.value(owner) != Defined(definition):
            return False
        return function_of(self.evaluation.value(binding.value)) is not None

    def _member(self, found: Value, definition: ast.ClassDef, name: str, depth: int, bound: bool) -> Value:
        """What an object has of what its class has: of a function a method that is bound to it."""
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        if not isinstance(found, Defined) or not isinstance(found.node, kinds):
            return found
        if not isinstance(scope_of(found.node).node, ast.ClassDef):
            return found
        if (
            bound
            and depth <= _DEEPEST
            and (below := self.evaluation.callers.implementing(found.node, definition))
        ):
            return joined(self.member_of(each, name, _DEEPEST + 1) for each in below)
        if bound and is_property(found.node):
            return self.evaluation.calls.result(found.node, None)
        belongs = not is_static(found.node) if bound else is_class_method(found.node)
        return Defined(found.node, definition) if belongs else found

    def of_super(self, within: ast.AST, name: str) -> Value:
        """What `super().name` is in a method: what the bases of its class have, of an object of the class."""
        scope = scope_of(within).function
        definition = None if scope is None else class_of(scope.node)
        if definition is None:
            return UNKNOWN
        for parent in map(self.evaluation.value, definition.bases):
            own = parent.node if isinstance(parent, Defined) else None
            bindings = self.bindings_in_class(own, name) if isinstance(own, ast.ClassDef) else []
            method = function_of(self.evaluation.any_of(bindings, None)) if bindings else None
            if method is not None and not is_static(method):
                return Defined(method, definition)
        return External(f"super.{name}") if name.startswith("__") else self._inherited(definition, name)

    def _of_others(self, definition: ast.ClassDef, name: str, depth: int) -> Value:
        """What an object has that its class does not say: what classes have that are derived from it, what
        `setattr` gives it by a name that is calculated, or what its `__getattr__` hands on."""
        if depth > _DEEPEST or name.startswith("__"):
            return UNKNOWN
        below = self.evaluation.callers.deriving(definition)
        found = [
            self.member_of(each, name, _DEEPEST + 1)
            for each in below
            if name in file_of(each).scopes[each].bindings or name in file_of(each).set_attributes
        ]
        if known := [each for each in found if each is not UNKNOWN]:
            return joined(known)
        if (stored := joined(self._set_by_name_alone(definition, name))) is not UNKNOWN:
            return stored
        for binding in self.bindings_in_class(definition, "__getattr__"):
            asked = parameters_of(binding.node) if isinstance(binding.node, ast.FunctionDef) else []
            if isinstance(binding.node, ast.FunctionDef) and len(asked) == 2:
                given: Environment = {asked[0]: Made(definition), asked[1]: Constant(name)}
                return self.evaluation.calls.result(binding.node, given)
        return UNKNOWN

    def _set_by_name_alone(self, definition: ast.ClassDef, name: str) -> Iterator[Value]:
        """What a class gives its objects by this name without writing it: from a table that it takes over, by
        `self.__dict__.update(table)` or `setattr` for each entry, or by `setattr` in a loop."""
        file, evaluated = file_of(definition), self.evaluation.value
        tables = [
            each.value for each in file.set_attributes.get("__dict__", ()) if method_of(each.node, definition)
        ]
        for call in file.calls_of.get("update", ()):
            if method_of(call, definition) and _is_all_of_self(getattr(call.func, "value", call)):
                tables += [*call.args, *(each.value for each in call.keywords if each.arg is None)]
        for call in file.calls_of.get("setattr", ()):
            if len(call.args) < 3 or not method_of(call, definition):
                continue
            if (table := _table_looped_over(call)) is not None:
                tables.append(table)
            else:
                rounds = self.evaluation.written.rounds_of(call, call.args[1], call.args[2], evaluated)
                yield from (evaluated(each) for each in [rounds.get(name)] if each is not None)
        for table in filter(None, tables):
            if evaluated(table) != Made(definition):  # A dict of which `self.__dict__ = self` makes a record.
                yield self.evaluation.tables.item(table, name, None)

    def bindings_in_class(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a class or a base of it gives its objects this attribute: in its body, or in a method.

        Also where others set it on an object, as hooks do.
        """
        file = file_of(definition)
        found = self.records.bindings(definition, name)
        if not found and name not in self.records.fields_of(definition):
            found = [*file.scopes[definition].bindings.get(name, [])]
        for binding in file.set_attributes.get(name, ()):
            node, method = binding.node, method_of(binding.node, definition)
            if method is not None and isinstance(node, ast.Attribute) and is_attribute_of_self(node, method):
                found.append(binding)
        if not found and definition.bases:
            bases = (getattr(self.evaluation.value(base), "node", None) for base in definition.bases)
            known = (each for each in bases if isinstance(each, ast.ClassDef) and each is not definition)
            found = next(filter(None, (self.bindings_in_class(each, name) for each in known)), [])
        # One without any may have it from a class of a library, or of a file.
        open_to_others = bool(definition.bases) or self.is_open_record(definition)
        mine = (Made(definition), Defined(definition))
        return [*found, *self.set_from_outside(mine, name)] if found or not open_to_others else []

    def is_open_record(self, definition: ast.ClassDef) -> bool:
        """Whether the objects of a class take any attribute, as configurations do that can be indexed too."""
        bases = [*map(self.evaluation.value, definition.bases)]
        if any(isinstance(each, External) and each.name in _OPEN_RECORDS for each in bases):
            return True
        written = file_of(definition).scopes[definition].bindings
        return "__getattr__" in written and "__setattr__" in written

    def bindings_of_class(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a class that is used without an object, as configurations are, gets this attribute."""
        found = list(file_of(definition).scopes[definition].bindings.get(name, []))
        mine = (Made(definition), Defined(definition))
        return [*found, *self.set_from_outside(mine, name)] if found else []

    def set_from_outside(self, mine: Sequence[Value], name: str) -> list[Binding]:
        """Where others set this attribute on an object, the class or the module: `hook.is_main = True`."""
        if (stores := self._outer_stores.get(name)) is None:
            stores = self._outer_stores[name] = [
                (binding, binding.node.value)
                for file in self.evaluation.files.mentioning(name)
                for binding in file.set_attributes.get(name, ())
                if isinstance(binding.node, ast.Attribute) and not is_set_by_method(binding)
            ]
        value = self.evaluation.value
        return [each for each, owner in stores if any(one in mine for one in alternatives(value(owner)))]

    def _inherited(self, definition: ast.ClassDef, name: str, depth: int = 0) -> Value:
        for parent in map(self.evaluation.value, definition.bases):
            own = parent.node if isinstance(parent, Defined) and depth < _DEEPEST else None
            found = self.member_of(own, name, depth + 1) if isinstance(own, ast.ClassDef) else UNKNOWN
            if found is not UNKNOWN:
                return found
            if isinstance(parent, External) and _may_have(parent.name, name):
                whole = canonical_name(f"{parent.name}.{name}")
                return RANK_ATTRIBUTES.get(whole) or External(whole)
        return UNKNOWN


def _may_have(library_class: str, name: str) -> bool:
    """Whether objects of a class of a library may have an attribute of themselves."""
    record = _OPEN_RECORDS.get(library_class)
    return record is None or hasattr(record, name)


def _is_all_of_self(node: ast.AST) -> bool:
    """Whether an expression is the table of all attributes of an object: `self.__dict__`, `vars(self)`."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr="__dict__"):
            return True
        case ast.Call(func=ast.Name(id="vars"), args=[ast.Name(id="self")]):
            return True
    return False


def _table_looped_over(call: ast.Call) -> ast.expr | None:
    """The table of which `setattr(self, name, value)` sets each entry, in a loop over its items."""
    match call.args, next((each for each in ancestors(call) if isinstance(each, ast.For)), None):
        case (
            [ast.Name(id="self"), ast.Name(id=name), ast.Name(id=value)],
            ast.For(
                target=ast.Tuple(elts=[ast.Name(id=key), ast.Name(id=item)]),
                iter=ast.Call(func=ast.Attribute(value=table, attr="items")),
            ),
        ) if (name, value) == (key, item):
            return table
    return None
