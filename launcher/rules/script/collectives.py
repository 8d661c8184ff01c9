"""Collectives and steps that not every rank runs.

Under a guard, in an exception handler, by what one rank alone sees, such as a NaN or a clock, or in a forward
pass that differs between ranks; and models that are trained beside a wrapped one, without its reductions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from launcher.failure_modes import checkpoints, ddp
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.program.index import (
    FunctionNode,
    ancestors,
    ancestors_in_function,
    file_of,
    last_name,
    parameters_of,
    scope_of,
)
from launcher.program.objects.hooks import called_on_exceptions
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.collective_calls import SHARDED_FORWARD, CollectiveRun
from launcher.program.ranks.divergence import (
    Divergence,
    FunctionSummaries,
    collectives_run_by,
    may_run_collectives,
)
from launcher.program.ranks.guards import Guards, ends_block
from launcher.program.ranks.reachability import Known, never_runs
from launcher.program.ranks.training_loops import Loop, calls_in, runs_wrapped_model
from launcher.program.ranks.truths import Guard
from launcher.program.values import (
    Defined,
)
from launcher.rules.script.findings import finding_at, move_to_every_rank, related_at

_ALIKE = frozenset(
    {
        "StopIteration",
        "StopAsyncIteration",
        "ImportError",
        "ModuleNotFoundError",
        "AttributeError",
        "NameError",
        "KeyError",
        "TypeError",
        "NotImplementedError",
        "CheckpointException",
    }
)
"""Exceptions that a program raises on all ranks alike: they follow from the code, not from the data, and
torch.distributed.checkpoint tells every rank of what failed on one (`_DistWrapper` in its utils.py)."""

_FORWARD = (
    "Let every rank run the forward pass, each on its part of the data; rank 0 alone prints the result."
)


@finds(Stage.SCRIPT, ddp.COLLECTIVE_UNDER_RANK_GUARD, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK)
def collectives_are_run_by_every_rank(program: Program) -> Iterator[Finding]:
    """A collective that stands under a test of the rank, or behind a return that only some ranks take.

    The ranks that run it wait for the others until the timeout. Where it gathers the state of a sharded
    model or writes a checkpoint, it is CKPT003, else DDP004. The forward pass of a sharded model is one, in
    evaluation too.

    Silent where both arms of the test run the same collectives, where the group's members are just those
    ranks, where a process that leaves ends with an error, where ranks leave only if the collective is not
    run, and in a function that some ranks alone hand to a
    library: the others may answer it elsewhere. Informational where the other ranks have an arm of their own,
    in the same function, in which they may run collectives, or come to the same one behind a return: it may
    answer in a way that is not understood.

    Bad: `if rank == 0: save(model); dist.barrier()`. Good: `dist.barrier()` behind the `if`, where every rank
    comes by.

    Source: torch.distributed's documentation, of collective functions.
    """
    caught = {id(each.run.node) for each in _in_handlers(program)}
    for parted in program.analysis(FunctionSummaries).divergences():
        if id(parted.run.node) not in caught and not _leaves_another_run(program, parted):
            yield _parted(parted, Severity.INFO if _may_be_answered(program, parted) else None)


@finds(Stage.SCRIPT, ddp.COLLECTIVE_IN_EXCEPTION_HANDLER)
def no_collectives_in_exception_handlers(program: Program) -> Iterator[Finding]:
    """A collective in an `except` or `finally` block or an `__exit__`, to which ranks come one by one, or in
    what a library calls where an exception was raised.

    The rank that raised waits in it for the others, which are in another collective or at their end: the
    error that began it is seen only when the timeout has passed. Silent where all ranks come there: by an
    exception that is raised on each of them, such as ImportError, to a handler that calls its own function
    once more, or to a `finally` whose `try` runs no
    collective for certain, so that the others may wait for nothing before; and of a two-sided barrier, in
    whose first half the others wait until the `finally` releases them.

    Bad: `except OSError: dist.barrier()`. Good: let the exception end the process, or call the barrier behind
    the `try`, where every rank comes by.

    Source: torch.distributed's documentation, of collective functions.
    """
    for handled in _in_handlers(program):
        run = handled.run
        yield finding_at(
            ddp.COLLECTIVE_IN_EXCEPTION_HANDLER,
            run.node,
            f"{_what(run)} in {handled.place}: a rank that comes here by an exception waits for ranks that "
            "do not come, until the timeout",
            related=_origin(run),
            severity=None if handled.others_wait else Severity.INFO,
        )


def _leaves_another_run(program: Program, parted: Divergence) -> bool:
    """Whether ranks leave only where the collective behind is not run at all: `if not sharded and rank != 0:
    return`, and later `if sharded: barrier()`."""
    return parted.leaves is not None and never_runs(
        program, parted.leaves, _known_where(program, parted.run.node)
    )


def _known_where(program: Program, node: ast.AST) -> Known:
    """What the tests around a statement say of the same tests elsewhere, where it runs."""
    facts: list[tuple[ast.expr, bool]] = []
    inner = node
    for outer in ancestors(node):
        if isinstance(outer, FunctionNode):
            break
        if isinstance(outer, ast.If) and inner is not outer.test:
            facts += _told_by(outer.test, inner in outer.body)
        inner = outer

    def known(test: ast.expr) -> bool | None:
        return next((truth for each, truth in facts if _are_one_value(program, each, test)), None)

    return known


def _told_by(test: ast.expr, truth: bool) -> Iterator[tuple[ast.expr, bool]]:
    """What parts of a test are where it is true, or false."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from _told_by(inner, not truth)
        case ast.BoolOp(op=ast.And() | ast.Or() as joins, values=values) if (
            isinstance(joins, ast.And) == truth
        ):
            for each in values:
                yield from _told_by(each, truth)
        case _:
            yield test, truth


def _are_one_value(program: Program, one: ast.expr, other: ast.expr) -> bool:
    """Whether two expressions read the same variables, which got their values in the same places."""
    if ast.dump(one) != ast.dump(other) or any(isinstance(each, ast.Call) for each in walk(one)):
        return False
    read = [[each for each in walk(whole) if isinstance(each, ast.Name)] for whole in (one, other)]
    sources = program.evaluation.sources
    return all(sources(first) == sources(second) for first, second in zip(*read, strict=True))


def _may_be_answered(program: Program, parted: Divergence) -> bool:
    """Whether some ranks have an arm in the same function in which they may run collectives, too."""
    assert parted.guard.test is not None
    scope = scope_of(parted.guard.test)
    arms = [
        arm
        for branch in file_of(parted.guard.test).nodes(ast.If)
        if scope_of(branch) is scope and isinstance(program.analysis(Guards).truth(branch.test), Guard)
        for arm in (branch.body, branch.orelse)
    ]
    here = {parted.run.node, *ancestors(parted.run.node)}
    if any(here.isdisjoint(arm) and may_run_collectives(program, arm) for arm in arms if arm):
        return True
    return _is_met_behind(program, parted)


def _is_met_behind(program: Program, parted: Divergence) -> bool:
    """Whether the ranks in an arm call the collective and return, and the others come to the same behind it.

    `if rank != 0: barrier(); return`, then what rank 0 does alone, then its barrier.
    """
    branch = next(
        (
            each
            for each in ancestors(parted.run.node)
            if isinstance(each, ast.If) and each.test is parted.guard.test
        ),
        None,
    )
    function = None if branch is None else scope_of(branch).function
    if branch is None or function is None or not isinstance(function.node, FunctionNode):
        return False
    if isinstance(function.node, ast.Lambda) or not ends_block(branch.body):
        return False
    behind = [each for each in function.node.body if each.lineno > (branch.end_lineno or branch.lineno)]
    return any(run.short_name == parted.run.short_name for run in collectives_run_by(program, behind))


def _parted(parted: Divergence, severity: Severity | None) -> Finding:
    run, guard = parted.run, parted.guard
    mode = (
        checkpoints.STATE_DICT_NOT_ON_EVERY_RANK
        if run.collective.gathers_state
        else ddp.COLLECTIVE_UNDER_RANK_GUARD
    )
    assert guard.test is not None
    test = file_of(guard.test).source(guard.test)
    line = file_of(guard.test).location(guard.test).line
    remedy = _FORWARD if run.collective is SHARDED_FORWARD else None
    if parted.leaves is not None:
        return finding_at(
            mode,
            parted.leaves,
            f"{guard.opposite().described} leaves here (`{test}`, line {line}), and {_what(run)} in line "
            f"{run.node.lineno} is run by {guard.described} alone, which then waits until the timeout",
            related=[
                related_at(run.node, f"{run.short_name} that the ranks which left never run"),
                *_origin(run),
            ],
            remedy=remedy,
            severity=severity,
        )
    return finding_at(
        mode,
        run.node,
        f"{_what(run)} is run by {guard.described} alone; the other ranks never call it, and those that do "
        "wait until the timeout",
        related=[related_at(guard.test, f"under `{test}`"), *_origin(run)],
        remedy=remedy,
        severity=severity,
        fix=move_to_every_rank(run.node) if run.node is run.origin else None,
    )


def _what(run: CollectiveRun) -> str:
    """Such as `barrier`, or `save (it runs barrier)` where a helper is at fault."""
    does = (
        "forward, in which FSDP gathers the shards of all ranks"
        if run.collective is SHARDED_FORWARD
        else run.short_name
    )
    if run.node is run.origin:
        return does
    return f"{last_name(run.node.func)}, which runs {does},"


def _origin(run: CollectiveRun) -> list[Related]:
    return [] if run.node is run.origin else [related_at(run.origin, f"{run.short_name} is here")]


@frozen
class _Handled:
    """A collective that surely runs where an exception leads, and that place: the `except` block of a line.

    `others_wait` says that the other ranks are in collectives meanwhile, such as those of the `try` itself.
    """

    run: CollectiveRun
    place: str
    others_wait: bool


def _in_handlers(program: Program) -> Iterator[_Handled]:
    """The collectives that surely run in a handler."""
    for file in program.files:
        for kind in (ast.Try, ast.TryStar):
            for statement in file.nodes(kind):
                assert isinstance(statement, ast.Try | ast.TryStar)
                inside = [*statement.body, *statement.orelse, *_blocks_around_yield(program, statement)]
                waited = collectives_run_by(program, inside)
                others_wait = bool(waited) or _others_go_on(program, statement)
                for handler in statement.handlers:
                    if not _alike(handler.type):
                        for run in collectives_run_by(program, handler.body):
                            if not _tries_again(program, run):
                                yield _Handled(run, _block("except", handler), others_wait)
                yield from _in_last_block(program, statement, statement.finalbody, waited, "finally")
        for definition in file.classes:
            for each in definition.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__exit__":
                    waited = collectives_run_by(program, _blocks_of_context(program, definition))
                    yield from _in_last_block(program, each, each.body, waited, "__exit__")
                    for failed in (one for one in each.body if _asks_for_exception(one, each)):
                        for run in collectives_run_by(program, failed.body):
                            yield _Handled(run, _block("__exit__", failed), bool(waited))

        for function in called_on_exceptions(file, program.value):
            named = "what" if isinstance(function, ast.Lambda) else f"`{function.name}`, which"
            for run in program.analysis(FunctionSummaries).summary(function).must:
                yield _Handled(run, f"{named} is called where an exception was raised", True)


def _block(kind: str, statement: ast.ExceptHandler | ast.stmt) -> str:
    return f"the `{kind}` block of line {statement.lineno}"


def _others_go_on(program: Program, statement: ast.Try | ast.TryStar) -> bool:
    """Whether the ranks that come through a `try` go on to a backward pass in its loop, or run in it whatever
    a decorator is put on."""
    loop = next((each for each in ancestors_in_function(statement) if isinstance(each, Loop)), None)
    if loop is not None and runs_wrapped_model(program, loop):
        return True
    scope = scope_of(statement).function
    outer = None if scope is None or scope.parent is None else scope.parent.node
    decorated = {each.arg for each in parameters_of(outer)} if isinstance(outer, ast.FunctionDef) else set()
    called = {last_name(each.func) for inner in statement.body for each in calls_in(inner)}
    return bool(decorated & called)


def _in_last_block(
    program: Program, holder: ast.AST, block: list[ast.stmt], waited: list[CollectiveRun], name: str
) -> Iterator[_Handled]:
    """The collectives of a block that runs with and without an exception, where others wait in one before.

    Not under a test of how it ended: of what the `try` or its handlers set, or of the exception itself.
    """
    halves = {each.short_name for each in waited if _tests_around(each.node, holder)}
    ended = {each.id for each in walk(holder) if isinstance(each, ast.Name) and not _is_read(each)}
    ended |= {each.arg for each in walk(holder) if isinstance(each, ast.arg)} - {"self"} | {"exc_info"}
    leaving = [each for each in block if isinstance(each, ast.If) and ends_block(each.body)]
    for run in collectives_run_by(program, block) if waited else ():
        tests = _tests_around(run.node, holder)
        # `if not main: barrier()`, and here `if main: barrier()`, which releases them.
        if run.short_name in halves and tests:
            continue
        tests += [each.test for each in leaving if each.lineno < run.node.lineno]
        if not any(last_name(each) in ended for test in tests for each in walk(test)):
            yield _Handled(run, _block(name, block[0]), True)


def _asks_for_exception(statement: ast.stmt, leave: ast.FunctionDef) -> TypeGuard[ast.If]:
    """Whether this is `if kind is not None:` of an `__exit__` that is given the kind of the exception."""
    test = statement.test if isinstance(statement, ast.If) else None
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        test = test.left
    given = [each.arg for each in leave.args.args[1:3]]
    return isinstance(test, ast.Name) and test.id in given


def _is_read(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Load)


def _blocks_around_yield(program: Program, statement: ast.Try | ast.TryStar) -> list[ast.stmt]:
    """What runs where a `try` of a context manager yields: the blocks of the `with` that enter it."""
    function = scope_of(statement).function
    yields = [] if function is None else file_of(statement).yields_of.get(function.node, [])
    if function is None or not any(statement in ancestors(each) for each in yields):
        return []
    return _blocks_of_context(program, function.node)


def _blocks_of_context(program: Program, made_by: ast.AST) -> list[ast.stmt]:
    """The blocks of the `with` statements that enter what a function of the program, or a class, makes."""
    found: list[ast.stmt] = []
    for file in program.files:
        for statement in file.nodes(ast.With):
            for item in statement.items:
                called = item.context_expr.func if isinstance(item.context_expr, ast.Call) else None
                values = [program.value(each) for each in (item.context_expr, called) if each is not None]
                made = [getattr(each, "node", getattr(each, "definition", None)) for each in values]
                found += statement.body if made_by in made else []
    return found


def _tries_again(program: Program, run: CollectiveRun) -> bool:
    """Whether a handler calls its own function once more, which then meets the others as it would have."""
    called, function = program.value(run.node.func), scope_of(run.node).function
    return isinstance(called, Defined) and function is not None and called.node is function.node


def _tests_around(node: ast.AST, holder: ast.AST) -> list[ast.expr]:
    """The tests within a statement or function that decide who comes to a part of it."""
    found: list[ast.expr] = []
    for outer in ancestors(node):
        if outer is holder:
            break
        if isinstance(outer, ast.If | ast.IfExp):
            found.append(outer.test)
    return found


def _alike(caught: ast.expr | None) -> bool:
    """Whether a handler is for exceptions that come on all ranks at once."""
    if caught is None:
        return False
    return all(last_name(each) in _ALIKE for each in getattr(caught, "elts", [caught]))
