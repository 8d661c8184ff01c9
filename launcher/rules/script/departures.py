"""Training loops that one rank leaves, or in which it skips a step, by what it alone sees.

That is a NaN, a clock, its own rank, or a loss of its share of the data.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from itertools import takewhile

from launcher.failure_modes import checkpoints, ddp
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of
from launcher.program.index import (
    SCOPE,
    Binding,
    BindingKind,
    Scope,
    ancestors,
    ancestors_in_function,
    file_of,
    is_attribute_of_self,
    is_property,
    last_name,
    parameters_of,
    parent_of,
    scope_of,
    statement_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program, joining_calls
from launcher.program.ranks.divergence import collectives_run_by
from launcher.program.ranks.guards import Guards
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.training_loops import (
    Loop,
    calls_in,
    ends_process_well,
    makes_ranks_agree,
    runs_wrapped_model,
    trains_within,
    wrapped_training_loops,
)
from launcher.program.ranks.truths import Guard
from launcher.program.values import (
    Defined,
    External,
    Made,
    ModuleOf,
    RankKind,
    RankValue,
    Value,
)
from launcher.rules.script.data.loaders import Loaders, names_in
from launcher.rules.script.data.skipped_batches import (
    made_of_own,
    names_of_batch,
    tells_own,
    unequal_to_itself,
)
from launcher.rules.script.findings import finding_at, related_at

_FINITE = frozenset(
    f"{module}.{name}" for module in ("torch", "math", "numpy") for name in ("isnan", "isinf", "isfinite")
)
_FINITE_METHODS = frozenset({"isnan", "isinf", "isfinite"})
_COPYING = ("clone", "stack", "cat")
_CLOCKS = frozenset(f"time.{name}" for name in ("time", "monotonic", "perf_counter", "process_time")) | {
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
}


@finds(Stage.SCRIPT, ddp.COLLECTIVE_UNDER_RANK_GUARD)
def ranks_skip_steps_together(program: Program) -> Iterator[Finding]:
    """A NaN or a clock of one rank that skips or ends the steps of a wrapped model.

    The other ranks run backward and wait for this one's gradients; what it sends next is taken for them.
    Right where the value was reduced before, where the process ends with an error, and on what DDP has made
    alike already: gradients after backward.

    Bad: `if torch.isnan(loss): continue` before `loss.backward()`. Good: `dist.all_reduce(bad, op=MAX)`
    first. Source: torch's notes on DDP: every rank must run the same reductions.
    """
    for loop in (*wrapped_training_loops(program), *_wrapped_training_steps(program)):
        for test, leaving in _departures(program, loop):
            word = _seen_alone(program, test, loop)
            if word is None:
                continue
            skips = isinstance(leaving, ast.Continue) or isinstance(loop, ast.FunctionDef)
            what = "skips a step" if skips else "ends its steps"
            tests = [
                each for each in ancestors(leaving) if isinstance(each, ast.If) and loop in ancestors(each)
            ]
            yield finding_at(
                ddp.COLLECTIVE_UNDER_RANK_GUARD,
                test,
                f"{word}: one rank {what} here while the others run backward and wait for its gradients; "
                "what it sends next is taken for them, and at the end they hang",
                severity=Severity.WARNING if len(tests) > 1 else None,
                remedy="Let all ranks decide alike: reduce the decision first, such as "
                "`dist.all_reduce(flag, op=dist.ReduceOp.MAX)`, and leave by it; or end the process with an "
                "error.",
                related=[related_at(leaving, "left here")],
            )


def _wrapped_training_steps(program: Program) -> Iterator[ast.FunctionDef]:
    """The functions that run a wrapped model forward and backward once, for the loop that calls them."""
    for file in program.files:
        for backward in file.calls_of.get("backward", ()):
            scope = scope_of(backward).function
            function = None if scope is None else scope.node
            looped = any(isinstance(each, Loop) for each in ancestors_in_function(backward))
            if isinstance(function, ast.FunctionDef) and not looped and runs_wrapped_model(program, function):
                yield function


def _departures(program: Program, loop: Loop | ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.stmt]]:
    """The tests in a loop after which this round, or the loop, is left, or its backward is left out."""
    backwards = [each for each in calls_in(loop) if last_name(each.func) == "backward"]
    for node in (each for each in walk(loop) if isinstance(each, ast.If)):
        around = [*takewhile(lambda each: each is not loop, ancestors_in_function(node))]
        if any(isinstance(each, Loop) for each in around):
            continue
        behind = any(each.lineno > node.lineno for each in backwards)
        for arm, other in ((node.body, node.orelse), (node.orelse, node.body)):
            last = arm[-1] if arm else node
            leaves = isinstance(last, ast.Break | ast.Return) or ends_process_well(program, last)
            leaves = leaves and (behind or isinstance(loop, Loop))
            if leaves or (isinstance(last, ast.Continue) and behind):
                yield from ((each.test, last) for each in (node, *around) if isinstance(each, ast.If))
            elif _holds(other, backwards) and not _holds(arm, backwards):
                yield node.test, last


def _holds(block: list[ast.stmt], calls: list[ast.Call]) -> bool:
    return any(outer in block for each in calls for outer in ancestors(each))


def _seen_alone(program: Program, test: ast.expr, loop: Loop | ast.FunctionDef) -> str | None:
    """How a test depends on what one rank alone sees; None where it does not, or that is not known."""
    parts = [part for each in _with_sources(program, test) for part in walk(each)]
    names = {part.id for part in parts if isinstance(part, ast.Name) and _is_a_variable(program, part)}
    calls = [each for each in parts if isinstance(each, ast.Call)]
    if any(map(makes_ranks_agree, calls)) or _shared_before(program, names, test, loop):
        return None
    if any(_is_loss(program, each, loop) for each in map(unequal_to_itself, parts) if each is not None):
        return "the loss is this rank's own"
    for read in (each for each in parts if isinstance(each, ast.Attribute)):
        for binding in program.evaluation.sources(read):
            node = binding.node if is_property(binding.node) else None
            if isinstance(node, ast.FunctionDef) and _reads_a_clock(program, Defined(node)):
                return "the ranks' clocks differ"
    if any(_is_raised_by_signal(program, each) for each in parts):
        return "a signal comes to each process at its own moment"
    for part in calls:
        name, called = program.qualified(part.func), program.value(part.func)
        if name in _CLOCKS or _reads_a_clock(program, called):
            return "the ranks' clocks differ"
        inner = calls_in(called.node) if isinstance(called, Defined) and part.args else []
        if _FINITE_METHODS & {last_name(each.func) for each in inner} and not any(
            map(makes_ranks_agree, inner)
        ):
            name = "torch.isfinite"
        method = last_name(part.func) in _FINITE_METHODS
        if name in _FINITE or (method and isinstance(part.func, ast.Attribute) and name is None):
            asked = part.args[0] if part.args else part.func
            if _is_loss(program, asked, loop):
                return "the loss is this rank's own"
    return None


def _is_raised_by_signal(program: Program, part: ast.AST) -> bool:
    """Whether this is a flag that the handler of a signal sets."""
    if not isinstance(part, ast.Name | ast.Attribute):
        return False
    handlers = [argument_of(call, "handler", 1) for call, _ in program.calls("signal.signal")]
    called = [program.value(each) for each in handlers if each is not None]
    functions = {each.node for each in called if isinstance(each, Defined)}
    return any(
        SCOPE in each.node.__dict__ and scope_of(each.node).node in functions
        for each in (program.evaluation.sources(part) if functions else ())
    )


def _reads_a_clock(program: Program, called: Value) -> bool:
    """Whether a function of the program gives what is left of the time, by this rank's clock."""
    function = called.node if isinstance(called, Defined) else None
    if not isinstance(function, ast.FunctionDef) or _agrees(program, function):
        return False
    given = file_of(function).returns_of.get(function, ())
    read = {
        part.id
        for call in calls_in(function)
        if program.qualified(call.func) in _CLOCKS and isinstance(made := statement_of(call), ast.Assign)
        for target in made.targets
        for part in walk(target)
        if isinstance(part, ast.Name)
    }
    parts = [part for each in given if each.value is not None for part in walk(each.value)]
    return any(
        (isinstance(part, ast.Name) and part.id in read)
        or (isinstance(part, ast.Call) and program.qualified(part.func) in _CLOCKS)
        for part in parts
    )


def _with_sources(program: Program, test: ast.expr) -> Iterator[ast.expr]:
    """A test, and what the names in it were just assigned."""
    yield test
    for part in walk(test):
        if isinstance(part, ast.Name):
            for binding in program.evaluation.sources(part):
                if binding.value is not None and not isinstance(binding.node, ast.For):
                    yield binding.value


def _is_a_variable(program: Program, name: ast.Name) -> bool:
    """Not a module or a member of one: `torch` in `torch.cuda.synchronize()` is nothing to agree on."""
    return not isinstance(program.value(name), External | ModuleOf)


def _shared_before(program: Program, names: set[str], test: ast.expr, place: ast.AST) -> bool:
    """Whether anything in the function makes the ranks agree on one of these names."""
    return any(
        names_in(call) & names and not _shares_a_copy(program, call, names)
        for call in file_of(place).calls_in_scope.get(scope_of(test).node, ())
        if makes_ranks_agree(call)
    )


def _shares_a_copy(program: Program, call: ast.Call, names: set[str]) -> bool:
    """Whether a function of the program reduces a copy of what it is given, and its result goes elsewhere:
    `reduced = mean(losses)`, which begins with `tensor.clone()` or stacks the losses of a dict."""
    statement, called = parent_of(call), program.value(call.func)
    if not isinstance(statement, ast.Assign) or not isinstance(called, Defined):
        return False
    targets = {name for each in statement.targets for name in names_in(each)}
    function = called.node
    if targets & names or not isinstance(function, ast.FunctionDef):
        return False
    parameters = {each.arg for each in parameters_of(function)}
    reading = [each for each in walk(function) if isinstance(each, ast.Name) and each.id in parameters]
    return all(isinstance(each.ctx, ast.Load) and not _is_changed(each) for each in reading) and any(
        isinstance(each, ast.Call) and last_name(each.func) in _COPYING for each in walk(function)
    )


def _is_changed(name: ast.Name) -> bool:
    """Whether a use of a variable may change its tensor: handed to a call, kept, or by a method of its."""
    parent = parent_of(name)
    if isinstance(parent, ast.Attribute):
        return parent.attr.endswith("_") or parent.attr in ("data", "grad")
    return isinstance(parent, ast.Call | ast.keyword | ast.Starred | ast.Assign | ast.List | ast.Tuple)


def _is_loss(program: Program, asked: ast.expr, loop: Loop | ast.FunctionDef) -> bool:
    """Whether something is what backward starts from in this loop, or its number."""
    backwards = [each for each in calls_in(loop) if last_name(each.func) == "backward"]
    started = {name for each in backwards for name in names_in(each)}
    if names_in(asked) & started:
        return True
    return any(
        binding.value is not None and names_in(binding.value) & started
        for part in walk(asked)
        if isinstance(part, ast.Name)
        for binding in program.evaluation.sources(part)
    )


@finds(Stage.SCRIPT, ddp.COLLECTIVE_UNDER_RANK_GUARD)
def ranks_run_equally_many_steps(program: Program) -> Iterator[Finding]:
    """A loop over `range` of a rank that runs a wrapped model forward and backward.

    The rank with one step more waits in it for gradients that no other rank sends.

    Bad: `for _ in range(2 + rank): model(x).backward()`. Good: a count that all ranks share. Source: torch's
    notes on DDP.
    """
    for loop in wrapped_training_loops(program):
        if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
            continue
        if program.qualified(loop.iter.func) != "range" or not loop.iter.args:
            continue
        ends = loop.iter.args[:2]
        starts_alike = len(ends) == 1 or not isinstance(program.value(ends[0]), RankValue)
        if starts_alike and isinstance(program.value(ends[-1]), RankValue):
            yield finding_at(
                ddp.COLLECTIVE_UNDER_RANK_GUARD,
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
    for loop in wrapped_training_loops(program):
        for test, leaving in _departures(program, loop):
            guard = _guard(program, test)
            if guard is not None and isinstance(leaving, ast.Break | ast.Return | ast.Continue):
                yield finding_at(
                    ddp.COLLECTIVE_UNDER_RANK_GUARD,
                    leaving,
                    f"{guard.described} may leave here, and the others wait in backward for its gradients",
                    related=[related_at(test, "under this test")],
                )


def _guard(program: Program, test: ast.expr) -> Guard | None:
    """The ranks for which a test asks by their number; a place in a mesh or pipeline is another matter."""
    guard = program.analysis(Guards).guard(test)
    return guard if guard is not None and guard.kind in (RankKind.GLOBAL, RankKind.LOCAL) else None


@finds(Stage.SCRIPT, ddp.COLLECTIVE_UNDER_RANK_GUARD)
def ranks_stop_together(program: Program) -> Iterator[Finding]:
    """A training that a rank ends by what it alone has measured: a loss of its own share of the data.

    With a DistributedSampler the losses of the ranks differ. The first rank whose patience is over leaves the
    loop, and the others wait for it in the next backward. A warning. Found where what is compared, or what an
    object of the program is told that counts its patience, comes from a loop over a loader that is split
    between the ranks; silent where anything reduces, gathers or sends it, and where a rank alone decides.
    `dist.reduce` gives the sum to one rank, and leaves the others what they had.

    Bad: `if evaluate(model, val_loader) > best: bad += 1`, then `if bad > 5: break`, with a split loader.
    Good: `dist.all_reduce(loss)` before it is compared.
    Source: torch's notes on DDP: every rank must run the same reductions.
    """
    loaders = program.analysis(Loaders)
    if not loaders.samplers:
        return
    for file in program.files:
        for loop in (each for kind in (ast.For, ast.While) for each in file.nodes(kind)):
            assert isinstance(loop, Loop)
            if isinstance(loop, ast.For):
                yield from _exits_in_evaluation(loaders, loop)
            ending = _ends_by_test(program, loop)
            if not ending or not trains_within(program, loop):
                continue
            for test, leaving in ending:
                counting = [*_objects_asked(program, test, loop)]
                measured = _measured_alone(loaders, test, loop, [call for call, _ in counting])
                if measured is not None and program.analysis(Guards).guard(test) is None:
                    yield finding_at(
                        ddp.COLLECTIVE_UNDER_RANK_GUARD,
                        leaving,
                        "each rank decides by its own share of the data whether it stops here: the first one "
                        "that does lets the others wait in the next backward",
                        severity=Severity.WARNING,
                        remedy="Let all ranks decide alike: `dist.all_reduce` what is compared, or the flag.",
                        related=[
                            related_at(test, "decided here"),
                            *(related_at(each, "which is set here") for _, each in counting),
                            related_at(measured, "measured on this rank's share alone"),
                        ],
                    )


def _exits_in_evaluation(loaders: Loaders, loop: ast.For) -> Iterator[Finding]:
    """Where a rank ends its process as if all were done, by what it sees in a loop that does not train."""
    program = loaders.program
    leaving = [
        (node.test, node.body[-1])
        for node in walk(loop)
        if isinstance(node, ast.If) and ends_process_well(program, node.body[-1])
    ]
    if not leaving or loaders.trains(loop.body) or not _is_over_a_share(loaders, loop):
        return
    own = made_of_own(program, loop, names_of_batch(program, loop))
    for test, last in leaving:
        if tells_own(program, test, own) and program.analysis(Guards).guard(test) is None:
            yield finding_at(
                ddp.COLLECTIVE_UNDER_RANK_GUARD,
                last,
                "a rank ends here, as if all were done, by what it sees in its own share of the data: the "
                "others go on, and wait for it in the next backward",
                severity=Severity.WARNING,
                remedy="End with an error, such as `raise` or `sys.exit(1)`, which ends all ranks; or let "
                "all of them decide alike: `dist.all_reduce` the flag.",
                related=[related_at(test, "decided here")],
            )


def _ends_by_test(program: Program, loop: Loop) -> list[tuple[ast.expr, ast.stmt]]:
    """The tests that end a loop, or the process as if all were done, with the statement that does."""
    found: list[tuple[ast.expr, ast.stmt]] = []
    if isinstance(loop, ast.While):
        found.append((loop.test, loop))
    for node in (each for each in walk(loop) if isinstance(each, ast.If)):
        inner = next((each for each in ancestors_in_function(node) if isinstance(each, Loop)), None)
        last = node.body[-1] if inner is loop else node
        if isinstance(last, ast.Break | ast.Return) or ends_process_well(program, last):
            found.append((node.test, last))
    return found


def _objects_asked(program: Program, test: ast.expr, loop: Loop) -> Iterator[tuple[ast.Call, ast.AST]]:
    """The calls in a loop by which an object of the program is told what a test of its attribute depends on,
    such as `stopper(loss)` before `if stopper.stop`, and where their method sets that."""
    asked = [each for each in walk(test) if isinstance(each, ast.Attribute)]
    for call in calls_in(loop) if asked else ():
        method, owner = _function_run(program, call), call.func
        if method is not None and method.name != "__call__" and isinstance(owner, ast.Attribute):
            owner = owner.value
        for each in asked:
            setting = [] if method is None else _settings(method, each.attr)
            if setting and ast.dump(each.value) == ast.dump(owner):
                yield call, setting[-1]


def _settings(method: ast.FunctionDef, name: str) -> list[ast.AST]:
    """Where a method sets an attribute of its own object."""
    stored = (each.node for each in file_of(method).set_attributes.get(name, ()))
    return [
        each
        for each in stored
        if scope_of(each).node is method
        and isinstance(each, ast.Attribute)
        and is_attribute_of_self(each, method)
    ]


def _function_run(program: Program, call: ast.Call) -> ast.FunctionDef | None:
    """The function of the program that a call runs, also `__call__` of an object."""
    called = program.value(call.func)
    if isinstance(called, Made):
        called = program.evaluation.attributes.member_of(called.definition, "__call__")
    node = called.node if isinstance(called, Defined) else None
    return node if isinstance(node, ast.FunctionDef) else None


def _measured_alone(loaders: Loaders, test: ast.expr, loop: Loop, telling: list[ast.Call]) -> ast.AST | None:
    """Where a rank measures alone what a test asks for, or what counts that: a loop over its share.

    `telling` are the calls that give an object of which the test asks what it counts by.
    """
    program, scope = loaders.program, scope_of(test)
    asking = [each for each in walk(test) if isinstance(each, ast.Call)]
    if any(_is_decided_elsewhere(program, each, loop) for each in (*asking, *telling)):
        return None
    seen = set[str]()
    for one in (test, *telling):
        found = _loop_over_a_share(loaders, one, one, loop)
        if found is not None and not _is_agreed(program, test, seen):
            return found
    waiting = [part for one in (test, *telling) for part in walk(one)]
    asked = set[str]()
    while waiting:
        place = waiting.pop()
        if not isinstance(place, ast.Name | ast.Attribute) or ast.unparse(place) in asked:
            continue
        asked.add(ast.unparse(place))
        seen |= {place.id} if isinstance(place, ast.Name) else set()
        bindings = [each for each in _set_in(scope, place) if loop in ancestors(each.node)]
        made = [part for each in bindings if each.value is not None for part in walk(each.value)]
        if any(isinstance(each, ast.Call) and _is_unknown(each) for each in made):
            return None
        for binding in bindings:
            if binding.value is None or binding.kind is BindingKind.LOOPED:
                continue
            for outer in takewhile(lambda each: each is not loop, ancestors_in_function(binding.node)):
                if isinstance(outer, ast.If):
                    waiting += walk(outer.test)
            found = _loop_over_a_share(loaders, binding.value, binding.node, loop, binding.item)
            if found is not None:
                return None if _is_agreed(loaders.program, test, seen) else found
            waiting += walk(binding.value)
    return None


def _set_in(scope: Scope, place: ast.Name | ast.Attribute) -> list[Binding]:
    """Where a function sets a variable of its own, or an attribute that is written like this one."""
    if isinstance(place, ast.Name):
        return scope.bindings.get(place.id, []) if scope.holder_of(place.id) is scope else []
    stored = scope.file.set_attributes.get(place.attr, ())
    written = ast.unparse(place)
    return [
        each
        for each in stored
        if SCOPE in each.node.__dict__ and scope_of(each.node) is scope and ast.unparse(each.node) == written
    ]


def _is_decided_elsewhere(program: Program, call: ast.Call, loop: Loop) -> bool:
    """Whether a call may make the ranks agree itself, or one rank alone comes to it in the loop."""
    around = takewhile(lambda each: each is not loop, ancestors_in_function(call))
    tests = [each.test for each in around if isinstance(each, ast.If)]
    return _is_decided_in(program, call) or any(
        program.analysis(Guards).guard(each) is not None for each in tests
    )


def _is_unknown(call: ast.Call) -> bool:
    """Whether a function is called that is not seen here, and may make the ranks agree."""
    name = call.func.id if isinstance(call.func, ast.Name) else None
    return name is not None and scope_of(call).holder_of(name) is None and not hasattr(builtins, name)


def _is_agreed(program: Program, test: ast.expr, names: set[str]) -> bool:
    """Whether anything in the function makes the ranks agree on one of these names, or a rank sends one."""
    return _shared_before(program, names, test, test) or any(
        isinstance(each, ast.Name) and isinstance(program.value(each), RankValue)
        for each in walk(scope_of(test).node)
        if isinstance(each, ast.Name) and each.id in names
    )


def _loop_over_a_share(
    loaders: Loaders, value: ast.expr, node: ast.AST, loop: Loop, item: object = None
) -> ast.AST | None:
    """The loop over a split loader in which a value is summed up, here or in the function that gives it."""
    program = loaders.program
    around = takewhile(lambda each: each is not loop, ancestors_in_function(node))
    for inner in (each for each in around if isinstance(each, ast.For)):
        called_names = {last_name(each.func) for each in calls_in(inner)}
        if "backward" in called_names or any(map(makes_ranks_agree, calls_in(inner))):
            continue  # The loss of the last batch is another rule's.
        if _is_over_a_share(loaders, inner) and _may_tell(program, value, inner, inner):
            return inner
    for call in (each for each in walk(value) if isinstance(each, ast.Call)):
        called = program.value(call.func)
        function = called.node if isinstance(called, Defined) else None
        if not isinstance(function, ast.FunctionDef) or _agrees(program, function):
            continue
        given = [_element(each.value, item) for each in file_of(function).returns_of.get(function, ())]
        for each in file_of(function).nodes(ast.For):
            if (
                scope_of(each).node is function
                and _is_over_a_share(loaders, each)
                and any(_may_tell(program, one, function, each) for one in given if one is not None)
            ):
                return call
    return None


def _element(given: ast.expr | None, item: object) -> ast.expr | None:
    """What a name gets of a returned tuple, `score` in `count, score = evaluate()`; else all of it."""
    if isinstance(given, ast.Tuple) and isinstance(item, int) and item < len(given.elts):
        return given.elts[item]
    return given


def _may_tell(program: Program, given: ast.expr, block: ast.For | ast.FunctionDef, share: ast.For) -> bool:
    """Whether a value may say something of the batches of this rank, and not only how many they are."""
    own = made_of_own(program, block, names_of_batch(program, share), surely=False)
    return tells_own(program, given, own, surely=False)


def _is_over_a_share(loaders: Loaders, loop: ast.For) -> bool:
    over = loaders.looped_over(loop.iter)
    return bool(over) and all(loaders.samplers_of(each) for each in over or ())


def _agrees(program: Program, function: ast.FunctionDef, depth: int = 3) -> bool:
    """Whether a function, or one that it calls, may make the ranks agree."""
    for call in calls_in(function):
        called = program.value(call.func)
        if makes_ranks_agree(call) or (last_name(call.func) == "compute" and not isinstance(called, Defined)):
            return True  # A metric's `compute` is over all ranks with torchmetrics.
        inner = called.node if isinstance(called, Defined) else None
        if isinstance(inner, ast.FunctionDef) and depth and _agrees(program, inner, depth - 1):
            return True
    return False


@finds(Stage.SCRIPT, ddp.COLLECTIVE_UNDER_RANK_GUARD, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK)
def collectives_wait_for_no_clock(program: Program) -> Iterator[Finding]:
    """A collective under a test of the time, which each rank asks its own clock for.

    At the boundary one rank's clock is over it and another's is not yet: those that run the collective wait
    for the others, which are in the next step. Where it writes a checkpoint it is CKPT003, else DDP004. A
    warning, as it happens once in many times. Silent where one rank decides, where the decision is reduced or
    sent, and where the loop is left: that is another rule's.

    Bad: `if time.time() - saved > 3600: dcp.save(state)`. Good: `if step % 1000 == 0:`, or a decision of rank
    0 that is broadcast. Source: torch's notes on DDP: every rank must run the same reductions.
    """
    if not any(True for _ in joining_calls(program)) or not any(True for _ in program.calls(*_CLOCKS)):
        return
    for file in program.files:
        for node in file.nodes(ast.If):
            if isinstance(node.body[-1], ast.Break | ast.Return | ast.Continue):
                continue
            runs = collectives_run_by(program, node.body)
            clock = _clock_asked(program, node.test) if runs else None
            if clock is not None and not isinstance(
                program.analysis(Participants).ranks_running(runs[0].node), Guard
            ):
                saves = runs[0].collective.gathers_state
                yield finding_at(
                    checkpoints.STATE_DICT_NOT_ON_EVERY_RANK if saves else ddp.COLLECTIVE_UNDER_RANK_GUARD,
                    node.test,
                    f"each rank asks its own clock whether it runs {runs[0].short_name}: one that is not yet "
                    "over the limit goes on, and the others wait for it until the timeout",
                    severity=Severity.WARNING,
                    remedy="Decide by the step, or let rank 0 decide and `dist.broadcast` it.",
                    related=[
                        related_at(clock, "this rank's clock"),
                        related_at(runs[0].node, f"{runs[0].short_name} under it"),
                    ],
                )


def _clock_asked(program: Program, test: ast.expr) -> ast.Call | None:
    """The clock that a comparison depends on, where nothing makes the ranks agree on what it says."""
    if not any(isinstance(each, ast.Compare) for each in walk(test)):
        return None
    names, calls, waiting = set[str](), list[ast.Call](), [(test, _DEEPEST_SOURCE)]
    while waiting:
        whole, depth = waiting.pop()
        for part in walk(whole):
            if isinstance(part, ast.Call):
                calls.append(part)
            if isinstance(part, ast.Name) and depth and _is_a_variable(program, part):
                names.add(part.id)
                sources = program.evaluation.sources(part)
                known = [each.value for each in sources if each.kind is BindingKind.ASSIGNED]
                waiting += [(each, depth - 1) for each in known if each is not None]
    clock = next((each for each in reversed(calls) if program.qualified(each.func) in _CLOCKS), None)
    if clock is None or any(makes_ranks_agree(each) or _is_decided_in(program, each) for each in calls):
        return None
    decided = program.analysis(Guards).guard(test) is not None or _shared_before(program, names, test, test)
    return None if decided else clock


_DEEPEST_SOURCE = 3
"""So many assignments are followed from a test to the clock."""


def _is_decided_in(program: Program, call: ast.Call) -> bool:
    """Whether a function of the program lets the ranks agree."""
    function = _function_run(program, call)
    return function is not None and _agrees(program, function)


STEP_RULES = (
    collectives_wait_for_no_clock,
    ranks_skip_steps_together,
    ranks_run_equally_many_steps,
    every_rank_stays_in_the_loop,
    ranks_stop_together,
)
