"""Steps that a rank repeats or leaves when its memory is exhausted."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found
from launcher.scripts.program import Program
from launcher.scripts.scopes import last_name
from launcher.scripts.wrapped import Loop, is_forward, makes_ranks_agree, trains, within_function

_MEMORY = ("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError")


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def exhausted_memory_ends_the_process(program: Program) -> Iterator[Finding]:
    """A step of a wrapped model that one rank leaves or repeats when its memory is exhausted.

    Memory is exhausted on one rank and not on the others, which are in the middle of their reduction.

    Bad: `except torch.cuda.OutOfMemoryError: torch.cuda.empty_cache(); continue`. Good: let it end the
    process, with a smaller batch for all ranks. Source: torch's notes on DDP.
    """
    for file in program.files:
        for statement in (*file.statements.get(ast.Try, ()), *file.statements.get(ast.TryStar, ())):
            assert isinstance(statement, ast.Try | ast.TryStar)
            going_on = [each for each in statement.handlers if _goes_on(program, each)]
            if not going_on:
                continue
            in_loop = any(isinstance(each, Loop) for each in within_function(statement))
            if not _retries(program, statement, going_on[0]) and not (in_loop and trains(program, statement)):
                continue
            yield found(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                going_on[0].type or going_on[0],
                "a rank whose memory is exhausted goes on from here, while the others are in the middle of "
                "reducing this step's gradients: from then on they do not match",
                remedy="Let the exception end the process, and train with a smaller batch or gradient "
                "checkpointing on all ranks.",
            )


def _goes_on(program: Program, handler: ast.ExceptHandler) -> bool:
    """Whether a handler of exhausted memory comes to its end without an error."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {program.qualified(each) for each in caught if each is not None}
    if any(isinstance(each, ast.Call) and makes_ranks_agree(each) for each in ast.walk(handler)):
        return False
    body = handler.body
    if names & set(_MEMORY):
        return not _ends(body)
    if not names & {"RuntimeError", "Exception"}:
        return False
    for number, statement in enumerate(body):
        test = ast.unparse(statement.test) if isinstance(statement, ast.If) else ""
        if isinstance(statement, ast.If) and "out of memory" in test.lower() and "not in" not in test:
            left = isinstance(statement.body[-1], ast.Continue | ast.Break | ast.Return)
            return not _ends(statement.body) and (left or not _ends(body[number + 1 :]))
    return False


def _ends(body: list[ast.stmt]) -> bool:
    """Whether anything in a block raises or ends the process."""
    for statement in body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Raise):
                return True
            if isinstance(node, ast.Call) and last_name(node.func) in ("exit", "_exit", "abort", "kill"):
                return True
    return False


def _retries(program: Program, statement: ast.Try | ast.TryStar, handler: ast.ExceptHandler) -> bool:
    """Whether a wrapped model's forward stands in a `try`, and again in its handler."""
    places = [
        any(
            isinstance(each, ast.Call) and is_forward(program, each)
            for part in block
            for each in ast.walk(part)
        )
        for block in (statement.body, handler.body)
    ]
    return all(places)


RULES = (exhausted_memory_ends_the_process,)
