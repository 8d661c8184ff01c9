"""Functions that only hand on what they are given, written out.

`def make(data, **options): return DataLoader(data, num_workers=4, **options)` calls a library with what each
of its callers gives it. Each of these calls is written out as the call of the library that it is, in its own
place, where it is given all that the caller gives.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from launcher.program.call_graph import CallGraph
from launcher.program.index import (
    PARENT,
    FunctionNode,
    ProgramFiles,
    default_of,
    file_of,
    last_name,
    parameters_of,
)
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.nodes import walk
from launcher.program.values import Defined, External, spread, with_names_replaced

_PLAIN = ("staticmethod", "classmethod")
"""The decorators that do nothing else."""


def write_out_forwarded(callers: CallGraph) -> bool:
    """Write out the calls of such functions; whether there are any. What was evaluated before is not of the
    program as it is then."""
    written: list[tuple[ast.Call, ast.Call]] = []
    passed: list[ast.Call] = []
    for function, inner in _forwarding(callers.files):
        called = callers.value(inner.func)
        if not isinstance(called, External) or "super" in called.name:
            continue
        sites = [*_calls_of(function, callers)]
        made = [(site, _written_out(function, inner, site, callers)) for site in sites]
        found = [(site, call) for site, call in made if call is not None]
        written += found
        if found and len(found) == len(callers.call_sites(function) or ()):
            passed.append(inner)
    for site, call in written:
        site.args, site.keywords = call.args, call.keywords
        _call_another(site, call.func)
    for inner in passed:
        calls = file_of(inner).calls
        calls[:] = [each for each in calls if each is not inner]
    if written:
        callers.files.forget_what_is_called()
    return bool(written)


def _call_another(site: ast.Call, function: ast.expr) -> None:
    """Let a call be one of another function, as if that were written there."""
    file = file_of(site)
    kept: dict[type, dict[str, list[Any]]] = {ast.Name: file.names, ast.Attribute: file.attributes}
    for node in walk(site.func):
        uses = kept.get(type(node), {}).get(last_name(node) or "", [])
        uses[:] = [each for each in uses if each is not node]
    for node in walk(function):
        if isinstance(node, ast.Name | ast.Attribute):
            kept[type(node)].setdefault(last_name(node) or "", []).append(node)
    site.func, function.__dict__[PARENT] = function, site


def _forwarding(files: ProgramFiles) -> Iterator[tuple[FunctionNode, ast.Call]]:
    """The functions that do nothing but call what is not theirs with their `*args` or `**options`."""
    for file in files.files:
        for function in file.scopes:
            if not isinstance(function, FunctionNode) or not (function.args.vararg or function.args.kwarg):
                continue
            call = _only_call(function)
            if call is None or not _is_plain(function):
                continue
            rest = {each.arg for each in (function.args.vararg, function.args.kwarg) if each is not None}
            handed = [each.value for each in call.args if isinstance(each, ast.Starred)]
            handed += [each.value for each in call.keywords if each.arg is None]
            if handed and all(isinstance(each, ast.Name) and each.id in rest for each in handed):
                yield function, call


def _only_call(function: FunctionNode) -> ast.Call | None:
    if isinstance(function, ast.Lambda):
        return function.body if isinstance(function.body, ast.Call) else None
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    only = body[0] if len(body) == 1 else None
    call = only.value if isinstance(only, ast.Return | ast.Expr) else None
    return call if isinstance(call, ast.Call) else None


def _is_plain(function: FunctionNode) -> bool:
    decorators = [] if isinstance(function, ast.Lambda) else function.decorator_list
    return all(isinstance(each, ast.Name) and each.id in _PLAIN for each in decorators)


def _calls_of(function: FunctionNode, callers: CallGraph) -> Iterator[ast.Call]:
    """The calls that surely are of a function."""
    for site in callers.possible_sites(function):
        value = callers.value(site.call.func)
        if isinstance(value, Defined) and value.node is function:
            yield site.call


def _written_out(
    function: FunctionNode, inner: ast.Call, site: ast.Call, callers: CallGraph
) -> ast.Call | None:
    """The call that a function makes where it is called so; None where a star hides what it is given."""
    called = callers.value(site.func)
    bound = isinstance(called, Defined) and called.owner is not None
    given = bind_arguments(function, spread(site, callers.value), bound)
    if given is None:
        return None
    for name in (each.arg for each in parameters_of(function)):
        if (default := default_of(function, name)) is not None:
            given.setdefault(name, default)
    row, table = (
        given.pop(each.arg, None) if each is not None else None
        for each in (function.args.vararg, function.args.kwarg)
    )
    args: list[ast.expr] = []
    for each in inner.args:
        if not isinstance(each, ast.Starred):
            args.append(with_names_replaced(each, given))
        elif isinstance(row, ast.Tuple):
            args += row.elts
    keywords: list[ast.keyword] = []
    for option in inner.keywords:
        if option.arg is not None:
            keywords.append(ast.keyword(option.arg, with_names_replaced(option.value, given)))
        elif isinstance(table, ast.Dict):
            pairs = zip(table.keys, table.values, strict=True)
            keywords += [ast.keyword(str(getattr(key, "value", "")), value) for key, value in pairs]
    made = with_names_replaced(inner.func, given)
    for node in walk(made):
        if isinstance(node, ast.expr):
            ast.copy_location(node, site.func)
    return ast.Call(made, args, keywords)
