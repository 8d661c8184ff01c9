"""The attributes that a program reads: of its objects, classes and modules, and of what libraries make."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from math import inf

from launcher.program.bindings import branch_arms, last_that_surely_run
from launcher.program.evaluators.members import ClassMembers
from launcher.program.evaluators.whole import WholeEvaluation
from launcher.program.index import (
    Binding,
    BindingKind,
    ancestors,
    dotted_name,
    last_name,
    parameters_of,
    scope_of,
)
from launcher.program.objects.imported_names import external
from launcher.program.records import ParserOptions
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
    joined,
    model_within,
)


class AttributeEvaluator(ClassMembers):
    """The attributes of one program."""

    def __init__(self, evaluation: WholeEvaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        super().__init__(evaluation)
        self.options = ParserOptions(evaluation.files, evaluation.value, evaluation.value_of_binding)
        self._stores: dict[tuple[str, str, Instance | None], list[Binding]] = {}

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

    def have(self, owner: Value, name: str) -> bool:
        """Whether all that something may be are objects of the program which have such a method."""
        made = [each.definition for each in alternatives(owner) if isinstance(each, Made)]
        whole = len(made) == len(alternatives(owner))
        return whole and all(self.bindings_in_class(each, name) for each in made)

    def _attribute_of(self, owner: Value | None, node: ast.Attribute) -> Value:
        name = node.attr
        if isinstance(owner, External):
            found = external(f"{owner.name}.{name}")
            return RANK_ATTRIBUTES.get(getattr(found, "name", "")) or found
        if isinstance(owner, Constant):  # A member of an enumeration is what is written for it.
            return owner if name == "value" else UNKNOWN
        if isinstance(owner, Instance) and owner.name == "super":
            return self.of_super(node, name)
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
            found = self.evaluation.imports.through_star(owner.file, name)
            return found if inner is None else ModuleOf(inner)
        if isinstance(owner, Made):
            found = self.member_of(owner.definition, name)
            if found is not UNKNOWN or not self.is_open_record(owner.definition):
                return found
            owner = None
        if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
            return self.member_of(owner.node, name, bound=False)
        found = self._stored(node, owner)
        return self._optional(node) if found is UNKNOWN else found

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
        yield from (each for each in found if not _is_set_later(each.node, node))

    def _optional(self, node: ast.Attribute) -> Value:
        """What an option of the script's own parser is by its launcher or its default, `args.local_rank`."""
        found = self.options.value_of_option(node.attr)
        if found is UNKNOWN and dotted_name(node) in self.evaluation.callers.declared_ranks:
            return RankValue(RankKind.GLOBAL, "rank of init_process_group")
        return found


def _is_set_later(store: ast.AST, use: ast.Attribute) -> bool:
    """Whether an attribute is set behind its use: `set_device(args.gpu); args.gpu = get_rank()`.

    In the function that makes the variable whose attribute it is, with no loop around both.
    """
    scope = scope_of(use)
    if scope_of(store) is not scope or not isinstance(use.value, ast.Name) or not hasattr(use, "lineno"):
        return False  # What `getattr` reads has no place of its own.
    if {each.kind for each in scope.bindings.get(use.value.id, ())} != {BindingKind.ASSIGNED}:
        return False
    end = (use.end_lineno or use.lineno, use.end_col_offset or 0)
    if (getattr(store, "lineno", 0), getattr(store, "col_offset", 0)) <= end:
        return False
    loops = {each for each in ancestors(use) if isinstance(each, ast.For | ast.AsyncFor | ast.While)}
    return loops.isdisjoint(ancestors(store))
