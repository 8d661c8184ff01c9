"""Steps that some ranks skip or repeat, by what they alone see: a NaN, a clock, exhausted memory, a rank."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.distributed import DDP, FSDP
from launcher.scripts.origins import may_be
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, file_of, last_name, scope_of
from launcher.scripts.values import RankValue

_Loop = ast.For | ast.AsyncFor | ast.While

_FINITE = frozenset(
    f"{module}.{name}" for module in ("torch", "math", "numpy") for name in ("isnan", "isinf", "isfinite")
)
_FINITE_METHODS = frozenset({"isnan", "isinf", "isfinite"})
_CLOCKS = frozenset(
    {
        "time.time",
        "time.monotonic",
        "time.perf_counter",
        "time.process_time",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
    }
)
_SHARED = ("reduce", "gather", "broadcast", "agree", "sync", "vote", "consensus", "any_rank", "all_ranks")
"""In the names of what makes ranks see the same."""

_MEMORY = ("torch.cuda.OutOfMemoryError", "torch.OutOfMemoryError")


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def ranks_skip_steps_together(program: Program) -> Iterator[Finding]:
    """A NaN or a clock of one rank that skips or ends the steps of a wrapped model.

    The other ranks run backward and wait for this one's gradients; what it sends next is taken for them.
    Right where the value was reduced before, where the process ends with an error, and on what DDP has made
    alike already: gradients after backward.

    Bad: `if torch.isnan(loss): continue` before `loss.backward()`. Good: `dist.all_reduce(bad, op=MAX)`
    first. Source: torch's notes on DDP: every rank must run the same reductions.
    """
    for loop in _training_loops(program):
        for test, leaving in _departures(loop):
            word = _seen_alone(program, test, loop)
            if word is None:
                continue
            what = "ends its steps" if isinstance(leaving, ast.Break | ast.Return) else "skips a step"
            yield found(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                test,
                f"{word}: one rank {what} here while the others run backward and wait for its gradients; "
                "what it sends next is taken for them, and at the end they hang",
                remedy="Let all ranks decide alike: reduce the decision first, such as "
                "`dist.all_reduce(flag, op=dist.ReduceOp.MAX)`, and leave by it; or end the process with an "
                "error.",
                related=[note(leaving, "left here")],
            )


def _training_loops(program: Program) -> Iterator[_Loop]:
    """The innermost loops that run a wrapped model forward and backward."""
    seen: set[ast.AST] = set()
    for file in program.files:
        for backward in file.calls_of.get("backward", ()):
            loop = next((each for each in _within(backward) if isinstance(each, _Loop)), None)
            if loop is not None and loop not in seen:
                seen.add(loop)
                if _runs_wrapped(program, loop):
                    yield loop


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node within its function."""
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return
        yield outer


def _calls_in(block: ast.AST) -> list[ast.Call]:
    return [each for each in file_of(block).calls if block in _within(each)]


def _runs_wrapped(program: Program, block: ast.AST) -> bool:
    """Whether a block calls a model that DDP or FSDP wraps, and backward, with nothing like Join around."""
    calls = _calls_in(block)
    if not any(last_name(each.func) == "backward" for each in calls):
        return False
    around = [each for each in _within(block) if isinstance(each, ast.With)]
    if any("join" in ast.unparse(item.context_expr).lower() for each in around for item in each.items):
        return False
    return any(
        isinstance(each.func, ast.Name | ast.Attribute) and may_be(program, each.func, DDP, FSDP)
        for each in calls
    )


def _departures(loop: _Loop) -> Iterator[tuple[ast.expr, ast.stmt]]:
    """The tests in a loop after which this round, or the loop, is left; and a `while`'s own."""
    for node in ast.walk(loop):
        if not isinstance(node, ast.If) or not node.body:
            continue
        last = node.body[-1]
        inner = next((each for each in _within(node) if isinstance(each, _Loop)), None)
        if inner is loop and isinstance(last, ast.Continue | ast.Break | ast.Return):
            backwards = [each for each in _calls_in(loop) if last_name(each.func) == "backward"]
            if not isinstance(last, ast.Continue) or any(each.lineno > node.lineno for each in backwards):
                yield node.test, last


def _seen_alone(program: Program, test: ast.expr, loop: _Loop) -> str | None:
    """How a test depends on what one rank alone sees; None where it does not, or that is not known."""
    parts = [part for each in _with_sources(program, test) for part in ast.walk(each)]
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    if any(_is_shared(each) for each in parts if isinstance(each, ast.Call)) or _shared_before(
        names, test, loop
    ):
        return None
    for part in parts:
        if not isinstance(part, ast.Call):
            continue
        name = program.qualified(part.func)
        if name in _CLOCKS:
            return "the ranks' clocks differ"
        method = last_name(part.func) in _FINITE_METHODS
        if name in _FINITE or (method and isinstance(part.func, ast.Attribute) and name is None):
            asked = part.args[0] if part.args else part.func
            if _is_loss(program, asked, loop):
                return "the loss is this rank's own"
    return None


def _with_sources(program: Program, test: ast.expr) -> Iterator[ast.expr]:
    """A test, and what the names in it were just assigned."""
    yield test
    for part in ast.walk(test):
        if isinstance(part, ast.Name):
            for binding in program.evaluation.sources(part):
                if binding.value is not None and not isinstance(binding.node, ast.For):
                    yield binding.value


def _is_shared(call: ast.Call) -> bool:
    name = ast.unparse(call.func).lower()
    return any(word in name for word in _SHARED)


def _shared_before(names: set[str], test: ast.expr, loop: _Loop) -> bool:
    """Whether anything in the function makes the ranks agree on one of these names."""
    scope = scope_of(test)
    for call in file_of(loop).calls:
        if scope_of(call) is scope and _is_shared(call):
            given = {each.id for each in ast.walk(call) if isinstance(each, ast.Name)}
            if given & names:
                return True
    return False


def _is_loss(program: Program, asked: ast.expr, loop: _Loop) -> bool:
    """Whether something is what backward starts from in this loop, or its number."""
    names = {each.id for each in ast.walk(asked) if isinstance(each, ast.Name)}
    started: set[str] = set()
    for call in _calls_in(loop):
        if last_name(call.func) == "backward":
            started |= {each.id for each in ast.walk(call) if isinstance(each, ast.Name)}
    if names & started:
        return True
    return any(
        binding.value is not None
        and {each.id for each in ast.walk(binding.value) if isinstance(each, ast.Name)} & started
        for part in ast.walk(asked)
        if isinstance(part, ast.Name)
        for binding in program.evaluation.sources(part)
    )


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
            in_loop = any(isinstance(each, _Loop) for each in _within(statement))
            if not going_on or not in_loop or not _runs_wrapped(program, statement):
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
    if any(isinstance(each, ast.Call) and _is_shared(each) for each in ast.walk(handler)):
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


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def ranks_run_equally_many_steps(program: Program) -> Iterator[Finding]:
    """A loop over `range` of a rank that runs a wrapped model forward and backward.

    Bad: `for _ in range(2 + rank): model(x).backward()`. Good: a count that all ranks share. Source: torch's
    notes on DDP.
    """
    for loop in _training_loops(program):
        if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
            continue
        if program.qualified(loop.iter.func) != "range" or not loop.iter.args:
            continue
        ends = loop.iter.args[:2]
        starts_alike = len(ends) == 1 or not isinstance(program.value(ends[0]), RankValue)
        if starts_alike and isinstance(program.value(ends[-1]), RankValue):
            yield found(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                loop.iter,
                f"`{ast.unparse(loop.iter)}` is of another length on each rank: those with more rounds wait "
                "in backward for gradients that nobody sends",
                remedy="Use a count that all ranks share, or `with Join([model]):` around the loop.",
            )


RULES = (ranks_skip_steps_together, exhausted_memory_ends_the_process, ranks_run_equally_many_steps)
