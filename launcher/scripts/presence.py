"""Whether a name is something true, where that is decided by what runs before: `saver is not None`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from launcher.scripts.guard import Guard, Truth, branched, in_body, opposite
from launcher.scripts.scopes import Binding, BindingKind, ancestors, function_of_parameter, last_name

if TYPE_CHECKING:
    from launcher.scripts.guards import Guards

_DEEPEST = 25
"""So many names that depend on one another; what is nested deeper is unknown."""


class NamePresence:
    """The names of one program that are something on some ranks and nothing on others."""

    def __init__(self, guards: Guards) -> None:
        """Nothing is looked at before somebody asks."""
        self.guards = guards
        self._open: set[ast.AST] = set()

    def truth(self, test: ast.expr) -> Truth:
        """Whether a name is something true, by all that it may be bound to and where that happens."""
        if not isinstance(test, ast.Name | ast.Attribute) or test in self._open:
            return None
        bindings = self.guards.evaluation.sources(test)
        if not bindings or len(self._open) > _DEEPEST:
            return None
        self._open.add(test)
        try:
            found = _together([each for binding in bindings for each in self._bound(binding)])
        finally:
            self._open.discard(test)
        return replace(found, test=test) if isinstance(found, Guard) else found

    def _bound(self, binding: Binding) -> list[_BoundTruth]:
        """What one binding makes of a name, and under which guard; nothing where no distributed run comes."""
        if binding.kind is BindingKind.PARAMETER:
            return [_BoundTruth(each, True) for each in self._of_every_call(binding.node)]
        under: Truth = True
        inner: ast.AST = binding.node
        for outer in ancestors(binding.node):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                break
            if isinstance(outer, ast.If):
                condition = self.guards.truth(outer.test)
                condition = condition if in_body(outer, inner) else opposite(condition)
                if condition is False:
                    return []
                if isinstance(condition, Guard) or (condition is None and under is True):
                    under = condition
            inner = outer
        if binding.kind is not BindingKind.ASSIGNED or binding.value is None or binding.item is not None:
            return [_BoundTruth(None, under)]
        return [_BoundTruth(self._assigned(binding.value), under)]

    def _assigned(self, value: ast.expr) -> Truth:
        if isinstance(value, ast.IfExp):
            condition = self.guards.truth(value.test)
            return branched(condition, self._assigned(value.body), self._assigned(value.orelse))
        truth = self.guards.truth(value)
        # An object is true; a call of what is unknown may give anything.
        named = isinstance(value, ast.Call) and (last_name(value.func) or "")[:1].isupper()
        return True if truth is None and named else truth

    def _of_every_call(self, parameter: ast.AST) -> list[Truth]:
        function = function_of_parameter(parameter)
        calls = None if function is None else self.guards.evaluation.callers.of(function)
        if calls is None or not isinstance(parameter, ast.arg):
            return [None]
        found: list[Truth] = []
        for call in calls:
            given = None if call.arguments is None else call.arguments.get(parameter.arg)
            found.append(None if given is None else self.guards.truth(given))
        return found or [None]


@dataclass(frozen=True, slots=True)
class _BoundTruth:
    truth: Truth
    under: Truth


def _together(bound: Sequence[_BoundTruth]) -> Truth:
    """The truth of a name with these bindings."""
    if not bound:
        return None
    if len(bound) == 1 and bound[0].under is True:
        return bound[0].truth
    if any(each.truth is None for each in bound):
        return None
    guards = [each.truth for each in bound if isinstance(each.truth, Guard)]
    if guards:
        # Literals beside a guard are for runs that are not distributed.
        return guards[0] if all(each.same_ranks(guards[0]) for each in guards) else None
    if len({each.truth for each in bound}) == 1:
        return bound[0].truth if any(each.under is True for each in bound) else None
    first, *others = bound
    changed = [each for each in others if each.truth is not first.truth]
    under = [each.under for each in changed if isinstance(each.under, Guard)]
    if (
        first.under is True
        and len(under) == len(changed)
        and all(each.same_ranks(under[0]) for each in under)
    ):
        return under[0] if first.truth is False else under[0].opposite()
    if len(bound) == 2 and all(isinstance(each.under, Guard) for each in bound):
        one = bound[0].under
        assert isinstance(one, Guard)
        return one if bound[0].truth is True else one.opposite()
    return None
