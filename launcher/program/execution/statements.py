"""The statements of a program that is run on its syntax tree: what they assign, and what is run next."""

from __future__ import annotations

import ast
import builtins
import functools
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from launcher.program.execution.expressions import Expressions, item_name, joined
from launcher.program.execution.objects import (
    Class,
    FunctionLeft,
    LoopLeft,
    Object,
    ProcessEnded,
    Raised,
    RunScope,
    Suspended,
    Symbol,
    TurnEnded,
    bounded,
    is_iterable,
    is_known,
)
from launcher.program.index import EXIT_NAMES, last_name
from launcher.program.objects.nodes import walk

_MOST_TURNS = 64
_FEW_TURNS = 3
"""So many turns of a counted loop are run one by one; of more, one stands for all."""
_TERMINATING = (FunctionLeft, Raised, ProcessEnded, LoopLeft, TurnEnded)


class Statements(Expressions):
    """Runs statements one after the other."""

    def __init__(self) -> None:
        """Nothing has run."""
        super().__init__()
        self.raised: Raised | None = None
        """The first exception that the program surely raises, and does not catch."""
        self.catching: list[ast.Try] = []
        """The `try` statements in whose bodies it is, the innermost last."""
        self.grown: dict[int, list[Any]] = {}
        """The lists that grow in a loop of which nobody counts the turns."""
        self.tests_outside = 0
        """How many open tests were around the call of the function that runs."""
        self._counters: dict[ast.stmt, list[ast.AugAssign]] = {}
        self._counted: dict[Class, frozenset[str]] = {}
        self.ways: dict[type[ast.stmt], Callable[..., None]] = {
            kind: functools.partial(way, self) for kind, way in _WAYS.items()
        }

    @abstractmethod
    def run_context(self, given: Suspended, body: Callable[[object], None]) -> None:
        """Run the function of a context manager, with what is run where it yields."""

    @abstractmethod
    def note_raised(self, node: ast.AST) -> None:
        """Keep that a program ends as a module is missing."""

    @abstractmethod
    def note_unmet(self, node: ast.Assert) -> None:
        """Keep that an assertion on numbers does not hold."""

    @abstractmethod
    def bind_name(self, scope: RunScope, name: str, value: object) -> None:
        """Give a name a value where a scope keeps it."""

    @abstractmethod
    def set_attribute(self, owner: Any, name: str, value: object, node: ast.AST | None = None) -> None:
        """Give an attribute of anything a value."""

    @abstractmethod
    def set_item(self, owner: Any, key: Any, value: object, node: ast.AST) -> None:
        """Give an item of anything a value."""

    def assign(self, target: ast.expr, value: Any, scope: RunScope) -> None:
        """Give a value to a name, an attribute, an item or several of them."""
        if isinstance(target, ast.Name):
            self.bind_name(scope, target.id, value)
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.evaluate(target.value, scope), target.attr, value, target)
        elif isinstance(target, ast.Subscript):
            owner = self.evaluate(target.value, scope)
            key = Symbol() if isinstance(target.slice, ast.Slice) else self.evaluate(target.slice, scope)
            self.set_item(owner, key, value, target)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value, scope)

    def _unpack(self, targets: list[ast.expr], value: Any, scope: RunScope) -> None:
        star = next((number for number, each in enumerate(targets) if isinstance(each, ast.Starred)), None)
        if isinstance(value, dict | set) or (isinstance(value, Object) and is_iterable(value)):
            value = self.items_of(value, targets[0])
        if isinstance(value, list | tuple | str | range):
            rest = len(value) - len(targets)
            parts = list(value)
            if star is not None and rest >= -1:
                parts = [*parts[:star], parts[star : star + rest + 1], *parts[star + rest + 1 :]]
            if len(parts) == len(targets):
                for target, each in zip(targets, parts, strict=True):
                    self.assign(target.value if isinstance(target, ast.Starred) else target, each, scope)
                return
        name = getattr(value, "name", "") if isinstance(value, Symbol) else ""
        made_by = value.made_by if isinstance(value, Symbol) else None
        given = made_by.args if made_by is not None else ()
        for number, target in enumerate(targets):
            # What a library prepares or wraps comes back in the order in which it was given.
            is_same = len(given) == len(targets) and name.endswith(
                (".prepare()", ".initialize()", ".setup()")
            )
            each = given[number] if is_same else Symbol(item_name(name), made_by, value)
            self.assign(target.value if isinstance(target, ast.Starred) else target, each, scope)

    def run(self, statements: Iterable[ast.stmt], scope: RunScope) -> None:
        """Run statements one after the other."""
        for each in statements:
            self.steps += 1
            way = self.ways.get(type(each))
            if way is not None:
                way(each, scope)

    def _run_expression(self, node: ast.Expr, scope: RunScope) -> None:
        self.evaluate(node.value, scope)

    def _run_assign(self, node: ast.Assign, scope: RunScope) -> None:
        value = self.evaluate(node.value, scope)
        for target in node.targets:
            self.assign(target, value, scope)

    def _run_annotated(self, node: ast.AnnAssign, scope: RunScope) -> None:
        if node.value is not None:
            self.assign(node.target, self.evaluate(node.value, scope), scope)

    def _run_augmented(self, node: ast.AugAssign, scope: RunScope) -> None:
        left = self.evaluate(node.target, scope)
        right = self.evaluate(node.value, scope)
        self.assign(node.target, bounded(self.calculate(type(node.op), left, right, node)), scope)

    def _run_return(self, node: ast.Return, scope: RunScope) -> None:
        raise FunctionLeft(None if node.value is None else self.evaluate(node.value, scope))

    def _run_raise(self, node: ast.Raise, scope: RunScope) -> None:
        value = None if node.exc is None else self.evaluate(node.exc, scope)
        self._raise(_exception_name(node.exc, value), node, scope, _names_above(value))

    def _run_assert(self, node: ast.Assert, scope: RunScope) -> None:
        if self.truth(self.evaluate(node.test, scope)) is not False:
            return
        if _asks_for_remainder(node.test) and not self.is_tried():
            self.note_unmet(node)  # The numbers are the job's: what comes behind is to be seen as well.
        else:
            self._raise("AssertionError", node, scope)

    def _raise(self, name: str, node: ast.stmt, scope: RunScope, above: tuple[str, ...] = ()) -> None:
        """Raise what somebody catches or a test decides; else keep the first, and go on behind it."""
        self.note_raised(node)
        is_open = len(self.tests) > self.tests_outside or bool(scope.results)
        if is_open or self.is_tried() or name == "StopIteration":
            raise Raised(name, node, above)
        self.raised = self.raised or Raised(name, node, above)

    def _run_break(self, node: ast.Break, scope: RunScope) -> None:
        raise LoopLeft

    def _run_continue(self, node: ast.Continue, scope: RunScope) -> None:
        raise TurnEnded

    def _run_declared(self, node: ast.Global | ast.Nonlocal, scope: RunScope) -> None:
        for name in node.names:
            holder = (
                scope.module if isinstance(node, ast.Global) else scope.outer and scope.outer.holder(name)
            )
            scope.declared[name] = holder or scope.module

    def _run_delete(self, node: ast.Delete, scope: RunScope) -> None:
        for each in node.targets:
            if isinstance(each, ast.Name):
                scope.variables.pop(each.id, None)
            elif isinstance(each, ast.Subscript):
                owner, key = self.evaluate(each.value, scope), self.evaluate(each.slice, scope)
                if isinstance(owner, dict) and is_known(key):
                    owner.pop(key, None)

    def _run_if(self, node: ast.If, scope: RunScope) -> None:
        value = self.evaluate(node.test, scope)
        truth = self.truth(value)
        self.keep_truth(node.test, truth)
        if truth is not None:
            self.run(node.body if truth else node.orelse, scope)
            return
        ways = [functools.partial(self.run, each, scope) for each in (node.body, node.orelse)]
        before = self.period
        self.period = max(before, value.period if isinstance(value, Symbol) else 0)
        if not self._run_both(node.test, ways, scope):
            self.period = before

    def _run_both(self, test: ast.AST, ways: Sequence[Callable[[], None]], scope: RunScope) -> bool:
        """Run both ways of a test that nobody can tell; one that leaves is gone beside the other. Whether one
        does."""
        before = dict(scope.variables)
        ends: list[Exception] = []
        after: list[dict[str, Any]] = []
        for way in ways:
            scope.variables = dict(before) if not scope.is_class else scope.variables
            self.tests.append(test)
            try:
                way()
                after.append(scope.variables)
            except _TERMINATING as end:
                ends.append(end)
            finally:
                self.tests.pop()
        if not after:
            returned = [end for end in ends if isinstance(end, FunctionLeft)]
            if len(returned) == len(ends):
                raise FunctionLeft(joined(returned[0].value, returned[-1].value))
            raise (returned or ends)[0]
        scope.results += [end.value for end in ends if isinstance(end, FunctionLeft)]
        if not scope.is_class:
            scope.variables = after[0] if len(after) == 1 else _joined_variables(*after)
        return bool(ends)

    def _run_for(self, node: ast.For | ast.AsyncFor, scope: RunScope) -> None:
        over = self.evaluate(node.iter, scope)
        counted = isinstance(over, range) and len(over) > _FEW_TURNS
        items = [Symbol()] if counted else self.items_of(over, node.iter)
        is_open = counted or not self.is_countable(over)
        lists = _lists_in(scope) if is_open else []
        if is_open:
            self._widen(node.body, scope)
        before, turns = self.period, self.turns
        for each in items[:_MOST_TURNS]:
            self.turns = len(over) if isinstance(over, range) else 0
            self.assign(node.target, each, scope)
            try:
                self.run(node.body, scope)
            except TurnEnded:
                continue
            except LoopLeft:
                return
            finally:
                self.period, self.turns = before, turns
                self.grown |= {id(each): each for each, length in lists if len(each) > length}
        self.run(node.orelse, scope)

    def _counted_by_methods(self, kind: Class) -> frozenset[str]:
        """The attributes that the methods of a class count up: `self.seen += 1`."""
        if kind not in self._counted:
            inside = (each for one in kind.line() for each in walk(one.node))
            targets = (each.target for each in inside if isinstance(each, ast.AugAssign))
            self._counted[kind] = frozenset(each.attr for each in targets if isinstance(each, ast.Attribute))
        return self._counted[kind]

    def _run_while(self, node: ast.While, scope: RunScope) -> None:
        if self.truth(self.evaluate(node.test, scope)) is False:
            self.run(node.orelse, scope)
            return
        if _goes_through_list(node.test) and self._run_through(node, scope):
            return
        self._widen(node.body, scope)
        before, turns = self.period, self.turns
        self.turns = 0
        try:
            self.run(node.body, scope)
        except (TurnEnded, LoopLeft):
            return
        finally:
            self.period, self.turns = before, turns

    def _run_through(self, node: ast.While, scope: RunScope) -> bool:
        """Run each turn of a loop over a list's indices as far as its test is known; whether that was to its
        end."""
        for _ in range(_MOST_TURNS):
            goes_on = self.truth(self.evaluate(node.test, scope))
            if goes_on is None:
                return False
            if not goes_on:
                self.run(node.orelse, scope)
                return True
            try:
                self.run(node.body, scope)
            except TurnEnded:
                continue
            except LoopLeft:
                return True
        return False

    def _widen(self, body: list[ast.stmt], scope: RunScope) -> None:
        """Forget the counters of a loop, of which one turn stands for all; also those that the methods count
        of the object whose method it stands in."""
        owner = scope.variables.get("*self")
        if isinstance(owner, Object):
            for name in self._counted_by_methods(owner.kind):
                if isinstance(owner.attributes.get(name), int | float):
                    owner.attributes[name] = Symbol()
        counters = self._counters.get(body[0])
        if counters is None:
            inside = (inner for statement in body for inner in walk(statement))
            counters = self._counters[body[0]] = [each for each in inside if isinstance(each, ast.AugAssign)]
        for each in counters:
            target = each.target
            holder = scope.holder(target.id) if isinstance(target, ast.Name) else None
            if (
                isinstance(target, ast.Name)
                and holder
                and isinstance(holder.variables[target.id], int | float)
            ):
                holder.variables[target.id] = Symbol()
            elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                found = scope.holder(target.value.id)
                owner = None if found is None else found.variables[target.value.id]
                if isinstance(owner, Object) and isinstance(owner.attributes.get(target.attr), int | float):
                    owner.attributes[target.attr] = Symbol()

    def _run_try(self, node: ast.Try, scope: RunScope) -> None:
        try:
            self.tries += 1
            self.catching.append(node)
            try:
                self.run(node.body, scope)
            finally:
                self.tries -= 1
                self.catching.pop()
            self.run(node.orelse, scope)
        except (Raised, ProcessEnded) as error:
            handler = next((each for each in node.handlers if _handles(each, error)), None)
            if handler is None:
                raise
            if handler.name:
                self.bind_name(scope, handler.name, Symbol())
            self.run(handler.body, scope)
        finally:
            self.run(node.finalbody, scope)

    def is_tried(self) -> bool:
        """Whether a `try` is around this place after which the program goes on, whatever is raised."""
        tries = self.tries - sum(not any(map(_goes_on_after, one.handlers)) for one in self.catching)
        return tries > 0 or any(_is_guarded(each.node) for each in self.active)

    @contextmanager
    def in_own_process(self) -> Iterator[None]:
        """Run what no `try` of the process that starts it can catch."""
        tries, catching = self.tries, self.catching
        self.tries, self.catching = 0, []
        try:
            yield
        finally:
            self.tries, self.catching = tries, catching

    def is_caught(self, name: str) -> bool:
        """Whether the innermost `try` catches an exception of this name, and the program goes on after it."""
        handlers = self.catching[-1].handlers if self.catching else []
        handler = next((each for each in handlers if _handles(each, Raised(name))), None)
        return handler is not None and not _ends_all(handler.body[-1])

    def _run_with(self, node: ast.With | ast.AsyncWith, scope: RunScope) -> None:
        self._run_within(list(node.items), node, scope)

    def _run_within(self, items: list[ast.withitem], node: ast.With | ast.AsyncWith, scope: RunScope) -> None:
        if not items:
            self.run(node.body, scope)
            return
        first, *rest = items
        value = self.evaluate(first.context_expr, scope)

        def body(inside: object) -> None:
            if first.optional_vars is not None:
                self.assign(first.optional_vars, inside, scope)
            self._run_within(rest, node, scope)

        if isinstance(value, Suspended):
            self.enter(value, body)
        elif isinstance(value, Object):
            found = self.call_method(value, "__enter__", [], first.context_expr)
            try:
                body(value if found is NotImplemented else found)
            finally:
                self.call_method(value, "__exit__", [None, None, None], first.context_expr)
        elif isinstance(value, Symbol) and value.name == "contextlib.suppress()":
            self.tries += 1
            try:
                with suppress(Raised):
                    body(None)
            finally:
                self.tries -= 1
        else:  # What a generator yields, of a context manager.
            body((value[0] if value else None) if isinstance(value, list) else value)

    def enter(self, given: Suspended, body: Callable[[object], None]) -> None:
        """Run a context manager, and what is in it where it yields."""
        ends: list[Exception] = []
        entered: list[object] = []

        def inner(inside: object) -> None:
            entered.append(inside)
            try:
                body(inside)
            except (FunctionLeft, LoopLeft, TurnEnded) as end:
                ends.append(end)

        self.run_context(given, inner)
        if not entered:
            inner(Symbol())
        if ends:
            raise ends[0]

    def _run_match(self, node: ast.Match, scope: RunScope) -> None:
        self._run_cases(node, node.cases, self.evaluate(node.subject, scope), scope)

    def _run_cases(self, node: ast.Match, cases: list[ast.match_case], value: Any, scope: RunScope) -> None:
        for number, case in enumerate(cases):
            truth = self._matches(case.pattern, value, scope)
            if truth is not False and case.guard is not None:
                guarded = self.truth(self.evaluate(case.guard, scope))
                truth = guarded if truth or guarded is False else None
            if truth:
                self.run(case.body, scope)
            elif truth is None:
                others = functools.partial(self._run_cases, node, cases[number + 1 :], value, scope)
                self._run_both(node.subject, [functools.partial(self.run, case.body, scope), others], scope)
            if truth is not False:
                return

    def _matches(self, pattern: ast.pattern, value: Any, scope: RunScope) -> bool | None:
        """Whether a value is as a pattern says, which gives its names to what they stand for."""
        match pattern:
            case ast.MatchValue():
                return self.compare(ast.Eq(), value, self.evaluate(pattern.value, scope))
            case ast.MatchSingleton():
                return self.compare(ast.Is(), value, pattern.value)
            case ast.MatchOr():
                found = [self._matches(each, value, scope) for each in pattern.patterns]
                return True if True in found else None if None in found else False
            case ast.MatchAs():
                truth = True if pattern.pattern is None else self._matches(pattern.pattern, value, scope)
                if truth is not False and pattern.name:
                    self.bind_name(scope, pattern.name, value)
                return truth
            case ast.MatchStar():
                if pattern.name:
                    self.bind_name(scope, pattern.name, value)
                return True
            case ast.MatchSequence():
                return self._matches_items(pattern.patterns, value, scope)
            case ast.MatchMapping() if isinstance(value, dict):
                keys = [self.evaluate(each, scope) for each in pattern.keys]
                if pattern.rest:
                    rest = {key: each for key, each in value.items() if key not in keys}
                    self.bind_name(scope, pattern.rest, rest)
                pairs = zip(keys, pattern.patterns, strict=True)
                return _all(key in value and self._matches(each, value[key], scope) for key, each in pairs)
            case ast.MatchClass():
                return self._matches_class(pattern, value, scope)
        return self._is_open(pattern, value, scope)

    def _matches_items(self, patterns: list[ast.pattern], value: Any, scope: RunScope) -> bool | None:
        star = next((place for place, each in enumerate(patterns) if isinstance(each, ast.MatchStar)), None)
        if not isinstance(value, list | tuple):
            return _all([self._is_open(each, value, scope) for each in patterns] or [None])
        rest = len(value) - len(patterns)
        if (rest != 0 and star is None) or rest < -1:
            return False
        parts = list(value)
        if star is not None:
            parts[star : star + rest + 1] = [parts[star : star + rest + 1]]
        return _all(self._matches(each, part, scope) for each, part in zip(patterns, parts, strict=True))

    def _matches_class(self, pattern: ast.MatchClass, value: Any, scope: RunScope) -> bool | None:
        kind = self.evaluate(pattern.cls, scope)
        is_one = self.call(self.python_name("isinstance", scope), [value, kind], {}, self.at)
        if not isinstance(is_one, bool):
            return self._is_open(pattern, value, scope)
        named = kind.find("__match_args__") if isinstance(kind, Class) else None
        names = named if isinstance(named, tuple) else record_fields(kind) if isinstance(kind, Class) else ()
        if not is_one or (isinstance(kind, Class) and len(names) < len(pattern.patterns)):
            return False
        parts = [self.attribute(value, each, pattern) for each in names] if names else [value]
        given = [*zip(pattern.patterns, parts, strict=False)]
        keywords = zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True)
        given += [(each, self.attribute(value, name, pattern)) for name, each in keywords]
        return _all(self._matches(each, part, scope) for each, part in given)

    def _is_open(self, pattern: ast.pattern, value: object, scope: RunScope) -> bool | None:
        """Whether nobody can tell if a value is as a pattern says, whose names are then open."""
        if not isinstance(value, Symbol):
            return False
        for each in walk(pattern):
            name = getattr(each, "name", None) or getattr(each, "rest", None)
            if isinstance(name, str):
                self.bind_name(scope, name, Symbol())
        return None


def _all(truths: Iterable[bool | None]) -> bool | None:
    """Whether all of several tests hold, which are asked one after the other."""
    found: bool | None = True
    for each in truths:
        if each is False:
            return False
        found = None if each is None else found
    return found


def record_fields(kind: Class) -> list[str]:
    """The names of the annotated fields of a data class, those of its bases first."""
    names: dict[str, None] = {}
    for each in reversed(kind.line()):
        for statement in each.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                names[statement.target.id] = None
    return list(names)


_WAYS: dict[type[ast.stmt], Callable[[Any, Any, RunScope], None]] = {
    ast.Expr: Statements._run_expression,
    ast.Assign: Statements._run_assign,
    ast.AnnAssign: Statements._run_annotated,
    ast.AugAssign: Statements._run_augmented,
    ast.Return: Statements._run_return,
    ast.Raise: Statements._run_raise,
    ast.Assert: Statements._run_assert,
    ast.Break: Statements._run_break,
    ast.Continue: Statements._run_continue,
    ast.Global: Statements._run_declared,
    ast.Nonlocal: Statements._run_declared,
    ast.Delete: Statements._run_delete,
    ast.If: Statements._run_if,
    ast.For: Statements._run_for,
    ast.AsyncFor: Statements._run_for,
    ast.While: Statements._run_while,
    ast.Try: Statements._run_try,
    ast.With: Statements._run_with,
    ast.AsyncWith: Statements._run_with,
    ast.Match: Statements._run_match,
}


_GUARDING = re.compile(r"(?<![a-zA-Z])[Tt]ry(?![a-z])|[Ss]afe|[Ss]uppress|[Cc]atch|[Ii]gnore|no_?raise")
"""What decorators are called that catch what a function raises: `@TryExcept()`."""


def _is_guarded(function: ast.AST) -> bool:
    made = (
        each.func if isinstance(each, ast.Call) else each for each in getattr(function, "decorator_list", ())
    )
    return any(_GUARDING.search(last_name(each) or "") for each in made)


def _joined_variables(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    found = dict(other)
    for name, value in one.items():
        found[name] = joined(value, other[name]) if name in other else value
    return found


def _exception_name(node: ast.expr | None, value: object) -> str:
    if isinstance(value, Object):
        return value.kind.node.name
    name = getattr(value, "name", "") or ""
    if isinstance(value, Class):
        name = value.node.name
    return name.removesuffix("()").rpartition(".")[2] or "Exception"


def _names_above(value: object) -> tuple[str, ...]:
    """The last names of the classes that the class of an exception of the program is derived from."""
    kind = value.kind if isinstance(value, Object) else value
    if not isinstance(kind, Class):
        return ()
    bases = [getattr(base, "name", "") for each in kind.line() for base in each.bases]
    return (*(each.node.name for each in kind.line()), *(each.rpartition(".")[2] for each in bases))


def _goes_through_list(test: ast.expr) -> bool:
    """Whether a loop goes on while there is another item: `while index < len(words):`."""
    compared = test.comparators[0] if isinstance(test, ast.Compare) else None
    return (
        isinstance(compared, ast.Call) and isinstance(compared.func, ast.Name) and compared.func.id == "len"
    )


def _lists_in(scope: RunScope) -> list[tuple[list[Any], int]]:
    """The lists of a function's variables and of its object, with how many items they have."""
    owner = scope.variables.get("*self")
    held = [*scope.variables.values(), *(owner.attributes.values() if isinstance(owner, Object) else ())]
    return [(each, len(each)) for each in held if type(each) is list]


def _asks_for_remainder(test: ast.expr) -> bool:
    """Whether a test asks what is left of a division."""
    sides = (test.left, *test.comparators) if isinstance(test, ast.Compare) else ()
    return any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod) for each in sides)


def _goes_on_after(handler: ast.ExceptHandler) -> bool:
    """Whether a program goes on after a handler, and it is one of what a program raises."""
    by_user = isinstance(handler.type, ast.Name) and handler.type.id == "KeyboardInterrupt"
    return not by_user and not _ends_all(handler.body[-1])


def _ends_all(statement: ast.stmt) -> bool:
    """Whether a statement raises again, or ends the process."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    is_exit = isinstance(call, ast.Call) and last_name(call.func) in EXIT_NAMES
    return is_exit or isinstance(statement, ast.Raise)


def _handles(handler: ast.ExceptHandler, error: Raised | ProcessEnded) -> bool:
    """Whether a handler catches an exception, by the names of both."""
    if handler.type is None:
        return True
    listed = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {getattr(each, "id", getattr(each, "attr", "")) for each in listed}
    if isinstance(error, ProcessEnded):
        return not names.isdisjoint({"SystemExit", "BaseException"})
    own = (error.name, *error.above)
    if not names.isdisjoint({*own, "Exception", "BaseException"}):
        return True
    caught = tuple(_EXCEPTIONS[each] for each in names & set(_EXCEPTIONS))
    return any(issubclass(_EXCEPTIONS[each], caught) for each in own if each in _EXCEPTIONS)


_EXCEPTIONS: dict[str, type[BaseException]] = {
    name: each
    for name, each in vars(builtins).items()
    if isinstance(each, type) and issubclass(each, BaseException)
}
