"""The attributes of a program's objects, classes and modules, and of what libraries make.

By what is written in a class and its methods, by what others set on an object, and by what a class gives its
objects without naming it: from a table, or by `__getattr__`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from math import inf

from launcher.program.bindings import branch_arms, last_that_surely_run
from launcher.program.evaluators.whole import WholeEvaluation
from launcher.program.index import (
    Binding,
    ancestors,
    class_of,
    dotted_name,
    file_of,
    is_attribute_of_self,
    is_class_method,
    is_property,
    is_set_later,
    is_static,
    last_name,
    method_of,
    parameters_of,
    scope_of,
)
from launcher.program.records import ParserOptions, RecordFields
from launcher.program.values import (
    PATH,
    RANK_ATTRIBUTES,
    UNKNOWN,
    Constant,
    Defined,
    Dictionary,
    Environment,
    External,
    Instance,
    Made,
    ModuleOf,
    RankKind,
    RankValue,
    Value,
    alternatives,
    canonical_name,
    class_of_result,
    is_set_by_method,
    joined,
    model_within,
)


class AttributeEvaluator:
    """The attributes of one program."""

    def __init__(self, evaluation: WholeEvaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self.records = RecordFields(evaluation.files, evaluation.value)
        self.options = ParserOptions(evaluation.files, evaluation.value, evaluation.value_of_binding)
        self._stores: dict[tuple[str, str, Instance | None], list[Binding]] = {}
        self._outer_stores: dict[str, list[tuple[Binding, ast.expr]]] = {}

    def value(self, node: ast.Attribute, environment: Environment | None) -> Value:
        """What an attribute is that is read here."""
        owners = alternatives(self.evaluation.value(node.value, environment))
        having = (each for each in owners if len(owners) == 1 or not self.lacks(each, node.attr))
        return joined(self._attribute_of(each, node) for each in having)

    def lacks(self, owner: Value, name: str) -> bool:
        """Whether an object of the program surely has no such attribute, as a hook has not each method."""
        if isinstance(owner, Dictionary):
            return self.evaluation.tables.entry(owner, name, None) is None
        if not isinstance(owner, Made) or owner.definition.bases:
            return False
        return not any(self.bindings_in_class(owner.definition, each) for each in (name, "__getattr__"))

    def _attribute_of(self, owner: Value, node: ast.Attribute) -> Value:
        name = node.attr
        if isinstance(owner, External):
            return self.evaluation.external(f"{owner.name}.{name}")
        if isinstance(owner, Constant):  # A member of an enumeration is what is written for it.
            return owner if name == "value" else UNKNOWN
        if isinstance(owner, Instance) and owner.name == "super":
            return self._above(node)
        if isinstance(owner, Instance):
            whole = canonical_name(f"{(made := class_of_result(owner))}.{name}")
            if whole == f"{PATH}.parent":
                return owner
            if (held := model_within(owner, whole)) is not None:
                return self.evaluation.value(held)
            if (stored := self._stored(node, owner)) is not UNKNOWN:
                return stored
            option = self._optional(node) if made.startswith("argparse.") else UNKNOWN
            return option if option is not UNKNOWN else RANK_ATTRIBUTES.get(whole) or External(whole)
        if isinstance(owner, Dictionary):
            entry = self.evaluation.tables.item_of(owner, node.value, name)
            return self._stored(node, None) if entry is UNKNOWN else entry
        if isinstance(owner, ModuleOf):
            if name in owner.file.module.bindings:
                own = owner.file.module.bindings[name]
                return self.evaluation.any_of([*own, *self.set_from_outside([owner], name)], None)
            for each in owner.file.module.bindings.get("__getattr__", ()):
                if isinstance(each.node, ast.FunctionDef) and (asked := parameters_of(each.node)):
                    return self.evaluation.calls.result(each.node, {asked[0]: Constant(name)})
            whole = f"{self.evaluation.files.module_name(owner.file)}.{name}"
            inner = self.evaluation.files.modules.get(whole)
            return ModuleOf(inner) if inner is not None else self.evaluation.through_star(owner.file, name)
        if isinstance(owner, Made):
            return self.member_of(owner.definition, name)
        if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
            return self.member_of(owner.node, name, bound=False)
        found = self._stored(node, owner)
        return self._optional(node) if found is UNKNOWN else found

    def _above(self, node: ast.Attribute) -> Value:
        """What `super()` has by a name, in a method of a class of the program."""
        function = scope_of(node).function
        own = class_of(function.node) if function is not None else None
        found = UNKNOWN if own is None else self._inherited(own, node.attr, 0)
        return UNKNOWN if isinstance(found, External) else found

    def _stored(self, node: ast.Attribute, owner: Value | None) -> Value:
        """What the program sets an attribute to. A literal alone does not tell: `args.local_rank = 0`, in a
        run of one process, goes over an option."""
        bindings = [*self.stores(node, owner)]
        found = self.evaluation.any_of(bindings, None)
        if bindings and (found is UNKNOWN or isinstance(found, Constant)):
            scope, arms = scope_of(node), branch_arms(node)
            here = [each for each in bindings if scope_of(each.node) is scope]
            place = getattr(node, "lineno", inf), getattr(node, "col_offset", 0)
            now = last_that_surely_run(here, place, arms, self.evaluation.value)
            is_sure = len(here) == len(bindings) and len(now) == 1 and branch_arms(now[0].node) <= arms
            found = self.evaluation.any_of(now, None) if is_sure else UNKNOWN
        return found

    def stores(self, node: ast.Attribute, owner: Value | None) -> Iterator[Binding]:
        """Where the program sets this attribute on what has its name, or is the same object of a library."""
        if isinstance(owner, External | Made | Defined | ModuleOf) or not (last := last_name(node.value)):
            return
        made = owner if isinstance(owner, Instance) else None
        if (found := self._stores.get((last, node.attr, made))) is None:
            found = self._stores[last, node.attr, made] = [
                binding
                for file in self.evaluation.files.mentioning(node.attr)
                for binding in file.set_attributes.get(node.attr, ())
                if binding.name.split(".")[-2] == last
                or (made and self.evaluation.value(getattr(binding.node, "value", node)) == made)
            ]
        yield from (each for each in found if not is_set_later(each.node, node))

    def member_of(self, definition: ast.ClassDef, name: str, depth: int = 0, bound: bool = True) -> Value:
        """An attribute of an object of a class of the program: set by a method, a method, or inherited."""
        if not (found_here := self.bindings_in_class(definition, name)):
            inherited = self._inherited(definition, name, depth)
            return self._by_name(definition, name) if inherited is UNKNOWN and bound else inherited
        found = self.evaluation.any_of(found_here, None)
        if not isinstance(found, Defined) or not isinstance(found.node, ast.FunctionDef):
            return found
        if below := self.evaluation.callers.implementing(found.node, definition):
            return joined(self.member_of(each, name, depth, bound) for each in below)
        if bound and is_property(found.node):
            return self.evaluation.calls.result(found.node, None)
        belongs = not is_static(found.node) if bound else is_class_method(found.node)
        return Defined(found.node, definition) if belongs else found

    def _by_name(self, definition: ast.ClassDef, name: str) -> Value:
        """An attribute that a class gives its objects by its name alone: from a table that it takes over, by
        `self.__dict__.update(table)` or a loop of `setattr`, or by `__getattr__`."""
        file = file_of(definition)
        tables = [
            *(
                each.value
                for each in file.set_attributes.get("__dict__", ())
                if method_of(each.node, definition)
            ),
            *(
                each
                for call in file.calls_of.get("update", ())
                if method_of(call, definition) and _is_all_of_self(getattr(call.func, "value", call))
                for each in (*call.args, *(one.value for one in call.keywords if one.arg is None))
            ),
            *(
                taken
                for call in file.calls_of.get("setattr", ())
                if method_of(call, definition) and (taken := _table_looped_over(call)) is not None
            ),
        ]
        found = [self.evaluation.tables.item(each, name, None) for each in tables if each is not None]
        if not found:
            for each in self.bindings_in_class(definition, "__getattr__") if name != "__getattr__" else ():
                if isinstance(each.node, ast.FunctionDef) and len(asked := parameters_of(each.node)) == 2:
                    given: Environment = {asked[0]: Made(definition), asked[1]: Constant(name)}
                    found.append(self.evaluation.calls.result(each.node, given))
        return joined(found)

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
        # One without any may have it from a class of a library.
        mine = (Made(definition), Defined(definition))
        return [*found, *self.set_from_outside(mine, name)] if found or not definition.bases else []

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
        values = self.evaluation.value
        return [each for each, owner in stores if any(one in mine for one in alternatives(values(owner)))]

    def _inherited(self, definition: ast.ClassDef, name: str, depth: int) -> Value:
        for parent in map(self.evaluation.value, definition.bases):
            own = parent.node if isinstance(parent, Defined) and depth < 10 else None
            found = self.member_of(own, name, depth + 1) if isinstance(own, ast.ClassDef) else UNKNOWN
            if found is not UNKNOWN:
                return found
            if isinstance(parent, External):
                whole = canonical_name(f"{parent.name}.{name}")
                return RANK_ATTRIBUTES.get(whole) or External(whole)
        return UNKNOWN

    def _optional(self, node: ast.Attribute) -> Value:
        """What an option of the script's own parser is by its launcher or its default, `args.local_rank`."""
        found = self.options.value_of_option(node.attr)
        if found is UNKNOWN and dotted_name(node) in self.evaluation.callers.declared_ranks:
            return RankValue(RankKind.GLOBAL, "rank of init_process_group")
        return found


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
