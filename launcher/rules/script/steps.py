"""Steps that some ranks skip or repeat, by what they alone see: a NaN, a clock, a rank."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.guard import Guard
from launcher.scripts.program import Program
from launcher.scripts.scopes import file_of, last_name, parameters_of, parent_of, scope_of
from launcher.scripts.values import Defined, External, ModuleOf, RankKind, RankValue
from launcher.scripts.wrapped import (
    Loop,
    calls_in,
    makes_ranks_agree,
    training_loops,
    within_function,
)

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


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def ranks_skip_steps_together(program: Program) -> Iterator[Finding]:
    """A NaN or a clock of one rank that skips or ends the steps of a wrapped model.

    The other ranks run backward and wait for this one's gradients; what it sends next is taken for them.
    Right where the value was reduced before, where the process ends with an error, and on what DDP has made
    alike already: gradients after backward.

    Bad: `if torch.isnan(loss): continue` before `loss.backward()`. Good: `dist.all_reduce(bad, op=MAX)`
    first. Source: torch's notes on DDP: every rank must run the same reductions.
    """
    for loop in training_loops(program):
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


def _departures(loop: Loop) -> Iterator[tuple[ast.expr, ast.stmt]]:
    """The tests in a loop after which this round, or the loop, is left; and a `while`'s own."""
    backwards = [each for each in calls_in(loop) if last_name(each.func) == "backward"]
    for node in ast.walk(loop):
        if not isinstance(node, ast.If) or not node.body:
            continue
        last = node.body[-1]
        inner = next((each for each in within_function(node) if isinstance(each, Loop)), None)
        if inner is not loop or not isinstance(last, ast.Continue | ast.Break | ast.Return):
            continue
        if not isinstance(last, ast.Continue) or any(each.lineno > node.lineno for each in backwards):
            yield node.test, last


def _seen_alone(program: Program, test: ast.expr, loop: Loop) -> str | None:
    """How a test depends on what one rank alone sees; None where it does not, or that is not known."""
    parts = [part for each in _with_sources(program, test) for part in ast.walk(each)]
    names = {part.id for part in parts if isinstance(part, ast.Name) and _is_a_variable(program, part)}
    if any(makes_ranks_agree(each) for each in parts if isinstance(each, ast.Call)) or _shared_before(
        program, names, test, loop
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


def _is_a_variable(program: Program, name: ast.Name) -> bool:
    """Not a module or a member of one: `torch` in `torch.cuda.synchronize()` is nothing to agree on."""
    return not isinstance(program.value(name), External | ModuleOf)


def _shared_before(program: Program, names: set[str], test: ast.expr, loop: Loop) -> bool:
    """Whether anything in the function makes the ranks agree on one of these names."""
    scope = scope_of(test)
    for call in file_of(loop).calls:
        if scope_of(call) is scope and makes_ranks_agree(call):
            given = {each.id for each in ast.walk(call) if isinstance(each, ast.Name)}
            if given & names and not _shares_a_copy(program, call, names):
                return True
    return False


def _shares_a_copy(program: Program, call: ast.Call, names: set[str]) -> bool:
    """Whether a function of the program reduces a copy of what it is given, and its result goes elsewhere:
    `reduced = mean(loss)`, which begins with `tensor.clone()`."""
    statement, called = parent_of(call), program.value(call.func)
    if not isinstance(statement, ast.Assign) or not isinstance(called, Defined):
        return False
    targets = {
        each.id for target in statement.targets for each in ast.walk(target) if isinstance(each, ast.Name)
    }
    function = called.node
    if targets & names or not isinstance(function, ast.FunctionDef):
        return False
    parameters = {each.arg for each in parameters_of(function)}
    reading = [each for each in ast.walk(function) if isinstance(each, ast.Name) and each.id in parameters]
    return all(isinstance(each.ctx, ast.Load) and not _is_changed(each) for each in reading) and any(
        isinstance(each, ast.Call) and last_name(each.func) == "clone" for each in ast.walk(function)
    )


def _is_changed(name: ast.Name) -> bool:
    """Whether a use of a variable may change its tensor: handed to a call, kept, or by a method of its."""
    parent = parent_of(name)
    if isinstance(parent, ast.Attribute):
        return parent.attr.endswith("_") or parent.attr in ("data", "grad")
    return isinstance(parent, ast.Call | ast.keyword | ast.Starred | ast.Assign | ast.List | ast.Tuple)


def _is_loss(program: Program, asked: ast.expr, loop: Loop) -> bool:
    """Whether something is what backward starts from in this loop, or its number."""
    names = {each.id for each in ast.walk(asked) if isinstance(each, ast.Name)}
    started: set[str] = set()
    for call in calls_in(loop):
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
def ranks_run_equally_many_steps(program: Program) -> Iterator[Finding]:
    """A loop over `range` of a rank that runs a wrapped model forward and backward.

    The rank with one step more waits in it for gradients that no other rank sends.

    Bad: `for _ in range(2 + rank): model(x).backward()`. Good: a count that all ranks share. Source: torch's
    notes on DDP.
    """
    for loop in training_loops(program):
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


@finds(Stage.SCRIPT, ddp.COLLECTIVE_UNDER_RANK_GUARD)
def every_rank_stays_in_the_loop(program: Program) -> Iterator[Finding]:
    """A training loop that some ranks leave: the others wait for their gradients in backward.

    Backward under a guard is found with the other collectives.

    Bad: `if rank == 0: break` in the loop over batches. Good: a decision that all ranks share. Source:
    torch's notes on DDP.
    """
    for loop in training_loops(program):
        for test, leaving in _departures(loop):
            guard = _guard(program, test)
            if guard is not None and isinstance(leaving, ast.Break | ast.Return | ast.Continue):
                yield found(
                    ddp.COLLECTIVE_UNDER_RANK_GUARD,
                    leaving,
                    f"{guard.ranks} may leave here, and the others wait in backward for its gradients",
                    related=[note(test, "under this test")],
                )


def _guard(program: Program, test: ast.expr) -> Guard | None:
    """The ranks for which a test asks by their number; a place in a mesh or pipeline is another matter."""
    guard = program.guards.guard(test)
    return guard if guard is not None and guard.kind in (RankKind.GLOBAL, RankKind.LOCAL) else None


RULES = (ranks_skip_steps_together, ranks_run_equally_many_steps, every_rank_stays_in_the_loop)
