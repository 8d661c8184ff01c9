"""The members of a program's classes: set by methods or from outside, inherited, overridden, handed on."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from launcher.program.call_graph import CallGraph
from launcher.program.index import (
    Binding,
    FunctionNode,
    ProgramFiles,
    class_of,
    file_of,
    is_attribute_of_self,
    is_class_method,
    is_property,
    is_static,
    last_name,
    method_of,
    positional_of,
    scope_of,
)
from launcher.program.records import RecordFields, is_set_behind
from launcher.program.values import (
    DDP,
    FSDP,
    RANK_ATTRIBUTES,
    UNKNOWN,
    Constant,
    Defined,
    Environment,
    Evaluated,
    External,
    Made,
    Value,
    alternatives,
    canonical_name,
    function_of,
    is_set_by_method,
    joined,
    like,
)

_DEEPEST = 10
"""So many classes that derive from one another."""


class ClassMembers:
    """The members of the classes of one program."""

    def __init__(
        self,
        files: ProgramFiles,
        callers: CallGraph,
        value: Callable[[ast.expr], Value],
        any_of: Callable[[Sequence[Binding], Environment | None], Value],
        result: Callable[[FunctionNode, Environment | None], Value],
        rounds: Callable[[ast.expr, ast.expr, ast.expr, Evaluated], Mapping[str, ast.expr]],
    ) -> None:
        """Nothing is evaluated before somebody asks; the functions say what an expression is, what a name
        with these bindings, what a function gives, and what is set below which name in a loop's rounds."""
        self.files, self.callers = files, callers
        self._value, self._any_of, self._result, self._rounds = value, any_of, result, rounds
        self.records = RecordFields(files, value)
        self._outer_stores: dict[str, list[tuple[Binding, ast.expr]]] = {}

    def member_of(self, definition: ast.ClassDef, name: str, depth: int = 0, bound: bool = True) -> Value:
        """An attribute of an object of a class of the program: set by a method, a method, or inherited."""
        if not (bindings := self.bindings_in_class(definition, name)):
            found = self._inherited(definition, name, depth)
            return self._of_others(definition, name, depth) if found is UNKNOWN and bound else found
        put = [each for each in bindings if self._takes_the_place(each, definition)]
        found = self._any_of(put or bindings, None)
        if put and isinstance(found, Defined) and bound:
            return Defined(found.node, definition)
        return joined(self._member(each, definition, name, depth, bound) for each in alternatives(found))

    def _takes_the_place(self, binding: Binding, definition: ast.ClassDef) -> bool:
        """Whether a function of the program is put in the place of a method: `Trainer.step = own_step`."""
        owner = binding.node.value if isinstance(binding.node, ast.Attribute) else None
        if owner is None or binding.value is None or self._value(owner) != Defined(definition):
            return False
        return function_of(self._value(binding.value)) is not None

    def _member(self, found: Value, definition: ast.ClassDef, name: str, depth: int, bound: bool) -> Value:
        """What an object has of what its class has: of a function a method that is bound to it."""
        kinds = ast.FunctionDef | ast.AsyncFunctionDef
        if not isinstance(found, Defined) or not isinstance(found.node, kinds):
            return found
        if not isinstance(scope_of(found.node).node, ast.ClassDef):
            return found
        if bound and depth <= _DEEPEST and (below := self.callers.implementing(found.node, definition)):
            return joined(self.member_of(each, name, _DEEPEST + 1) for each in below)
        if bound and is_property(found.node):
            return self._result(found.node, None)
        belongs = not is_static(found.node) if bound else is_class_method(found.node)
        return Defined(found.node, definition) if belongs else found

    def of_super(self, within: ast.AST, name: str) -> Value:
        """What `super().name` is in a method: what the bases of its class have, of an object of the class."""
        scope = scope_of(within).function
        definition = None if scope is None else class_of(scope.node)
        if definition is None:
            return UNKNOWN
        for parent in map(self._value, definition.bases):
            own = parent.node if isinstance(parent, Defined) else None
            bindings = self.bindings_in_class(own, name) if isinstance(own, ast.ClassDef) else []
            method = function_of(self._any_of(bindings, None)) if bindings else None
            if method is not None and not is_static(method):
                return Defined(method, definition)
        return External(f"super.{name}") if name.startswith("__") else self._inherited(definition, name)

    def _of_others(self, definition: ast.ClassDef, name: str, depth: int) -> Value:
        """What an object has that its class does not say: what classes have that are derived from it, what
        `setattr` gives it by a name that is calculated, or what its `__getattr__` hands on."""
        if depth > _DEEPEST or name.startswith("__"):
            return UNKNOWN
        below = self.callers.deriving(definition)
        found = [
            self.member_of(each, name, _DEEPEST + 1)
            for each in below
            if name in file_of(each).scopes[each].bindings or name in file_of(each).set_attributes
        ]
        if known := [each for each in found if each is not UNKNOWN]:
            return joined(known)
        if (stored := joined(self._set_by_calculated_name(definition, name))) is not UNKNOWN:
            return stored
        for binding in self.bindings_in_class(definition, "__getattr__"):
            method = binding.node
            named = positional_of(method)[1:2] if isinstance(method, ast.FunctionDef) else []
            if isinstance(method, ast.FunctionDef) and named:
                return self._result(method, {named[0]: Constant(name)})
        return UNKNOWN

    def _set_by_calculated_name(self, definition: ast.ClassDef, name: str) -> Iterator[Value]:
        """What `setattr(self, name, value)` gives in a loop over what is written out."""
        for binding in file_of(definition).set_attributes.get("", ()):
            call = binding.node
            if isinstance(call, ast.Call) and method_of(call, definition) is not None:
                rounds = self._rounds(call, call.args[1], call.args[2], self._value)
                if name in rounds:
                    yield self._value(rounds[name])
        for call in file_of(definition).calls_of.get("update", ()):  # `self.__dict__.update(options)`.
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if (
                call.args
                and method_of(call, definition) is not None
                and last_name(owner or call) == "__dict__"
            ):
                yield self._value(like(call, ast.Subscript(call.args[0], ast.Constant(name), ast.Load())))

    def bindings_in_class(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a class or a base of it gives its objects this attribute: in its body, or in a method.

        Also where others set it on an object, as hooks do.
        """
        file = file_of(definition)
        own = file.scopes[definition].bindings.get(name, [])
        own = [each for each in own if not is_set_behind(each.value)]
        found = self.records.bindings(definition, name) or own
        for binding in file.set_attributes.get(name, ()):
            node, method = binding.node, method_of(binding.node, definition)
            if method is not None and isinstance(node, ast.Attribute) and is_attribute_of_self(node, method):
                found.append(binding)
        if not found and definition.bases:
            bases = (getattr(self._value(base), "node", None) for base in definition.bases)
            known = (each for each in bases if isinstance(each, ast.ClassDef) and each is not definition)
            found = next(filter(None, (self.bindings_in_class(each, name) for each in known)), [])
        # One without any may have it from a class of a library.
        return [*found, *self._set_from_outside(definition, name)] if found or not definition.bases else []

    def bindings_of_class(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a class that is used without an object, as configurations are, gets this attribute."""
        found = list(file_of(definition).scopes[definition].bindings.get(name, []))
        return [*found, *self._set_from_outside(definition, name)] if found else []

    def _set_from_outside(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where others set this attribute on an object or the class: `learner.is_master = rank == 0`."""
        if (stores := self._outer_stores.get(name)) is None:
            stores = self._outer_stores[name] = [
                (binding, binding.node.value)
                for file in self.files.mentioning(name)
                for binding in file.set_attributes.get(name, ())
                if isinstance(binding.node, ast.Attribute) and not is_set_by_method(binding)
            ]
        mine, value = (Made(definition), Defined(definition)), self._value
        return [each for each, owner in stores if any(one in mine for one in alternatives(value(owner)))]

    def _inherited(self, definition: ast.ClassDef, name: str, depth: int = 0) -> Value:
        for parent in map(self._value, definition.bases):
            own = parent.node if isinstance(parent, Defined) and depth < _DEEPEST else None
            found = self.member_of(own, name, depth + 1) if isinstance(own, ast.ClassDef) else UNKNOWN
            if found is not UNKNOWN:
                return found
            if isinstance(parent, External):
                whole = canonical_name(f"{parent.name}.{name}")
                return RANK_ATTRIBUTES.get(whole) or External(whole)
        return UNKNOWN


_EXTENDED = frozenset({DDP, FSDP, "torch.utils.data.DataLoader", "torch.utils.data.DistributedSampler"})


def class_extended(definition: ast.AST, value: Callable[[ast.expr], Value]) -> External | None:
    """The class of a library that one of the program only extends: it hands all that it is made of on, and
    has no methods of its own names."""
    if not isinstance(definition, ast.ClassDef):
        return None
    bases = [value(each) for each in definition.bases[:1] if last_name(each) != definition.name]
    known = next((each for each in bases if isinstance(each, External) and each.name in _EXTENDED), None)
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    methods = [each for each in definition.body if isinstance(each, kinds)]
    if known is None or not all(each.name.startswith("__") or is_property(each) for each in methods):
        return None
    if known.name.endswith("Sampler") and any(each.name == "__iter__" for each in methods):
        return None  # It may count the epochs itself.
    return known if all(_hands_all_on(each) for each in methods if each.name == "__init__") else None


def _hands_all_on(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether `__init__` gives that of its base class all `*args` and `**options`."""
    calls = [each for each in ast.walk(method) if isinstance(each, ast.Call)]
    above = [each for each in calls if last_name(each.func) == "__init__"]
    return any(isinstance(given, ast.Starred) for each in above for given in each.args) or any(
        each.arg is None for call in above for each in call.keywords
    )
