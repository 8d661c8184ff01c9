"""What an attribute is: of a library, of a module or object of the program, or of a namespace of options."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.scripts.names import RESULTS, canonical
from launcher.scripts.ranks import LOCAL_RANK_OPTIONS, rank_of
from launcher.scripts.scopes import (
    Binding,
    BindingKind,
    FunctionNode,
    ancestors,
    dotted_name,
    file_of,
    last_name,
    positional_of,
    scope_of,
)
from launcher.scripts.values import (
    UNKNOWN,
    Constant,
    Defined,
    External,
    Instance,
    Made,
    ModuleOf,
    RankKind,
    RankValue,
    Value,
    alternatives,
    joined,
)

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Environment, Evaluation

_PROPERTIES = frozenset(
    {
        "process_index",
        "local_process_index",
        "num_processes",
        "global_rank",
        "local_rank",
        "node_rank",
        "world_size",
    }
)
"""The ranks and sizes that are read; the others are called."""


class Attributes:
    """The attributes of one program."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._stores: dict[tuple[str, str], list[Binding]] = {}

    def value(self, node: ast.Attribute, environment: Environment | None) -> Value:
        """What an attribute is that is read here."""
        owner = self.evaluation.value(node.value, environment)
        return joined(self._of(each, node) for each in alternatives(owner))

    def _of(self, owner: Value, node: ast.Attribute) -> Value:
        name = node.attr
        if isinstance(owner, External):
            whole = canonical(f"{owner.name}.{name}")
            known = rank_of(whole) if owner.name.endswith("COMM_WORLD") and name in ("rank", "size") else None
            return known or External(whole)
        if isinstance(owner, Instance):
            made = RESULTS.get((owner.name, owner.item), owner.name)
            whole = canonical(f"{made}.{name}")
            stored = self._stored(node, owner)
            if stored is not UNKNOWN:
                return stored
            option = self._optional(node) if made.startswith("argparse.") else UNKNOWN
            return option if option is not UNKNOWN else self._rank_called(whole) or External(whole)
        if isinstance(owner, ModuleOf):
            if name in owner.file.module.bindings:
                return self.evaluation.member(owner.file.module, name)
            inner = self.evaluation.program.modules.get(
                f"{self.evaluation.program.module_name(owner.file)}.{name}"
            )
            return ModuleOf(inner) if inner is not None else UNKNOWN
        if isinstance(owner, Made):
            return self._of_object(owner.definition, name, 0)
        if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):
            return self._of_object(owner.node, name, 0, bound=False)
        found = self._stored(node, owner)
        return self._optional(node) if found is UNKNOWN else found

    def _stored(self, node: ast.Attribute, owner: Value | None) -> Value:
        """What the program sets an attribute to, that others may set as well: an option, a configuration.

        A literal alone does not tell: `args.local_rank = 0`, in a run of one process, goes over an option.
        """
        found = self.evaluation.any_of(list(self.stores(node, owner)), None)
        return UNKNOWN if isinstance(found, Constant) else found

    def _rank_called(self, name: str) -> Value | None:
        """A rank that is read as an attribute; what must be called is one of `_called`."""
        found = rank_of(name)
        return found if name.rpartition(".")[2] in _PROPERTIES else None

    def stores(self, node: ast.Attribute, owner: Value | None) -> Iterator[Binding]:
        """Where the program sets this attribute on a variable of the same name: `args.rank = ...`."""
        if isinstance(owner, External | Made | Defined | ModuleOf):
            return
        last = last_name(node.value)
        if last is None:
            return
        found = self._stores.get((last, node.attr))
        if found is None:
            found = self._stores[last, node.attr] = [
                binding
                for file in self.evaluation.program.mentioning(node.attr)
                for binding in file.set_attributes.get(node.attr, ())
                if binding.name.split(".")[-2] == last
            ]
        yield from (each for each in found if not _is_set_later(each.node, node))

    def _of_object(self, definition: ast.ClassDef, name: str, depth: int, bound: bool = True) -> Value:
        """An attribute of an object of a class of the program: set by a method, a method, or inherited."""
        found_here = self.of_class(definition, name)
        if not found_here:
            return self._inherited(definition, name, depth)
        found = self.evaluation.any_of(found_here, None)
        if isinstance(found, Defined) and isinstance(found.node, ast.FunctionDef) and bound:
            if any(last_name(each) in ("property", "cached_property") for each in found.node.decorator_list):
                return self.evaluation.calls.result(found.node, None)
            return Defined(found.node, definition)
        return found

    def of_class(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a class gives its objects this attribute: in its body, or in a method on `self`.

        Where it gives only literals, they may be mere defaults: then also where others set it on an object.
        """
        file = file_of(definition)
        found = list(file.scopes[definition].bindings.get(name, []))
        for binding in file.set_attributes.get(name, ()):
            method = _method_of(binding.node, definition)
            if (
                method is not None
                and isinstance(binding.node, ast.Attribute)
                and _is_own(binding.node, method)
            ):
                found.append(binding)
        if found and all(isinstance(each.value, ast.Constant) for each in found):
            found += self._set_from_outside(definition, name)
        return found

    def of_class_itself(self, definition: ast.ClassDef, name: str) -> list[Binding]:
        """Where a class that is used without an object, as configurations are, gets this attribute."""
        found = list(file_of(definition).scopes[definition].bindings.get(name, []))
        return [*found, *self._set_from_outside(definition, name)] if found else []

    def _set_from_outside(self, definition: ast.ClassDef, name: str) -> Iterator[Binding]:
        """Where others set this attribute on an object or the class: `learner.is_master = rank == 0`."""
        for file in self.evaluation.program.mentioning(name):
            for binding in file.set_attributes.get(name, ()):
                node = binding.node
                if isinstance(node, ast.Attribute) and binding.name.split(".")[-2] not in ("self", "cls"):
                    owners = alternatives(self.evaluation.value(node.value))
                    if Made(definition) in owners or Defined(definition) in owners:
                        yield binding

    def _inherited(self, definition: ast.ClassDef, name: str, depth: int) -> Value:
        for base in definition.bases:
            parent = self.evaluation.value(base)
            if isinstance(parent, Defined) and isinstance(parent.node, ast.ClassDef) and depth < 10:
                found = self._of_object(parent.node, name, depth + 1)
                if found is not UNKNOWN:
                    return found
            if isinstance(parent, External):
                whole = canonical(f"{parent.name}.{name}")
                return self._rank_called(whole) or External(whole)
        return UNKNOWN

    def _optional(self, node: ast.Attribute) -> Value:
        """`args.local_rank` where a launcher hands `--local_rank` to the script's parser."""
        if node.attr == "local_rank" and self.takes_local_rank and not self._is_set_otherwise:
            return RankValue(RankKind.LOCAL, "--local_rank")
        written = dotted_name(node)
        if written is not None and written in self.evaluation.callers.declared_ranks:
            return RankValue(RankKind.GLOBAL, "rank of init_process_group")
        return UNKNOWN

    @cached_property
    def _is_set_otherwise(self) -> bool:
        """Whether an option `local_rank` may become another rank: the ranks of the hosts before are added."""
        return any(
            binding.kind is BindingKind.CHANGED or not self._keeps_local(binding)
            for file in self.evaluation.program.mentioning("local_rank")
            for binding in file.set_attributes.get("local_rank", ())
        )

    def _keeps_local(self, binding: Binding) -> bool:
        """Whether what an attribute is set to is the rank on the host, or a literal."""
        if isinstance(binding.value, ast.Attribute) and binding.value.attr == "local_rank":
            return True  # `self.local_rank = args.local_rank`.
        value = self.evaluation.bound(binding, None)
        return isinstance(value, Constant) or (isinstance(value, RankValue) and value.kind is RankKind.LOCAL)

    @cached_property
    def takes_local_rank(self) -> bool:
        """Whether a parser of the program has the option that launchers hand over."""
        return any(
            isinstance(argument, ast.Constant) and argument.value in LOCAL_RANK_OPTIONS
            for file in self.evaluation.program.mentioning("add_argument")
            for call in file.calls_of.get("add_argument", ())
            for argument in call.args
        )


def _is_set_later(store: ast.AST, use: ast.Attribute) -> bool:
    """Whether an attribute is set behind its use: `set_device(args.gpu); args.gpu = get_rank()`.

    In the function that makes the variable whose attribute it is, with no loop around both.
    """
    scope = scope_of(use)
    if scope_of(store) is not scope or not isinstance(use.value, ast.Name) or not hasattr(use, "lineno"):
        return False  # What `getattr` reads has no place of its own.
    made = scope.bindings.get(use.value.id, ())
    if not made or any(each.kind is not BindingKind.ASSIGNED for each in made):
        return False
    end = (use.end_lineno or use.lineno, use.end_col_offset or 0)
    if (getattr(store, "lineno", 0), getattr(store, "col_offset", 0)) <= end:
        return False
    loops = {each for each in ancestors(use) if isinstance(each, ast.For | ast.AsyncFor | ast.While)}
    return loops.isdisjoint(ancestors(store))


def _method_of(node: ast.AST, definition: ast.ClassDef) -> FunctionNode | None:
    """The method of a class in whose own code a node stands."""
    scope = scope_of(node).function
    if scope is None or scope.parent is None or scope.parent.node is not definition:
        return None
    return scope.node if isinstance(scope.node, FunctionNode) else None


def _is_own(attribute: ast.Attribute, method: FunctionNode) -> bool:
    """Whether an attribute is one of the method's own object."""
    positional = positional_of(method)
    return (
        bool(positional) and isinstance(attribute.value, ast.Name) and attribute.value.id == positional[0].arg
    )
