"""Calls, tests and loops as they run: partial applications with all their arguments, unpacked tables with
their entries, `match` as a chain of tests, `next` in an endless loop as a loop over what it takes from.

All that reads trees afterwards knows one form of each.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TypeVar

from launcher.program.index import WRITTEN_OUT, last_name
from launcher.program.objects.nodes import children_of, walk
from launcher.program.values import with_names_replaced

_IN_CALLS_WRITTEN_OUT = ("partial", "**", ")(")
"""One of these stands in every text that has such a call."""
_MAY_NAME_WHAT_IT_GOES_OVER = re.compile(r"^[ \t]*(\w+) = [^\n]+\n\s*for [^\n]+ in \1:", re.MULTILINE)
_GOES_OVER = frozenset({"chain", "enumerate", "islice", "iter", "range", "tqdm", "track", "trange", "zip"})
"""The last names of what makes something for one loop."""
_MAY_MATCH = re.compile(r"^[ \t]*match\b", re.MULTILINE)
CHANGING = frozenset({"update", "pop", "setdefault", "clear", "popitem"})
_HOLDING_BLOCKS = (ast.Module, ast.stmt, ast.ExceptHandler, ast.match_case)
_Scope = ast.AST
_Node = TypeVar("_Node", bound=ast.AST)
_Definition = tuple[object, str]
"""The function or module, or None for an attribute of `self`, and the name that is bound there."""


def write_out(tree: ast.Module, text: str) -> None:
    """Write out all in the tree of a text that may be told in several forms."""
    if any(each in text for each in _IN_CALLS_WRITTEN_OUT) and _has_calls_to_write_out(tree):
        _write_out_calls(tree)
    if "match" in text and _MAY_MATCH.search(text):
        _write_out_matches(tree)
    if "StopIteration" in text or _MAY_NAME_WHAT_IT_GOES_OVER.search(text):
        _write_out_iterations(tree)


def _has_calls_to_write_out(tree: ast.Module) -> bool:
    """Whether a file makes partial applications, reads what it calls by `getattr`, or unpacks a table that it
    makes: few do, and for all others a look at the calls is enough."""
    unpacked: set[str | None] = set()
    tables: set[str | None] = set()
    for node in walk(tree):
        if isinstance(node, ast.Call):
            func = node.func
            if last_name(func) == "partial" or (
                isinstance(func, ast.Call) and last_name(func.func) in ("getattr", "partial")
            ):
                return True
            for each in node.keywords:
                if each.arg is None:
                    if _makes_table(each.value):
                        return True
                    unpacked.add(last_name(each.value))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and _makes_table(node.value):
            tables.add(last_name(node.targets[0]))
    return not (unpacked & tables) <= {None}


def _makes_table(value: ast.expr) -> bool:
    return isinstance(value, ast.Dict) or (isinstance(value, ast.Call) and last_name(value.func) == "dict")


def _write_out_calls(tree: ast.Module) -> None:
    """Write `make(data)` as `DataLoader(data, 8)` where `make = partial(DataLoader, batch_size=8)`,
    `f(**options)` with what `options` holds, and `getattr(dist, "barrier")()` as `dist.barrier()`, so that
    all that reads calls finds what they are of and what they are given.

    Only where the name, or the attribute of `self`, is bound once in its scope and never changed. What is
    written out is a copy that stands where the original stands.
    """
    reading = _CallReading(tree)
    for call, scope in reading.calls:
        made = reading.value_of(call.func, scope) or call.func
        if isinstance(made, ast.Call) and last_name(made.func) == "partial" and made.args:
            _apply_partial(call, made)
        elif made is call.func and (read := _attribute_read(made)) is not None:
            call.func = read
        call.keywords = [each for keyword in call.keywords for each in reading.entries(keyword, scope)]


def _copy_tree(node: _Node) -> _Node:
    """A copy of a node and of all below it, without what `copy.deepcopy` would follow out of the tree."""
    copied: _Node = with_names_replaced(node, {})
    return copied


def _apply_partial(call: ast.Call, partial: ast.Call) -> None:
    """Let a call be that of the function which is applied, with copies of what others may be given, too."""
    if partial is not call.func:
        partial.__dict__[WRITTEN_OUT] = True
        partial = _copy_tree(partial)
        for each in walk(partial.args[0]):
            ast.copy_location(each, call.func)
    given = {each.arg for each in call.keywords}
    call.func, *before = partial.args
    call.args = [*before, *call.args]
    kept = [each for each in partial.keywords if each.arg is None or each.arg not in given]
    call.keywords = [*kept, *call.keywords]


def _attribute_read(node: ast.expr) -> ast.Attribute | None:
    """`dist.barrier` of `getattr(dist, "barrier")`; None of anything else."""
    match node:
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name))], keywords=[]):
            return ast.copy_location(ast.Attribute(owner, name, ast.Load()), node)
    return None


class _CallReading:
    """The calls of a file with their scopes, and what the names are that are bound once and never changed."""

    def __init__(self, tree: ast.Module) -> None:
        self.calls: list[tuple[ast.Call, _Scope]] = []
        self._bound: dict[_Definition, list[ast.expr | None]] = {}
        self._changed: set[str] = set()
        self._added: dict[ast.expr, list[ast.keyword]] = {}
        """What tables get in the statements right behind the one that makes them."""
        self._adding: set[ast.AST] = set()
        self._outer: dict[_Scope, _Scope | None] = {tree: None}
        pending: list[tuple[ast.AST, _Scope]] = [(tree, tree)]
        while pending:
            node, scope = pending.pop()
            self._read(node, scope)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                self._outer[node] = scope
                scope = node
            pending += [(each, scope) for each in children_of(node)]

    def _read(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, _HOLDING_BLOCKS):
            for block in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
                self._read_block(block or [])
        if node in self._adding:
            self.calls += [(node, scope)] if isinstance(node, ast.Call) else []
        elif isinstance(node, ast.Call):
            self.calls.append((node, scope))
            if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
                self._changed.add(last_name(node.func.value) or "")
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if (key := _key_of(target, scope)) is not None:
                # Its own target is seen once more, as a name that something unknown is stored in.
                self._bound.setdefault(key, []).insert(0, node.value)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            self._changed.add(last_name(node.value) or "")
        elif isinstance(node, ast.arg):
            self._bound.setdefault((scope, node.arg), []).extend((None, None))
        elif isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            key = _key_of(node, scope)
            if key is not None:
                self._bound.setdefault(key, []).append(None)

    def _read_block(self, block: list[ast.stmt]) -> None:
        """Find the tables that are made here, with what the statements behind that put into them."""
        table: tuple[str, list[ast.keyword]] | None = None
        for statement in block:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() | ast.Call() as made):
                    table = name, self._added.setdefault(made, [])
                case ast.Assign(
                    targets=[
                        ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key))) as item
                    ]
                ) if table and table[0] == name:
                    table[1].append(ast.copy_location(ast.keyword(key, statement.value), statement))
                    self._adding.add(item)
                case ast.Expr(
                    ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="update"), args=[]) as call
                ) if table and table[0] == name:
                    table[1].extend(call.keywords)
                    self._adding.add(call)
                case _:
                    table = None

    def value_of(self, node: ast.expr, scope: _Scope) -> ast.expr | None:
        """What a name or an attribute of `self` is bound to, if once; None for all other expressions."""
        key = _key_of(node, scope)
        if key is None or key[1] in self._changed:
            return None
        where: _Scope | None = scope
        while key not in self._bound and key[0] is not None:
            where = None if where is None else self._outer[where]
            if where is None:
                return None
            key = (where, key[1])
        values = self._bound.get(key, ())
        return values[0] if len(values) == 2 else None

    def entries(self, keyword: ast.keyword, scope: _Scope, depth: int = 4) -> list[ast.keyword]:
        """The entries of an unpacked dictionary as keywords; any other keyword alone, as it is."""
        if keyword.arg is not None or not depth:
            return [keyword]
        given = self.value_of(keyword.value, scope) or keyword.value
        if isinstance(given, ast.Call) and last_name(given.func) == "dict" and not given.args:
            parts = [*given.keywords]
        elif isinstance(given, ast.Dict):
            parts = []
            for name, value in zip(given.keys, given.values, strict=True):
                if name is not None and not (isinstance(name, ast.Constant) and isinstance(name.value, str)):
                    return [keyword]
                arg = None if name is None else str(name.value)
                parts.append(ast.copy_location(ast.keyword(arg, value), value))
        else:
            return [keyword]
        added = self._added.get(given, [])
        later = {each.arg for each in added}
        parts = [each for each in parts if each.arg is None or each.arg not in later] + added
        return [each for part in parts for each in self.entries(_copy_tree(part), scope, depth - 1)]


def _key_of(node: ast.expr, scope: _Scope) -> _Definition | None:
    if isinstance(node, ast.Name):
        return scope, node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return None, node.attr
    return None


def _write_out_matches(tree: ast.Module) -> None:
    """Write `match rank: case 0: ...` as `if rank == 0: ...`, so that all that reads tests reads it.

    Only where every case compares the subject, or the parts of one that is a written tuple, with values.
    """
    for holder in reversed(walk(tree)):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(holder, name, None)
            if isinstance(block, list):
                block[:] = [_written_as_test(each) if isinstance(each, ast.Match) else each for each in block]


def _written_as_test(node: ast.Match) -> ast.stmt:
    """A `match` as a chain of tests; itself where a case is more than comparisons."""
    written: list[ast.stmt] = []
    for case in reversed(node.cases):
        names: dict[str, ast.expr] = {}
        tests = _tests_of_pattern(node.subject, case.pattern, names)
        if tests is None:
            return node
        if case.guard is not None:
            tests.append(_copy_tree(with_names_replaced(case.guard, names)))
        for name, value in names.items():  # `case other:` is `other = rank`.
            made = ast.Assign([ast.Name(name, ast.Store())], _copy_tree(value))
            ast.copy_location(made.targets[0], case.pattern)
            case.body.insert(0, ast.copy_location(made, case.pattern))
        if tests:
            test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
            branch = ast.If(ast.copy_location(test, tests[0]), case.body, written)
            ast.copy_location(branch, case.pattern).end_lineno = node.end_lineno
            branch.end_col_offset = node.end_col_offset
            written = [branch]
        else:
            written = case.body
    return written[0] if isinstance(written[0], ast.If) and len(written) == 1 else node


def _tests_of_pattern(
    subject: ast.expr, pattern: ast.pattern, named: dict[str, ast.expr]
) -> list[ast.expr] | None:
    """What must hold of a subject where it matches; None where that is more than comparisons.

    What of it gets a name is put into `named`.
    """
    if isinstance(pattern, ast.MatchAs):
        if pattern.name is not None:
            named[pattern.name] = subject
        return [] if pattern.pattern is None else _tests_of_pattern(subject, pattern.pattern, named)
    if isinstance(pattern, ast.MatchSequence) and isinstance(subject, ast.Tuple):
        if len(pattern.patterns) != len(subject.elts):
            return None
        pairs = zip(subject.elts, pattern.patterns, strict=True)
        parts = [_tests_of_pattern(*each, named) for each in pairs]
        return None if None in parts else [test for part in parts for test in part or ()]
    choices = pattern.patterns if isinstance(pattern, ast.MatchOr) else [pattern]
    singles = [each for each in choices if isinstance(each, ast.MatchSingleton)]
    values = [each.value for each in choices if isinstance(each, ast.MatchValue)]
    values += [ast.copy_location(ast.Constant(each.value), each) for each in singles]
    if len(values) < len(choices):
        return None
    one: ast.expr = values[0] if len(values) == 1 else ast.Tuple(values, ast.Load())
    sign = ast.In() if len(values) > 1 else ast.Is() if isinstance(pattern, ast.MatchSingleton) else ast.Eq()
    compared = ast.Compare(_copy_tree(subject), [sign], [ast.copy_location(one, pattern)])
    return [ast.copy_location(compared, pattern)]


def _write_out_iterations(tree: ast.Module) -> None:
    """Write `while True: try: x = next(batches) except StopIteration: break` as `for x in batches:`, and what
    a loop goes over into the loop where a name is given to it right before."""
    for holder in walk(tree):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(holder, name, None)
            if isinstance(block, list):
                block[:] = [_as_loop_over(each) if isinstance(each, ast.While) else each for each in block]
                for before, loop in pairwise(block):
                    _name_what_it_goes_over(before, loop)


def _name_what_it_goes_over(before: ast.stmt, loop: ast.stmt) -> None:
    """Let a loop go over `enumerate(loader)` itself where that stands in the statement before."""
    match before, loop:
        case ast.Assign([ast.Name(id=name)], made), ast.For(iter=ast.Name(id=read) as use) if name == read:
            called = last_name(made.func) if isinstance(made, ast.Call) else None
            if isinstance(made, ast.Name | ast.Attribute) or called in _GOES_OVER:
                loop.iter = _copy_tree(made)
                for each in walk(loop.iter):
                    ast.copy_location(each, use)


def _as_loop_over(node: ast.While) -> ast.stmt:
    """An endless loop that ends where there is no next element; itself where it is another one."""
    match node:
        case ast.While(
            test=ast.Constant(value=True | 1),
            body=[
                ast.Try(
                    body=[ast.Assign([target], ast.Call(func=ast.Name(id="next"), args=[taken])), *inner],
                    handlers=[ast.ExceptHandler(type=ast.Name(id="StopIteration"), body=[ast.Break()])],
                    orelse=[],
                    finalbody=[],
                ),
                *rest,
            ],
            orelse=[],
        ) if not inner or not rest:
            return ast.copy_location(
                ast.For(target, taken, [*inner, *rest] or [ast.copy_location(ast.Pass(), node)], []), node
            )
    return node
