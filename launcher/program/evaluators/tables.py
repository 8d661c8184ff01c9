"""The entries of a program's tables: as they are written, and as they are set, updated and filled in later.

What surely runs before a table is read replaces what was there; what may run, or runs where nobody knows
when, is beside it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import cached_property
from math import inf

from launcher.program.bindings import Arm, branch_arms, last_that_surely_run
from launcher.program.evaluators.whole import WholeEvaluation
from launcher.program.index import Binding, BindingKind, file_of, last_name, scope_of
from launcher.program.values import (
    RANK_VARIABLES,
    UNKNOWN,
    Constant,
    Defined,
    Dictionary,
    Environment,
    External,
    Instance,
    Made,
    Several,
    Value,
    alternatives,
    entries_of,
    joined,
    like,
    pairs_of,
)


class TableEvaluator:
    """The entries of one program's dictionaries, and of objects that are made of dictionaries."""

    def __init__(self, evaluation: WholeEvaluation) -> None:
        """Nothing is evaluated before somebody asks."""
        self.evaluation = evaluation
        self._set_on: dict[str, list[Binding]] | None = None

    def item(self, owner: ast.expr, key: str, environment: Environment | None) -> Value:
        """What `owner[key]` is: as the dictionary is written, or as it is set on it later."""
        whole = alternatives(self.evaluation.value(owner, environment))
        return self._of_several(whole, owner, key, environment)

    def item_of(self, table: Dictionary, owner: ast.expr, key: str) -> Value:
        """What one of the tables that an expression may be has below a key."""
        return self._of_several((table,), owner, key, None)

    def _of_several(
        self, whole: tuple[Value, ...], owner: ast.expr, key: str, environment: Environment | None
    ) -> Value:
        found = self._known_of_several(whole, owner, key, environment)
        return self._objects_set(owner) if found is UNKNOWN else found

    def _known_of_several(
        self, whole: tuple[Value, ...], owner: ast.expr, key: str, environment: Environment | None
    ) -> Value:
        entries = [self.entry(each, key, environment) for each in whole]
        stores, others = self._stores(owner, key, whole)
        in_rounds = self.evaluation.written.set_in_rounds(whole, key, self.evaluation.value)
        if not stores and not others and not in_rounds:
            return joined(UNKNOWN if each is None else each for each in entries)
        known = [each for each in entries if each is not None and each is not UNKNOWN]
        if known:
            stores = [each for each in stores if not _only_fills_in(each)]
        surely = self._replacing(stores, owner, whole)
        if surely is not None:
            stores, known, entries = surely, [], []
        set_later = [self.evaluation.value_of_binding(each, None) for each in (*stores, *others)] + in_rounds
        stored = joined(set_later)
        if UNKNOWN in entries and not known:
            return UNKNOWN if isinstance(stored, Constant) else stored
        if UNKNOWN in entries or (None in entries and known):
            known.append(UNKNOWN)
        return joined([*known, stored] if set_later else known)

    def _stores(
        self, owner: ast.expr, key: str, whole: Sequence[Value]
    ) -> tuple[list[Binding], list[Binding]]:
        """Where an entry is set on a table, and where perhaps: on what has its name, and nobody knows."""
        files, name = self.evaluation.files, last_name(owner)
        set_here = [each for file in files.mentioning(key) for each in file.set_items.get(key, ())]
        tables = [each for each in whole if isinstance(each, Dictionary)]
        if tables:
            set_here += [
                each
                for file in files.mentioning(key)
                for each in file.set_attributes.get(key, ())
                if isinstance(each.node, ast.Attribute)
            ]
            set_here += self._updates(key)
        stores: list[Binding] = []
        others: list[Binding] = []
        for each in set_here:
            target = each.node.func if isinstance(each.node, ast.Call) else each.node
            table = target.target if isinstance(target, ast.AugAssign) else getattr(target, "value", target)
            value = self.evaluation.value(_as_read(table))
            if any(one in tables for one in alternatives(value)):
                stores.append(each)
            elif last_name(table) == name and not isinstance(value, Dictionary):
                others.append(each)
        stores.sort(key=lambda each: (each.node.__dict__["lineno"], each.node.__dict__["col_offset"]))
        return stores, others

    def _updates(self, key: str) -> list[Binding]:
        """Where `update`, `setdefault` and `|=` set an entry, or may set it."""
        found: list[Binding] = []
        files, evaluated = self.evaluation.files, self.evaluation.value
        for call in (each for file in files.mentioning("update") for each in file.calls_of.get("update", ())):
            if isinstance(call.func, ast.Attribute):
                tables = [*call.args, *(each.value for each in call.keywords if each.arg is None)]
                pairs = [pairs_of(evaluated(each), evaluated) for each in tables]
                given = {each.arg: each.value for each in call.keywords}
                for each in pairs:
                    given |= dict(each or ())
                if key in given or None in pairs:
                    kind = BindingKind.ASSIGNED if key in given else BindingKind.OTHER
                    found.append(Binding(key, kind, call, given.get(key)))
        for call in (
            each for file in files.mentioning("setdefault") for each in file.calls_of.get("setdefault", ())
        ):
            if len(call.args) == 2 and evaluated(call.args[0]) == Constant(key):
                found.append(Binding(key, BindingKind.ASSIGNED, call, call.args[1]))
        for statement in self._unions:
            given = dict(pairs_of(evaluated(statement.value), evaluated) or ())
            if key in given:
                found.append(Binding(key, BindingKind.ASSIGNED, statement, given[key]))
        return found

    @cached_property
    def _unions(self) -> list[ast.AugAssign]:
        """Where `|=` adds to a table, or to something else."""
        statements = (each for file in self.evaluation.files.files for each in file.nodes(ast.AugAssign))
        return [each for each in statements if isinstance(each.op, ast.BitOr)]

    def _replacing(
        self, stores: Sequence[Binding], owner: ast.expr, whole: Sequence[Value]
    ) -> list[Binding] | None:
        """The stores that hold where a table is read, if one of them surely runs before; else None."""
        table = whole[0] if len(whole) == 1 else None
        if not stores or not isinstance(table, Dictionary):
            return None
        made_in, read_in = scope_of(table.node), scope_of(owner)
        here = [each for each in stores if scope_of(each.node) is read_in]
        within = [each for each in stores if scope_of(each.node) is made_in and made_in is not read_in]
        others = [each for each in stores if each not in here and each not in within]
        made = Binding("", BindingKind.ASSIGNED, table.node)
        begin = [made] if made_in is read_in else []
        ended = last_that_surely_run(
            [made, *within], (inf, 0), branch_arms(table.node), self.evaluation.value
        )
        before = begin or ended
        place = getattr(owner, "lineno", inf), getattr(owner, "col_offset", 0)
        now = last_that_surely_run(here, place, branch_arms(owner), self.evaluation.value)
        if any(_is_sure(each, branch_arms(owner)) for each in now[:1]):
            before = []
        found = [*before, *now]
        return None if made in found else [*found, *others]

    def any_item(self, owner: ast.expr, whole: Value, environment: Environment | None) -> Value:
        """One of the entries of a table, by a key that is not known."""
        pairs = pairs_of(whole, self.evaluation.value) if isinstance(whole, Dictionary) else None
        values = [self.evaluation.value(each, environment) for _, each in pairs or ()]
        if pairs and last_name(owner) not in self.evaluation.files.grown:
            return joined(values)
        return joined([*values, self._objects_set(owner)]) if _are_objects(values) else UNKNOWN

    def _objects_set(self, owner: ast.expr) -> Value:
        """The functions and objects that a table of this name gets below calculated keys."""
        if self._set_on is None:
            self._set_on = {}
            for file in self.evaluation.files.files:
                for binding in file.set_items.get("", ()):
                    self._set_on.setdefault(binding.name, []).append(binding)
        stored = self._set_on.get(last_name(owner) or "", ())
        values = [self.evaluation.value_of_binding(each, None) for each in stored]
        return joined(values) if _are_objects(values) else UNKNOWN

    def read(self, call: ast.Call, environment: Environment | None) -> Value | None:
        """What `table.get(key, default)` gives; None for all other calls."""
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in ("get", "pop", "setdefault"):
            return None
        key = self.evaluation.value(call.args[0], environment) if call.args else UNKNOWN
        owner = self.evaluation.value(function.value, environment)
        name = key.value if isinstance(key, Constant) else None
        if isinstance(owner, Several) and function.attr == "pop":
            return self.evaluation.any_element(function.value, owner)
        if isinstance(owner, Dictionary) and call.args and function.attr == "get" and name is None:
            found = self.any_item(function.value, owner, environment)
            return None if found is UNKNOWN else found
        if not isinstance(owner, Dictionary) or not isinstance(name, str):
            return None
        found = self.item(function.value, name, environment)
        if found is UNKNOWN and self.entry(owner, name, environment) is None:
            return self.evaluation.value(call.args[1], environment) if len(call.args) > 1 else Constant(None)
        return found

    def entry(self, owner: Value, key: str, environment: Environment | None) -> Value | None:
        """What an object holds below a key, as it is made; None where it surely has no such entry."""
        if owner == External("os.environ"):
            return RANK_VARIABLES.get(key, UNKNOWN)
        if isinstance(owner, Made):
            return self.evaluation.attributes.member_of(owner.definition, key)
        if isinstance(owner, Defined) and isinstance(owner.node, ast.ClassDef):  # A structured configuration.
            return self.evaluation.attributes.member_of(owner.node, key, bound=False)
        if isinstance(owner, Instance) and owner.name == "globals":
            return self.evaluation.any_of(file_of(owner.call).module.bindings.get(key, ()), None)
        if isinstance(owner, Several) and (pairs := pairs_of(owner, self.evaluation.value)) is not None:
            return self.evaluation.value(dict(pairs)[key], environment) if key in dict(pairs) else None
        being_evaluated = self.evaluation.being_evaluated
        if not isinstance(owner, Dictionary) or owner.node in being_evaluated:
            return UNKNOWN  # Such as `options = {**options}` in a loop, which has its entries from itself.
        being_evaluated.add(owner.node)
        try:
            return self._written(owner, key, environment)
        finally:
            being_evaluated.discard(owner.node)

    def _written(self, owner: Dictionary, key: str, environment: Environment | None) -> Value | None:
        for name, value in reversed(entries_of(owner.node)):
            if name is None:
                parts = alternatives(self.evaluation.value(value, environment))
                inner = [self.entry(each, key, environment) for each in parts]
                if inner != [None]:
                    return joined(UNKNOWN if each is None else each for each in inner)
            elif not isinstance(known := self.evaluation.value(name, environment), Constant):
                return UNKNOWN
            elif known.value == key:
                return self.evaluation.value(value, environment)
        return None


def _are_objects(values: Sequence[Value]) -> bool:
    """Whether all of these are functions, classes or objects."""
    kinds = Defined | Made | Instance | External
    return all(isinstance(part, kinds) for each in values for part in alternatives(each))


def _as_read(table: ast.AST) -> ast.expr:
    """A variable to which something is added, as it is before."""
    if isinstance(table, ast.Name) and not isinstance(table.ctx, ast.Load):
        return like(table, ast.Name(table.id, ast.Load()))
    assert isinstance(table, ast.expr)
    return table


def _only_fills_in(store: Binding) -> bool:
    """Whether a store does nothing where there is such an entry."""
    return isinstance(store.node, ast.Call) and last_name(store.node.func) == "setdefault"


def _is_sure(store: Binding, arms: frozenset[Arm]) -> bool:
    return branch_arms(store.node) <= arms
