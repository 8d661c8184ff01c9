"""Whether a statement surely runs when a program trains on several processes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.scripts.reaching import arms_of
from launcher.scripts.scopes import FunctionNode, file_of, parent_of, scope_of

if TYPE_CHECKING:
    from launcher.scripts.program import Program

_DEEPEST = 6
"""So many calls from the entry's own code; what is deeper is not sure."""

_CALLING = frozenset(
    {"fire.Fire", "tyro.cli", "typer.run", "absl.app.run", "jsonargparse.CLI", "draccus.wrap"}
)
"""What calls the function that it is handed, with arguments of the command line."""

_AVAILABLE = frozenset(
    {"torch.cuda.is_available", "torch.distributed.is_available", "torch.distributed.is_nccl_available"}
)


def surely_runs(program: Program, node: ast.AST, deepest: int = _DEEPEST) -> bool:
    """Whether every process of a training comes by here.

    Not what stands under a test that nobody can tell, behind a return under such a test, or in a function
    that is called from nowhere or from where nobody sees.
    """
    inner = node
    outer = parent_of(node)
    while outer is not None:
        if isinstance(outer, ast.If | ast.IfExp) and not _is_taken(program, outer, inner):
            return False
        if isinstance(outer, ast.ExceptHandler | ast.match_case | ast.Lambda | ast.BoolOp):
            return False
        if isinstance(inner, ast.stmt) and any(_may_leave(program, each) for each in _before(outer, inner)):
            return False
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) and _is_in_body(outer, inner):
            return _is_called(program, outer, deepest)
        inner, outer = outer, parent_of(outer)
    return True


def _is_in_body(function: ast.FunctionDef | ast.AsyncFunctionDef, inner: ast.AST) -> bool:
    """Not among its decorators and defaults, which run where it is defined."""
    return any(each is inner for each in function.body)


def _is_called(program: Program, function: FunctionNode, deepest: int) -> bool:
    if deepest == 0:
        return False
    sites = program.evaluation.callers.of(function)
    if sites is None:
        return any(_is_handed_to_a_caller(program, function))
    return any(surely_runs(program, site.call, deepest - 1) for site in sites)


def _is_handed_to_a_caller(program: Program, function: FunctionNode) -> Iterator[bool]:
    if isinstance(function, ast.Lambda):
        return
    for file in program.files:
        for use in file.names.get(function.name, ()):
            call = parent_of(use)
            if isinstance(call, ast.Call) and call.func is not use:
                yield program.qualified(call.func) in _CALLING


def _is_taken(program: Program, branching: ast.If | ast.IfExp, inner: ast.AST) -> bool:
    if inner is branching.test:
        return True
    body = branching.body if isinstance(branching.body, list) else [branching.body]
    truth = _truth(program, branching.test)
    return truth is not None and (inner in body) is truth


def _truth(program: Program, test: ast.expr) -> bool | None:
    """What a test is in a training on several GPUs; None where nobody can tell, or ranks differ."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        truth = _truth(program, test.operand)
        return None if truth is None else not truth
    if isinstance(test, ast.BoolOp):
        truths = [_truth(program, each) for each in test.values]
        decisive = isinstance(test.op, ast.Or)
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive
    if isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__":
        return True
    name = program.qualified(test.func) if isinstance(test, ast.Call) else None
    if name in _AVAILABLE:
        return True
    if name == "torch.distributed.is_initialized":
        return False  # Before the group is made, of which the rules on a start speak.
    found = program.guards.truth(test)
    return found if isinstance(found, bool) else None


def _before(outer: ast.AST, inner: ast.stmt) -> list[ast.stmt]:
    """The statements beside one that come before it."""
    for _, block in ast.iter_fields(outer):
        if isinstance(block, list) and any(each is inner for each in block):
            return block[: next(number for number, each in enumerate(block) if each is inner)]
    return []


def _may_leave(program: Program, statement: ast.stmt) -> bool:
    """Whether a statement may end the function, without an error, under a test that nobody can tell."""
    if not isinstance(statement, ast.If):
        return False
    truth = _truth(program, statement.test)
    return (truth is not False and _leaves(program, statement.body)) or (
        truth is not True and _leaves(program, statement.orelse)
    )


def _leaves(program: Program, block: list[ast.stmt]) -> bool:
    """Not by the end of the process: then there is no training."""
    for statement in block:
        if isinstance(statement, ast.Return | ast.Continue | ast.Break):
            return True
        if isinstance(statement, ast.If) and (
            _leaves(program, statement.body) or _leaves(program, statement.orelse)
        ):
            return True
    return False


def runs_with(program: Program, node: ast.AST, call: ast.Call) -> bool:
    """Whether a statement runs wherever a call does: in the same function, under no other tests.

    Not in a function that nothing in the program calls.
    """
    function = scope_of(call).function
    if function is not None and isinstance(function.node, FunctionNode):
        sites = program.evaluation.callers.of(function.node)
        if sites is not None and not sites:
            return False
    return scope_of(node).function is scope_of(call).function and (
        file_of(node) is file_of(call) and arms_of(node) <= arms_of(call)
    )
