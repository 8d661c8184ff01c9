"""Collectives that not every rank runs: DDP004, DDP008 and CKPT003."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.failure_modes import checkpoints, ddp
from launcher.failure_modes.model import Finding, Related, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.rules.script.rank_fixes import on_every_rank
from launcher.scripts.blocks import Parted
from launcher.scripts.forwards import GATHERS
from launcher.scripts.guard import Guard
from launcher.scripts.participants import leaves
from launcher.scripts.program import Program
from launcher.scripts.running import CollectiveRun
from launcher.scripts.scopes import FunctionNode, ancestors, file_of, last_name, scope_of
from launcher.scripts.summaries import may_run, runs_of
from launcher.scripts.values import Defined

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
    ranks, where a process that leaves ends with an error, and in a function that some ranks alone hand to a
    library: the others may answer it elsewhere. Informational where the other ranks have an arm of their own,
    in the same function, in which they may run collectives, or come to the same one behind a return: it may
    answer in a way that is not understood.

    Bad: `if rank == 0: save(model); dist.barrier()`. Good: `dist.barrier()` behind the `if`, where every rank
    comes by.

    Source: torch.distributed's documentation, of collective functions.
    """
    caught = {id(each.run.node) for each in _in_handlers(program)}
    for parted in program.summaries.parted():
        if id(parted.run.node) not in caught:
            yield _parted(parted, Severity.INFO if _may_be_answered(program, parted) else None)


@finds(Stage.SCRIPT, ddp.COLLECTIVE_IN_EXCEPTION_HANDLER)
def no_collectives_in_exception_handlers(program: Program) -> Iterator[Finding]:
    """A collective in an `except` or `finally` block, to which ranks come one by one, or one alone.

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
        yield found(
            ddp.COLLECTIVE_IN_EXCEPTION_HANDLER,
            run.node,
            f"{_what(run)} in the `{handled.block}` block of line {handled.line}: a rank that comes here by "
            "an exception waits for ranks that do not come, until the timeout",
            related=_origin(run),
            severity=None if handled.others_wait else Severity.INFO,
        )


def _may_be_answered(program: Program, parted: Parted) -> bool:
    """Whether some ranks have an arm in the same function in which they may run collectives, too."""
    assert parted.guard.test is not None
    scope = scope_of(parted.guard.test)
    arms = [
        arm
        for branch in file_of(parted.guard.test).statements.get(ast.If, ())
        if isinstance(branch, ast.If)
        and scope_of(branch) is scope
        and isinstance(program.guards.truth(branch.test), Guard)
        for arm in (branch.body, branch.orelse)
    ]
    here = {parted.run.node, *ancestors(parted.run.node)}
    if any(here.isdisjoint(arm) and may_run(arm, program.summaries) for arm in arms if arm):
        return True
    return _is_met_behind(program, parted)


def _is_met_behind(program: Program, parted: Parted) -> bool:
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
    if isinstance(function.node, ast.Lambda) or not leaves(branch.body):
        return False
    behind = [each for each in function.node.body if each.lineno > (branch.end_lineno or branch.lineno)]
    return any(run.does == parted.run.does for run in runs_of(behind, program.summaries))


def _parted(parted: Parted, severity: Severity | None) -> Finding:
    run, guard = parted.run, parted.guard
    mode = (
        checkpoints.STATE_DICT_NOT_ON_EVERY_RANK
        if run.collective.gathers_state
        else ddp.COLLECTIVE_UNDER_RANK_GUARD
    )
    assert guard.test is not None
    test = file_of(guard.test).source(guard.test)
    line = file_of(guard.test).location(guard.test).line
    remedy = _FORWARD if run.collective is GATHERS else None
    if parted.leaves is not None:
        return found(
            mode,
            parted.leaves,
            f"{guard.opposite().ranks} leaves here (`{test}`, line {line}), and {_what(run)} in line "
            f"{run.node.lineno} is run by {guard.ranks} alone, which then waits until the timeout",
            related=[note(run.node, f"{run.does} that the ranks which left never run"), *_origin(run)],
            remedy=remedy,
            severity=severity,
        )
    return found(
        mode,
        run.node,
        f"{_what(run)} is run by {guard.ranks} alone; the other ranks never call it, and those that do wait "
        "until the timeout",
        related=[note(guard.test, f"under `{test}`"), *_origin(run)],
        remedy=remedy,
        severity=severity,
        fix=on_every_rank(run.node) if run.node is run.origin else None,
    )


def _what(run: CollectiveRun) -> str:
    """Such as `barrier`, or `save (it runs barrier)` where a helper is at fault."""
    does = "forward, in which FSDP gathers the shards of all ranks" if run.collective is GATHERS else run.does
    if run.node is run.origin:
        return does
    return f"{last_name(run.node.func)}, which runs {does},"


def _origin(run: CollectiveRun) -> list[Related]:
    return [] if run.node is run.origin else [note(run.origin, f"{run.does} is here")]


@dataclass(frozen=True, slots=True)
class _Handled:
    """A collective that surely runs in a block of a `try` (`except` or `finally`), and that block's line.

    `others_wait` says that the `try` itself runs collectives, in which the other ranks are.
    """

    run: CollectiveRun
    block: str
    line: int
    others_wait: bool


def _in_handlers(program: Program) -> Iterator[_Handled]:
    """The collectives that surely run in a handler."""
    for file in program.files:
        for kind in (ast.Try, ast.TryStar):
            for statement in file.statements.get(kind, []):
                assert isinstance(statement, ast.Try | ast.TryStar)
                waited = runs_of([*statement.body, *statement.orelse], program.summaries)
                for handler in statement.handlers:
                    if not _alike(handler.type):
                        for run in runs_of(handler.body, program.summaries):
                            if not _tries_again(program, run):
                                yield _Handled(run, "except", handler.lineno, bool(waited))
                # Where the others wait in nothing before, they all meet here.
                if waited:
                    halves = {each.does for each in waited if _is_under_a_test(each.node, statement)}
                    for run in runs_of(statement.finalbody, program.summaries):
                        # `if not main: barrier()`, and here `if main: barrier()`, which releases them.
                        if run.does in halves and _is_under_a_test(run.node, statement):
                            continue
                        yield _Handled(run, "finally", statement.finalbody[0].lineno, True)


def _tries_again(program: Program, run: CollectiveRun) -> bool:
    """Whether a handler calls its own function once more, which then meets the others as it would have."""
    called, function = program.value(run.node.func), scope_of(run.node).function
    return isinstance(called, Defined) and function is not None and called.node is function.node


def _is_under_a_test(node: ast.AST, statement: ast.AST) -> bool:
    """Whether a test within a statement decides who comes to a part of it."""
    for outer in ancestors(node):
        if outer is statement:
            return False
        if isinstance(outer, ast.If | ast.IfExp):
            return True
    return False


def _alike(caught: ast.expr | None) -> bool:
    """Whether a handler is for exceptions that come on all ranks at once."""
    if caught is None:
        return False
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return all(last_name(each) in _ALIKE for each in names)
