"""Which tests are true on some ranks and false on others, in a distributed run.

Such a run has two ranks at least. `rank == 0`, `rank in (-1, 0)`, `is_main()`, `saver is not None` where
rank 0 alone has a saver: these are guards. Not guards are what all ranks answer alike: `rank != -1`,
`world_size > 1`, `is_initialized()`, `local_rank is None`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from launcher.frozen import frozen
from launcher.program.dataflow import argument_of, origins
from launcher.program.index import (
    Binding,
    BindingKind,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    file_of,
    is_property,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program
from launcher.program.ranks.truths import (
    Guard,
    Truth,
    choose_truth,
    compare_values,
    conjunction,
    disjunction,
    negate,
)
from launcher.program.values import (
    LIBRARY_TABLES,
    MAIN_PROCESS_DECORATORS,
    MAIN_PROCESS_TESTS,
    RANK_VARIABLES,
    Constant,
    Defined,
    Environment,
    External,
    Instance,
    Made,
    RankKind,
    RankValue,
    Value,
    WorldSize,
    alternatives,
)

_BLOCKS = ("body", "orelse", "finalbody")


def branches_leaving_before(outer: ast.AST, inner: ast.AST) -> Iterator[ast.If]:
    """The tests past which a statement comes in its block: `if rank != 0: return`."""
    for name in _BLOCKS:
        block = getattr(outer, name, None)
        if isinstance(block, list) and inner in block:
            for before in block[: block.index(inner)]:
                if isinstance(before, ast.If) and ends_block(before.body) and not before.orelse:
                    yield before


def branches_left_in_both_arms(outer: ast.AST, inner: ast.AST) -> Iterator[tuple[list[ast.If], list[ast.If]]]:
    """The branches behind which a statement comes, where tests in either arm let some leave: those tests."""
    for name in _BLOCKS:
        block = getattr(outer, name, None)
        for before in block[: block.index(inner)] if isinstance(block, list) and inner in block else ():
            if isinstance(before, ast.If) and before.orelse:
                body, orelse = (
                    [
                        each
                        for each in arm
                        if isinstance(each, ast.If) and ends_block(each.body) and not each.orelse
                    ]
                    for arm in (before.body, before.orelse)
                )
                if body and orelse:
                    yield body, orelse


def ends_block(block: list[ast.stmt]) -> bool:
    """Whether a block surely ends its function, its loop's round or the process."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break):
        return True
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("sys.exit", "exit", "quit", "os._exit")
    return False


def is_in_body(branch: ast.If | ast.IfExp, inner: ast.AST) -> bool:
    """Whether a part of a branch is what runs where its test is true."""
    body = branch.body
    return any(each is inner for each in body) if isinstance(body, list) else body is inner


def _entries_of(
    table: ast.Dict | ast.List | ast.Tuple, evaluated: Callable[[ast.expr], Value]
) -> dict[object, ast.expr] | None:
    """The entries of a table that is written out, by literal keys or places; None where one has another."""
    if not isinstance(table, ast.Dict):
        return (
            None
            if any(isinstance(each, ast.Starred) for each in table.elts)
            else {**dict(enumerate(table.elts))}
        )
    keys = [None if each is None else evaluated(each) for each in table.keys]
    literals = [each.value for each in keys if isinstance(each, Constant)]
    return dict(zip(literals, table.values, strict=True)) if len(literals) == len(keys) else None


_GROWING = frozenset({"append", "add", "insert", "extend"})
_DEEPEST_TEST = 25
"""So many tests within tests; what is nested deeper is unknown."""


class Guards:
    """The tests of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program
        self.evaluation = program.evaluation
        self._known: dict[ast.expr, Truth] = {}
        self._open: set[ast.AST] = set()
        self._uses_of_decorated: dict[ast.AST, list[ast.expr]] = {}
        self.presence = NamePresence(self)

    def truth(self, test: ast.expr, environment: Environment | None = None) -> Truth:
        """What a test is in a distributed run: True or False on every rank, a Guard, or None: unknown."""
        if environment:
            return self._truth(test, environment)
        if test not in self._known:
            self._known[test] = None  # Where it depends on itself.
            self._known[test] = self._truth(test, None)
        return self._known[test]

    def opposite(self, test: ast.expr, environment: Environment | None = None) -> Truth:
        """The truth of `not`, also of a test that other ranks may pass: of `rank != 0 or step % 100`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            found = self.truth(test.operand, environment)
        elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
            found = conjunction([self.opposite(each, environment) for each in test.values])
        else:
            return negate(self.truth(test, environment))
        return replace(found, test=test) if isinstance(found, Guard) else found

    def guard(self, test: ast.expr) -> Guard | None:
        """The ranks on which a test is true, where it is false on others."""
        truth = self.truth(test)
        return truth if isinstance(truth, Guard) else None

    def decorator_guard(self, function: FunctionNode) -> Guard | None:
        """The ranks on which alone a function runs, by a decorator of a library or of the program."""
        for decorator in [] if isinstance(function, ast.Lambda) else function.decorator_list:
            value = self.evaluation.value(decorator)
            if isinstance(value, External | Instance) and value.name in MAIN_PROCESS_DECORATORS:
                kind, rank = MAIN_PROCESS_DECORATORS[value.name]
                return Guard(kind, frozenset({rank}), test=decorator)
            if isinstance(value, Defined):
                found = self._guard_of_wrapper(value.node)
                if found is not None:
                    return replace(found, test=decorator)
        return None

    def _guard_of_wrapper(self, decorator: ast.AST) -> Guard | None:
        """The guard under which alone what a decorator makes calls the decorated function, or is it."""
        if decorator not in self._uses_of_decorated:
            self._uses_of_decorated[decorator] = [*_uses_of_decorated(decorator)]
        guards = [self.guard_around(each) for each in self._uses_of_decorated[decorator]]
        first = guards[0] if guards else None
        alike = all(each is not None and first is not None and each.same_ranks(first) for each in guards)
        return first if alike else None

    def lets_all_call(self, decorator: ast.expr) -> bool:
        """Whether what a decorator of the program makes always calls the decorated function."""
        value = self.evaluation.value(decorator)
        uses = [*_uses_of_decorated(value.node)] if isinstance(value, Defined) else []
        if not isinstance(value, Defined) or not uses:
            return False
        around = set(ancestors(uses[0]))
        asking = (each for each in walk(value.node) if isinstance(each, ast.If | ast.IfExp | ast.Match))
        return not any(
            each in around
            or (each.lineno < uses[0].lineno and any(isinstance(one, _PARTING) for one in walk(each)))
            for each in asking
        )

    def guard_around(self, node: ast.AST) -> Guard | None:
        """The innermost guard of its function under which a node stands: by `if`, `a if ... else b`, `and`,
        or behind one that leaves."""
        inner = node
        for outer in ancestors(node):
            leaving = [self.opposite(each.test) for each in branches_leaving_before(outer, inner)]
            before = getattr(outer, "values", [])
            if isinstance(outer, ast.BoolOp):
                judged = self.truth if isinstance(outer.op, ast.And) else self.opposite
                leaving = [judged(each) for each in before[: before.index(inner)]]
            guards = [each for each in leaving if isinstance(each, Guard)]
            if guards:
                return guards[-1]
            if isinstance(outer, FunctionNode | ast.ClassDef):
                return None
            if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
                truth = self.truth(outer.test)
                if isinstance(truth, Guard):
                    return truth if is_in_body(outer, inner) else truth.opposite()
            inner = outer
        return None

    def guard_of_choice(self, use: ast.expr, answers: Callable[[ast.expr], bool]) -> Guard | None:
        """The ranks on which alone a function, or an object of a class, goes into a list or is chosen."""
        made = parent_of(use)
        is_class = isinstance(getattr(self.evaluation.value(use), "node", None), ast.ClassDef)
        inner: ast.AST = made if is_class and isinstance(made, ast.Call) and made.func is use else use
        outer = parent_of(inner)
        if (found := self._guard_of_entry(inner, answers)) is not None:
            return found
        while isinstance(outer, ast.List | ast.Tuple):
            inner, outer = outer, parent_of(outer)
        if isinstance(outer, ast.IfExp) and inner is not outer.test:
            other = outer.orelse if inner is outer.body else outer.body
            nothing = isinstance(other, ast.Constant) or not getattr(other, "elts", True)
            guard = self.guard(outer.test) if nothing or not answers(other) else None
            if inner is outer.body or guard is None:
                return guard
            return guard.opposite() if guard.exact else None
        if (
            not isinstance(outer, ast.Call)
            or inner not in outer.args
            or last_name(outer.func) not in _GROWING
        ):
            return None
        statement = parent_of(outer)
        branch = None if statement is None else parent_of(statement)
        only = isinstance(branch, ast.If) and statement in branch.body and not branch.orelse
        return self.guard(branch.test) if only and isinstance(branch, ast.If) else None

    def _guard_of_entry(self, entry: ast.AST, answers: Callable[[ast.expr], bool]) -> Guard | None:
        """The ranks that take an entry of a table or list by their rank, or what is taken in place of one: of
        `{0: publish}.get(rank, wait)`. None where another entry may answer."""
        outer = parent_of(entry)
        if isinstance(outer, ast.Call) and entry in outer.args[1:2] and last_name(outer.func) == "get":
            asked = outer.func.value if isinstance(outer.func, ast.Attribute) else outer
            made = origins(self.program, asked)
            table: ast.AST | None = made[0] if len(made) == 1 else None
            reads = [outer.args[0]]
        else:
            table = outer
            reads = [*self._keys_read(table)] if isinstance(table, ast.Dict | ast.List | ast.Tuple) else []
        if not isinstance(table, ast.Dict | ast.List | ast.Tuple) or not reads:
            return None
        entries = _entries_of(table, self.evaluation.value)
        if entries is None or any(answers(each) for each in entries.values() if each is not entry):
            return None
        own = [key for key, value in entries.items() if value is entry]
        guards = [self._guard_of_key(each, own[0] if own else None, [*entries]) for each in reads]
        first = guards[0]
        alike = all(each is not None and first is not None and each.same_ranks(first) for each in guards)
        return first if alike else None

    def _keys_read(self, table: ast.expr) -> Iterator[ast.expr]:
        """What a table is asked for, wherever it has its name; nothing where it is used in another way."""
        target = getattr(parent_of(table), "targets", [None])[0]
        uses: list[ast.expr] = [table]
        if isinstance(target, ast.Name | ast.Attribute):
            name = last_name(target) or ""
            named = (use for each in self.program.mentioning(name) for use in each.names.get(name, ()))
            held = (use for each in self.program.mentioning(name) for use in each.attributes.get(name, ()))
            read = (each for each in (*named, *held) if isinstance(getattr(each, "ctx", None), ast.Load))
            uses = [each for each in read if table in origins(self.program, each)]
        keys: list[ast.expr] = []
        for use in uses:
            outer = parent_of(use)
            call = parent_of(outer) if isinstance(outer, ast.Attribute) else None
            if isinstance(outer, ast.Subscript) and outer.value is use:
                keys.append(outer.slice)
            elif isinstance(call, ast.Call) and last_name(call.func) == "get" and call.args:
                keys.append(call.args[0])
            else:
                return
        yield from keys

    def _guard_of_key(self, read: ast.expr, key: object, keys: Sequence[object]) -> Guard | None:
        """The ranks for which a table is asked for a key; None as the key is for what has no entry."""
        value = self.evaluation.value(read)
        if isinstance(value, RankValue) and value.kind is not RankKind.DERIVED:
            numbers = [each for each in keys if isinstance(each, int)]
            if key is None:
                return Guard(value.kind, frozenset(numbers), outside=True, test=read)
            return Guard(value.kind, frozenset({key}), test=read) if isinstance(key, int) else None
        guard = self.guard(read)
        if guard is None or not isinstance(key, bool | int):
            return None
        return guard if key else guard.opposite() if guard.exact else None

    def _truth(self, test: ast.expr, environment: Environment | None) -> Truth:
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            found = negate(self.truth(test.operand, environment))
            return replace(found, test=test) if isinstance(found, Guard) else found
        if isinstance(test, ast.BoolOp):
            truths = [self.truth(each, environment) for each in test.values]
            found = conjunction(truths) if isinstance(test.op, ast.And) else disjunction(truths)
            return replace(found, test=test) if isinstance(found, Guard) else found
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._comparison(test, environment)
        if isinstance(test, ast.NamedExpr):
            return self.truth(test.value, environment)
        if isinstance(test, ast.IfExp):
            return self._truth_of_choice(test, environment)
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.Call):
            return self._call(test, environment)
        if isinstance(test, ast.Name | ast.Attribute):
            return self._name(test, environment)
        found = self._truth_of_value(self.evaluation.value(test, environment), test)
        return self._truth_of_origins(test) if found is None and isinstance(test, ast.Subscript) else found

    def _truth_of_origins(self, test: ast.expr) -> Truth:
        """The truth of what made a name or an item: of `main` after `rank, main = setup()`, of `env["main"]`.

        Literals beside a guard are for runs that are not distributed.
        """
        made = origins(self.program, test)
        truths = [None if each is None or each is test else self.truth(each) for each in made]
        guards = [each for each in truths if isinstance(each, Guard)]
        if None in truths or not guards or not all(each.same_ranks(guards[0]) for each in guards):
            return None
        return replace(guards[0], test=test)

    def _truth_of_value(self, value: Value, test: ast.expr) -> Truth:
        if isinstance(value, RankValue):
            return Guard(value.kind, frozenset({0}), outside=True, test=test)
        if isinstance(value, WorldSize):
            return True
        if isinstance(value, Constant):
            return bool(value.value)
        if isinstance(value, External) and value.name in MAIN_PROCESS_TESTS:
            kind, rank = MAIN_PROCESS_TESTS[value.name]
            return Guard(kind, frozenset({rank}), test=test)
        return None

    def _comparison(self, test: ast.Compare, environment: Environment | None) -> Truth:
        left, (right,), (operator,) = test.left, test.comparators, test.ops
        one, other = self.evaluation.value(left, environment), self.evaluation.value(right, environment)
        if isinstance(operator, ast.In | ast.NotIn) and other == External("os.environ"):
            known = isinstance(one, Constant) and one.value in RANK_VARIABLES
            return (isinstance(operator, ast.In)) if known else None
        found = compare_values(test, one, other, self.evaluation, environment)
        if (
            found is None
            and other == Constant(None)
            and isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq)
        ):
            present = self.presence.truth(left)
            found = present if isinstance(operator, ast.IsNot | ast.NotEq) else negate(present)
            found = replace(found, test=test) if isinstance(found, Guard) else found
        equality = isinstance(operator, ast.Is | ast.Eq | ast.IsNot | ast.NotEq)
        if found is None and equality:
            chosen = self.presence.truth(left, lambda value: self._is_same(value, right))
            found = chosen if isinstance(operator, ast.Is | ast.Eq) else negate(chosen)
            found = replace(found, test=test) if isinstance(found, Guard) else None
        if found is None and equality and other in (Constant(True), Constant(False)):
            same = isinstance(operator, ast.Is | ast.Eq) == (other == Constant(True))
            truth = self.truth(left, environment)
            found = truth if same else negate(truth)
        if found is None and isinstance(operator, ast.Gt | ast.GtE):
            # A counter that some ranks alone count: `if rank == 0: misses += 1`.
            found = self.presence.truth(left, self._is_not_counted)
            found = replace(found, test=test) if isinstance(found, Guard) else None
        return found

    def _is_not_counted(self, value: ast.expr) -> Truth:
        return False if self.evaluation.value(value) == Constant(0) else None

    def _is_same(self, one: ast.expr, other: ast.expr) -> Truth:
        """Whether two literals, or two members of an enumeration, are the same."""
        left, right = self.evaluation.value(one), self.evaluation.value(other)
        if isinstance(one, ast.Attribute) and isinstance(other, ast.Attribute):
            owners = self.evaluation.value(one.value), self.evaluation.value(other.value)
            if owners[0] == owners[1] and isinstance(owners[0], Defined):
                return one.attr == other.attr
        return left == right if isinstance(left, Constant) and isinstance(right, Constant) else None

    def _truth_of_choice(self, test: ast.IfExp, environment: Environment | None) -> Truth:
        condition = self.truth(test.test, environment)
        body, other = self.truth(test.body, environment), self.truth(test.orelse, environment)
        return choose_truth(condition, body, other)

    def _call(self, test: ast.Call, environment: Environment | None) -> Truth:
        called = self.evaluation.value(test.func, environment)
        if isinstance(called, External):
            if called.name in LIBRARY_TABLES["true_when_distributed"]:
                return True
            if called.name == "bool" and test.args:
                return self.truth(test.args[0], environment)
            if called.name in ("any", "all") and test.args:
                return self._truth_of_elements(test.args[0], environment)
            if called.name in MAIN_PROCESS_TESTS:
                return self._test_of_library(called, test)
        if isinstance(called, Defined) and not isinstance(called.node, ast.ClassDef):
            alone = self._told_by_some(called.node)
            if alone is not None:
                return replace(alone, test=test)
            inside = self.evaluation.calls.environment_of(called, test, environment)
            found = self._returned_by(called.node, inside)
            return replace(found, test=test) if isinstance(found, Guard) else found
        return self._truth_of_value(self.evaluation.value(test, environment), test)

    def _told_by_some(self, function: FunctionNode) -> Guard | None:
        """The ranks on which alone a decorated function says something, and may say yes: elsewhere it gives
        None."""
        guard = self.decorator_guard(function)
        given = [each.value for each in file_of(function).returns_of.get(function, ())] if guard else []
        says = any(each is not None and not isinstance(each, ast.Constant) for each in given)
        return replace(guard, exact=False) if guard is not None and says else None

    def _truth_of_elements(self, listed: ast.expr, environment: Environment | None) -> Truth:
        """Whether anything in a list is true, where some ranks alone may say so: of `any(verdicts)`, and
        `verdicts = [hook.end() for hook in hooks]`."""
        made = origins(self.program, listed)
        only = made[0] if len(made) == 1 else None
        if not isinstance(only, ast.ListComp | ast.GeneratorExp):
            return None
        truth = self.truth(only.elt, environment)
        if isinstance(truth, Guard) or not isinstance(only.elt, ast.Call):
            return truth if isinstance(truth, Guard) else None
        values = alternatives(self.evaluation.value(only.elt.func, environment))
        functions = [each.node for each in values if isinstance(each, Defined)]
        if not functions and isinstance(only.elt.func, ast.Attribute):
            name = only.elt.func.attr
            functions = [one for file in self.program.files for one in file.functions if one.name == name]
        told = [self._told_by_some(each) for each in functions if isinstance(each, FunctionNode)]
        guards = [each for each in told if each is not None]
        others = [each for each, guard in zip(functions, told, strict=False) if guard is None]
        silent = not any(file_of(each).returns_of.get(each) for each in others)
        alike = all(each.same_ranks(guards[0]) for each in guards)
        return guards[0] if guards and silent and alike else None

    def _test_of_library(self, called: External, test: ast.Call) -> Truth:
        """The truth of a library's test of one rank, which may ask for that of each host or of all."""
        keyword = LIBRARY_TABLES["one_of_all_by_false"].get(called.name)
        given = argument_of(test, keyword, 0) if keyword else None
        if given is None:
            return self._truth_of_value(called, test)
        of_host = self.evaluation.value(given)
        if not isinstance(of_host, Constant):
            return None
        return Guard(RankKind.LOCAL if of_host.value else RankKind.GLOBAL, frozenset({0}), test=test)

    def _returned_by(self, function: FunctionNode, environment: Environment | None) -> Truth:
        if function in self._open or len(self._open) > _DEEPEST_TEST:
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
                chosen = choose_truth(condition, one.truth, other.truth)
                return _Returned(True, self._told_beside(condition, one, other) if chosen is None else chosen)
        return _Returned(False, False)

    def _told_beside(self, condition: Truth, one: _Returned, other: _Returned) -> Truth:
        """What `if rank != 0: return False`, and then what nobody knows, gives: yes on rank 0 at most."""
        if isinstance(condition, Guard) and one.truth is False and other.truth is None:
            return replace(condition.opposite(), exact=False)
        if isinstance(condition, Guard) and one.truth is None and other.truth is False:
            return replace(condition, exact=False)
        return None

    def _name(self, test: ast.Name | ast.Attribute, environment: Environment | None) -> Truth:
        value = self.evaluation.value(test, environment)
        found = self._truth_of_value(value, test)
        if found is not None:
            return found
        if isinstance(test, ast.Attribute):
            member = self.evaluation.value(test.value, environment)
            if isinstance(member, Made):
                prop = self._property(member, test.attr)
                if prop is not None:
                    truth = self._returned_by(prop, None)
                    return replace(truth, test=test) if isinstance(truth, Guard) else truth
        found = self.presence.truth(test)
        return self._truth_of_origins(test) if found is None else found

    def _property(self, owner: Made, name: str) -> FunctionNode | None:
        for binding in self.evaluation.attributes.bindings_in_class(owner.definition, name):
            node = binding.node
            if isinstance(node, ast.FunctionDef) and is_property(node):
                return node
        return None


@frozen
class _Returned:
    """How a block ends: whether it returns, with what, or raises."""

    returns: bool
    truth: Truth
    raises: bool = False


_PARTING = (ast.Return, ast.Raise, ast.Call)
"""What may part the ranks under a test: some leave, or wait."""


def _uses_of_decorated(decorator: ast.AST) -> Iterator[ast.expr]:
    """Where what a decorator makes calls what it decorates, or is it: `return function if is_main else skip`.

    A class calls the function from a field that gets it when the class is made.
    """
    constructor = decorator
    if isinstance(decorator, ast.ClassDef):
        methods = {each.name: each for each in decorator.body if isinstance(each, ast.FunctionDef)}
        constructor, decorator = methods.get("__init__", decorator), methods.get("__call__", decorator)
    if not isinstance(constructor, ast.FunctionDef) or not isinstance(decorator, ast.FunctionDef):
        return
    positional = constructor.args.args[constructor is not decorator :]
    known = {positional[0].arg} if positional else set[str]()
    if constructor is not decorator:
        kept = (each for each in walk(constructor) if isinstance(each, ast.Assign))
        known = {ast.unparse(one) for each in kept if last_name(each.value) in known for one in each.targets}
    for node in walk(decorator):
        if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in known:
            holder = parent_of(node)
            outer = parent_of(holder) if isinstance(holder, ast.IfExp) else holder
            if (isinstance(outer, ast.Call) and outer.func in (node, holder)) or isinstance(
                outer, ast.Return
            ):
                yield node


def _has_return(statement: ast.stmt) -> bool:
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return | ast.Raise):
            return True
        if not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef | ast.expr
        ):
            pending.extend(children_of(node))
    return False


# Whether a name is something true, where that is decided by what runs before: `saver is not None`.


_DEEPEST_NAME = 25
"""So many names that depend on one another; what is nested deeper is unknown."""


class NamePresence:
    """The names of one program that are something on some ranks and nothing on others."""

    def __init__(self, guards: Guards) -> None:
        """Nothing is looked at before somebody asks."""
        self.guards = guards
        self._open: set[ast.AST] = set()

    def truth(self, test: ast.expr, judge: Callable[[ast.expr], Truth] | None = None) -> Truth:
        """Whether a name is something true, by all that it may be bound to and where that happens.

        Or whether `judge` says so of what it is bound to.
        """
        if not isinstance(test, ast.Name | ast.Attribute) or test in self._open:
            return None
        bindings = self.guards.evaluation.sources(test)
        if not bindings or len(self._open) > _DEEPEST_NAME:
            return None
        self._open.add(test)
        try:
            found = _truth_of_bindings([each for binding in bindings for each in self._bound(binding, judge)])
        finally:
            self._open.discard(test)
        return replace(found, test=test) if isinstance(found, Guard) else found

    def _bound(self, binding: Binding, judge: Callable[[ast.expr], Truth] | None) -> list[_BoundTruth]:
        """What one binding makes of a name, and under which guard; nothing where no distributed run comes."""
        if binding.kind is BindingKind.PARAMETER:
            return [_BoundTruth(each, True) for each in self._of_every_call(binding.node, judge)]
        under: Truth = True
        inner: ast.AST = binding.node
        for outer in ancestors_in_function(binding.node):
            if isinstance(outer, ast.If):
                condition = self.guards.truth(outer.test)
                condition = condition if is_in_body(outer, inner) else negate(condition)
                if condition is False:
                    return []
                if isinstance(condition, Guard) or (condition is None and under is True):
                    under = condition
            inner = outer
        if not isinstance(under, Guard):
            under = self._calling_ranks(binding.node) or under
        if binding.kind is not BindingKind.ASSIGNED or binding.value is None or binding.item is not None:
            return [_BoundTruth(None, under)]
        return [_BoundTruth(self._assigned(binding.value, judge), under)]

    def _calling_ranks(self, node: ast.AST) -> Guard | None:
        """The ranks that alone call the method that sets an attribute: `if main: stopper.step(loss)`."""
        scope = scope_of(node).function
        function = None if scope is None else scope.node
        if not isinstance(node, ast.Attribute) or not isinstance(function, ast.FunctionDef):
            return None
        if function.name == "__init__":
            return None
        sites = self.guards.evaluation.callers.call_sites(function) or ()
        found = [self.guards.guard_around(each.call) for each in sites]
        first = found[0] if found else self.guards.decorator_guard(function)
        alike = all(each is not None and first is not None and each.same_ranks(first) for each in found)
        return replace(first, exact=False) if first is not None and alike else None

    def _assigned(self, value: ast.expr, judge: Callable[[ast.expr], Truth] | None) -> Truth:
        if isinstance(value, ast.IfExp):
            condition = self.guards.truth(value.test)
            arms = self._assigned(value.body, judge), self._assigned(value.orelse, judge)
            return choose_truth(condition, *arms)
        if judge is not None:
            named = isinstance(value, ast.Name) and not isinstance(
                self.guards.evaluation.value(value), Constant
            )
            return self.truth(value, judge) if named else judge(value)
        truth = self.guards.truth(value)
        # An object is true; a call of what is unknown may give anything.
        named = isinstance(value, ast.Call) and (last_name(value.func) or "")[:1].isupper()
        return True if truth is None and named else truth

    def _of_every_call(self, parameter: ast.AST, judge: Callable[[ast.expr], Truth] | None) -> list[Truth]:
        calls = self.guards.evaluation.callers.call_sites_giving(parameter)
        if calls is None or not isinstance(parameter, ast.arg):
            return [None]
        found: list[Truth] = []
        for call in calls:
            given = call.given(parameter)
            if given is None or judge is None:
                found.append(None if given is None else self.guards.truth(given))
            else:
                found.append(self._assigned(given, judge))
        return found or [None]


@frozen
class _BoundTruth:
    truth: Truth
    under: Truth


def _truth_of_bindings(bound: Sequence[_BoundTruth]) -> Truth:
    """The truth of a name with these bindings."""
    if not bound:
        return None
    if len(bound) == 1 and bound[0].under is True:
        return bound[0].truth
    if any(each.truth is None for each in bound):
        return _set_on_some(bound)
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


def _set_on_some(bound: Sequence[_BoundTruth]) -> Truth:
    """The truth of a flag that some ranks alone may raise: `stop = False`, `if rank == 0: stop = f()`."""
    raising = [each.under for each in bound[1:] if each.truth is not False]
    first = raising[0] if raising and bound[0].truth is False and bound[0].under is True else None
    if not isinstance(first, Guard):
        return None
    alike = all(isinstance(each, Guard) and each.same_ranks(first) for each in raising)
    return replace(first, exact=False) if alike else None
