"""What a process runs behind a call, in the order in which it comes by: to the end of the function, then in
its caller, and within the functions of the program that are called on the way."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from launcher.program.index import FunctionNode, ancestors, scope_of, statement_of
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.guards import Guards
from launcher.program.values import Defined

_DEEPEST = 5
"""So many calls within calls, and callers of callers, are followed."""

_BLOCKS = ("body", "orelse", "finalbody")


def calls_behind(program: Program, call: ast.Call) -> Iterator[ast.Call]:
    """The calls that a process comes by after a call.

    Through the one caller of its function; it ends where there are several, or none that is known. Both arms
    of a test that nobody can tell; loops once. Where a `with` is left, the calls of its contexts come again.
    """
    yield from _behind(program, call, _DEEPEST)


def _behind(program: Program, node: ast.AST, depth: int) -> Iterator[ast.Call]:
    inner: ast.AST = statement_of(node)
    is_over = isinstance(inner, ast.Return)
    yield from _enclosing_calls(node)
    for outer in ancestors(inner):
        if isinstance(outer, ast.ClassDef):
            return
        following = [] if is_over else _block_behind(outer, inner)
        yield from _run(program, following, depth)
        is_over = is_over or any(isinstance(each, ast.Return) for each in following)
        if any(isinstance(each, ast.Raise) for each in following):
            return
        if isinstance(outer, ast.With):
            yield from _contexts(program, outer, depth)
        if isinstance(outer, FunctionNode):
            yield from _wrapping(program, outer)
            sites = program.evaluation.callers.call_sites(outer) if depth else None
            if sites is not None and len(sites) == 1:
                yield from _behind(program, sites[0].call, depth - 1)
            return
        inner = outer


def _enclosing_calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of the statement that are made of what a call gives: `load(make(path))`."""
    for outer in ancestors(node):
        if isinstance(outer, ast.stmt):
            return
        if isinstance(outer, ast.Call):
            yield outer


def _block_behind(outer: ast.AST, inner: ast.AST) -> Sequence[ast.stmt]:
    """The statements of a block that stand behind one of them."""
    for name in _BLOCKS:
        block = getattr(outer, name, None)
        if isinstance(block, list) and any(each is inner for each in block):
            return block[next(number for number, each in enumerate(block) if each is inner) + 1 :]
    return []


def _run(program: Program, statements: Sequence[ast.stmt], depth: int) -> Iterator[ast.Call]:
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        inner = [each for name in (*_BLOCKS, "handlers") for each in getattr(statement, name, ())]
        if not isinstance(statement, ast.With):
            own = set(_calls_of(statement)).difference(*(_calls_of(each) for each in inner))
            yield from _called(program, own, depth)
        if isinstance(statement, ast.If):
            truth = program.analysis(Guards).truth(statement.test)
            arms = [statement.body] if truth is not False else []
            arms += [statement.orelse] if truth is not True else []
            for arm in arms:
                yield from _run(program, arm, depth)
        elif isinstance(statement, ast.Try | ast.TryStar):
            for block in (statement.body, statement.orelse, statement.finalbody):
                yield from _run(program, block, depth)
        elif isinstance(statement, ast.With | ast.AsyncWith):
            yield from _contexts(program, statement, depth)
            yield from _run(program, statement.body, depth)
            yield from _contexts(program, statement, depth)
        else:
            yield from _run(program, [each for each in inner if isinstance(each, ast.stmt)], depth)
        if isinstance(statement, ast.Return | ast.Raise):
            return


def _contexts(program: Program, statement: ast.With | ast.AsyncWith, depth: int) -> Iterator[ast.Call]:
    for item in statement.items:
        yield from _called(program, _calls_of(item.context_expr), depth)


def _calls_of(node: ast.AST) -> list[ast.Call]:
    """The calls in a node, without those in lambdas, which run elsewhere."""
    scope = scope_of(node)
    found = (each for each in walk(node) if isinstance(each, ast.Call))
    return [
        each for each in found if not isinstance(scope_of(each).node, ast.Lambda) or scope_of(each) is scope
    ]


def _called(program: Program, calls: Sequence[ast.Call] | set[ast.Call], depth: int) -> Iterator[ast.Call]:
    """Calls as they run, each with what the function of the program runs that it calls."""
    for call in sorted(calls, key=lambda each: (each.end_lineno or 0, each.end_col_offset or 0)):
        yield call
        called = program.value(call.func)
        function: ast.AST | None = called.node if isinstance(called, Defined) and depth else None
        if isinstance(function, ast.ClassDef):
            made = program.evaluation.attributes.bindings_in_class(function, "__init__")
            function = made[0].node if len(made) == 1 else None
        if isinstance(function, ast.FunctionDef):
            yield from _wrapping(program, function)
            yield from _run(program, function.body, depth - 1)


def _wrapping(program: Program, function: FunctionNode) -> Iterator[ast.Call]:
    """The calls in the decorators of a function that the program defines, which may stand around its own."""
    for decorator in getattr(function, "decorator_list", ()):
        made = program.value(decorator)
        if isinstance(made, Defined):
            yield from (each for each in walk(made.node) if isinstance(each, ast.Call))
