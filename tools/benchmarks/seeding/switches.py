"""Places that a program never comes to as it is written, under switches that nothing in it turns on."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools.benchmarks.seeding.site import FunctionNode, Site
from tools.benchmarks.seeding.whole import Whole

_DEEPEST = 3
"""So many functions are followed to those that call them."""


def is_switched_off(whole: Whole, site: Site, node: ast.AST, depth: int = 0) -> bool:
    """Whether a place, or all calls of its function, are under a switch that nothing in the program turns on.

    `if config.save_model:` where the class of the configuration says `save_model = False` and nothing else
    sets it, or the `else` of a parameter whose default is True and that no call gives. Who wants the other
    arm edits the file, so that a defect there is none of the program as it is.
    """
    inner = node
    for outer in site.around(node):
        if isinstance(outer, ast.If) and inner is not outer.test:
            wanted = inner not in outer.orelse
            if any(_is_always(whole, each, not wanted) for each in _switches(outer.test, wanted)):
                return True
        if isinstance(outer, FunctionNode):
            calls = whole.calls_named(outer.name)
            return (
                depth < _DEEPEST
                and bool(calls)
                and all(is_switched_off(whole, where, call, depth + 1) for where, call in calls)
            )
        inner = outer
    return False


def _switches(test: ast.expr, wanted: bool) -> Iterator[str]:
    """The names that must be as wanted for a test to be so: of `a and cfg.b` both, for its body."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and wanted:
        for each in test.values:
            yield from _switches(each, wanted)
    elif isinstance(test, ast.Name | ast.Attribute):
        yield test.id if isinstance(test, ast.Name) else test.attr


def _is_always(whole: Whole, name: str, value: bool) -> bool:
    """Whether all that a program ever gives a name, wherever that stands, is one literal."""
    if re.search(rf"[\"'](--)?{'[-_]'.join(map(re.escape, name.split('_')))}[\"']", whole.text):
        return False  # An option, or set by its name.
    given = [each for site in whole.sites for each in _given(whole, site.tree, name)]
    return bool(given) and all(isinstance(each, ast.Constant) and each.value is value for each in given)


def _given(whole: Whole, tree: ast.AST, name: str) -> Iterator[ast.expr | None]:
    """What a name gets in a file; None for what cannot be said."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(_is_named(part, name) for target in targets for part in ast.walk(target)):
                yield node.value
        elif isinstance(node, ast.keyword) and node.arg == name:
            yield node.value
        elif isinstance(node, FunctionNode):
            yield from _defaults(whole, node, name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Del):
            yield from (None,) if _is_named(node, name) else ()
        elif isinstance(node, ast.For | ast.withitem | ast.NamedExpr | ast.AugAssign):
            held = node.optional_vars if isinstance(node, ast.withitem) else node.target
            if held is not None and any(_is_named(part, name) for part in ast.walk(held)):
                yield None


def _defaults(whole: Whole, function: FunctionNode, name: str) -> Iterator[ast.expr | None]:
    """The default of a parameter; None where it has none, or a call may give it by its position."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    for number, each in enumerate(positional):
        if each.arg == name:
            late = number - len(positional) + len(arguments.defaults)
            yield arguments.defaults[late] if late >= 0 else None
            for site, call in whole.calls_named(function.name):
                if len(call.args) > number or site.is_open(call):
                    yield None
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if each.arg == name:
            yield default


def _is_named(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (
        isinstance(node, ast.Attribute) and node.attr == name
    )
