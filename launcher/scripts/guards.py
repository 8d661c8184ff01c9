"""Which tests are true on some ranks and false on others, in a distributed run.

`rank == 0`, `rank in (-1, 0)`, `is_main()`, `saver is not None` where rank 0 alone has a saver. Not guards
are what all ranks answer alike: `rank != -1`, `world_size > 1`, `is_initialized()`, `local_rank is None`.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from launcher.scripts.comparisons import compared
from launcher.scripts.guard import Guard, Truth, branched, in_body, opposite
from launcher.scripts.presence import NamePresence
from launcher.scripts.ranks import DISTRIBUTED, MAIN_PROCESS, MAIN_PROCESS_ONLY, VARIABLES
from launcher.scripts.scopes import (
    FunctionNode,
    ancestors,
    last_name,
)
from launcher.scripts.values import (
    Constant,
    Defined,
    External,
    Instance,
    Made,
    RankValue,
    Value,
    WorldSize,
)

if TYPE_CHECKING:
    from launcher.scripts.evaluation import Environment, Evaluation

_DEEPEST = 25
"""So many tests within tests; what is nested deeper is unknown."""


class Guards:
    """The tests of one program."""

    def __init__(self, evaluation: Evaluation) -> None:
        """Nothing is looked at before somebody asks."""
        self.evaluation = evaluation
        self._known: dict[ast.expr, Truth] = {}
        self._open: set[ast.AST] = set()
        self._calls_of_decorated: dict[FunctionNode, ast.Call | None] = {}
        self.presence = NamePresence(self)

    def truth(self, test: ast.expr, environment: Environment | None = None) -> Truth:
        """What a test is in a distributed run: True or False on every rank, a Guard, or None: unknown."""
        if environment:
            return self._truth(test, environment)
        if test not in self._known:
            self._known[test] = None  # Where it depends on itself.
            self._known[test] = self._truth(test, None)
        return self._known[test]

    def guard(self, test: ast.expr) -> Guard | None:
        """The ranks on which a test is true, where it is false on others."""
        truth = self.truth(test)
        return truth if isinstance(truth, Guard) else None

    def of_decorators(self, function: FunctionNode) -> Guard | None:
        """The ranks on which alone a function runs, by a decorator of a library or of the program."""
        for decorator in [] if isinstance(function, ast.Lambda) else function.decorator_list:
            value = self.evaluation.value(decorator)
            if isinstance(value, External | Instance) and value.name in MAIN_PROCESS_ONLY:
                kind, rank = MAIN_PROCESS_ONLY[value.name]
                return Guard(kind, frozenset({rank}), test=decorator)
            if isinstance(value, Defined) and not isinstance(value.node, ast.ClassDef):
                found = self._wrapping(value.node)
                if found is not None:
                    return replace(found, test=decorator)
        return None

    def _wrapping(self, decorator: FunctionNode) -> Guard | None:
        """The guard under which the function that a decorator makes calls the decorated one."""
        if decorator not in self._calls_of_decorated:
            self._calls_of_decorated[decorator] = _call_of_decorated(decorator)
        call = self._calls_of_decorated[decorator]
        return None if call is None else self.around(call)

    def around(self, node: ast.AST) -> Guard | None:
        """The innermost guard of its function under which a node stands, by `if` or `a if ... else b`."""
        inner = node
        for outer in ancestors(node):
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                return None
            if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
                truth = self.truth(outer.test)
                if isinstance(truth, Guard):
                    return truth if in_body(outer, inner) else truth.opposite()
            inner = outer
        return None

    def _truth(self, test: ast.expr, environment: Environment | None) -> Truth:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            found = opposite(self.truth(test.operand, environment))
            return replace(found, test=test) if isinstance(found, Guard) else found
        if isinstance(test, ast.BoolOp):
            truths = [self.truth(each, environment) for each in test.values]
            found = _all_of(truths) if isinstance(test.op, ast.And) else _any_of(truths)
            return replace(found, test=test) if isinstance(found, Guard) else found
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._comparison(test, environment)
        if isinstance(test, ast.NamedExpr):
            return self.truth(test.value, environment)
        if isinstance(test, ast.IfExp):
            return self._chosen(test, environment)
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.Call):
            return self._call(test, environment)
        if isinstance(test, ast.Name | ast.Attribute):
            return self._name(test, environment)
        return self._of_value(self.evaluation.value(test, environment), test)

    def _of_value(self, value: Value, test: ast.expr) -> Truth:
        if isinstance(value, RankValue):
            return Guard(value.kind, frozenset({0}), outside=True, test=test)
        if isinstance(value, WorldSize):
            return True
        if isinstance(value, Constant):
            return bool(value.value)
        if isinstance(value, External) and value.name in MAIN_PROCESS:
            kind, rank = MAIN_PROCESS[value.name]
            return Guard(kind, frozenset({rank}), test=test)
        return None

    def _comparison(self, test: ast.Compare, environment: Environment | None) -> Truth:
        left, (right,), (operator,) = test.left, test.comparators, test.ops
        one, other = self.evaluation.value(left, environment), self.evaluation.value(right, environment)
        if isinstance(operator, ast.In | ast.NotIn) and other == External("os.environ"):
            known = isinstance(one, Constant) and one.value in VARIABLES
            return (isinstance(operator, ast.In)) if known else None
        found = compared(test, one, other, self.evaluation, environment)
        if (
            found is None
            and other == Constant(None)
            and isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq)
        ):
            present = self.presence.truth(left)
            found = present if isinstance(operator, ast.IsNot | ast.NotEq) else opposite(present)
            found = replace(found, test=test) if isinstance(found, Guard) else found
        equality = isinstance(operator, ast.Is | ast.Eq | ast.IsNot | ast.NotEq)
        if found is None and equality and other in (Constant(True), Constant(False)):
            same = isinstance(operator, ast.Is | ast.Eq) == (other == Constant(True))
            truth = self.truth(left, environment)
            found = truth if same else opposite(truth)
        return found

    def _chosen(self, test: ast.IfExp, environment: Environment | None) -> Truth:
        condition = self.truth(test.test, environment)
        body, other = self.truth(test.body, environment), self.truth(test.orelse, environment)
        return branched(condition, body, other)

    def _call(self, test: ast.Call, environment: Environment | None) -> Truth:
        called = self.evaluation.value(test.func, environment)
        if isinstance(called, External):
            if called.name in DISTRIBUTED:
                return True
            if called.name == "bool" and test.args:
                return self.truth(test.args[0], environment)
            if called.name in MAIN_PROCESS:
                return self._of_value(called, test)
        if isinstance(called, Defined) and not isinstance(called.node, ast.ClassDef):
            inside = self.evaluation.calls.environment_of(called, test, environment)
            found = self._returned_by(called.node, inside)
            return replace(found, test=test) if isinstance(found, Guard) else found
        return self._of_value(self.evaluation.value(test, environment), test)

    def _returned_by(self, function: FunctionNode, environment: Environment | None) -> Truth:
        if function in self._open or len(self._open) > _DEEPEST:
            return None
        self._open.add(function)
        try:
            if isinstance(function, ast.Lambda):
                return self.truth(function.body, environment)
            return self._returned(function.body, environment).truth
        finally:
            self._open.discard(function)

    def _returned(self, body: Sequence[ast.stmt], environment: Environment | None) -> _Returned:
        """What a block of statements gives back, if it does."""
        for number, statement in enumerate(body):
            if isinstance(statement, ast.Return):
                value = statement.value
                return _Returned(True, False if value is None else self.truth(value, environment))
            if isinstance(statement, ast.Raise):
                return _Returned(True, None, raises=True)
            rest = body[number + 1 :]
            if isinstance(statement, ast.Try):
                return self._returned([*statement.body, *statement.orelse, *rest], environment)
            if isinstance(statement, ast.With):
                return self._returned([*statement.body, *rest], environment)
            if isinstance(statement, ast.For | ast.While) and _has_return(statement):
                return _Returned(True, None)
            if isinstance(statement, ast.If) and _has_return(statement):
                condition = self.truth(statement.test, environment)
                one = self._returned([*statement.body, *rest], environment)
                other = self._returned([*statement.orelse, *rest], environment)
                if one.raises or other.raises:
                    return other if one.raises else one
                return _Returned(True, branched(condition, one.truth, other.truth))
        return _Returned(False, False)

    def _name(self, test: ast.Name | ast.Attribute, environment: Environment | None) -> Truth:
        value = self.evaluation.value(test, environment)
        found = self._of_value(value, test)
        if found is not None:
            return found
        if isinstance(test, ast.Attribute):
            member = self.evaluation.value(test.value, environment)
            if isinstance(member, Made):
                prop = self._property(member, test.attr)
                if prop is not None:
                    truth = self._returned_by(prop, None)
                    return replace(truth, test=test) if isinstance(truth, Guard) else truth
        return self.presence.truth(test)

    def _property(self, owner: Made, name: str) -> FunctionNode | None:
        for binding in self.evaluation.attributes.of_class(owner.definition, name):
            node = binding.node
            if isinstance(node, ast.FunctionDef) and any(
                last_name(each) in ("property", "cached_property") for each in node.decorator_list
            ):
                return node
        return None


@dataclass(frozen=True, slots=True)
class _Returned:
    """How a block ends: whether it returns, with what, or raises."""

    returns: bool
    truth: Truth
    raises: bool = False


def _call_of_decorated(decorator: FunctionNode) -> ast.Call | None:
    """Where a decorator calls what it decorates."""
    positional = decorator.args.args
    if not positional or isinstance(decorator, ast.Lambda):
        return None
    for node in ast.walk(decorator):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == positional[0].arg
        ):
            return node
    return None


def _all_of(truths: Sequence[Truth]) -> Truth:
    if False in truths:
        return False
    guards = [each for each in truths if isinstance(each, Guard)]
    if guards:
        # With an unknown condition besides: on these ranks sometimes, on the others never.
        exact = len(guards) == 1 and all(each is True for each in truths if not isinstance(each, Guard))
        return replace(guards[0], exact=guards[0].exact and exact)
    return True if all(each is True for each in truths) else None


def _any_of(truths: Sequence[Truth]) -> Truth:
    if True in truths:
        return True
    guards = [each for each in truths if isinstance(each, Guard)]
    if None in truths:
        return None
    if not guards:
        return False
    members = frozenset[int]()
    for each in guards:
        if each.members is None or each.outside or each.kind is not guards[0].kind:
            return replace(guards[0], members=None, exact=False) if len(guards) > 1 else guards[0]
        members |= each.members
    return replace(guards[0], members=members)


def _has_return(statement: ast.stmt) -> bool:
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return | ast.Raise):
            return True
        if not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.expr
        ):
            pending.extend(ast.iter_child_nodes(node))
    return False
