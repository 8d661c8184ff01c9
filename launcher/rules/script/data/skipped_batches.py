"""Batches that one rank skips, by what its own data say."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import all_arguments
from launcher.program.index import ancestors, ancestors_in_function, file_of, last_name, parent_of, scope_of
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.training_loops import calls_in, ends_process_well, makes_ranks_agree
from launcher.program.values import Defined, External, Instance, Made, Value
from launcher.rules.script.data.loaders import Loaders, names_in
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.forward_passes import draws_for_itself

_SIZES = frozenset({"len", "size", "numel", "dim", "shape", "ndim"})
"""What asks for sizes, which are alike where a sampler gives each rank as many."""

_FINITE = frozenset({"isnan", "isinf", "isfinite"})
"""What asks whether a loss is a number, of which another rule speaks."""

_ADDING = frozenset({"append", "extend", "add", "update", "appendleft", "push"})
_LIBRARIES = ("torch.", "math.", "numpy.", "builtins.")
_DEEPEST_STEP = 2
"""So many calls are followed from a training loop to what takes its steps."""


@finds(Stage.SCRIPT, data.UNEVEN_BATCHES)
def batches_are_skipped_together(program: Program) -> Iterator[Finding]:
    """A step that is skipped, or a loop that is left, by what the batch or the loss of this rank is.

    The other ranks run backward and wait for this one's gradients, and at the end some have batches that the
    others do not. A warning, as it hangs only once that comes. Not found where the ranks agree before,
    by any reduction, on sizes, or where Join is used; whether a loss is a number is another rule's question.

    Likewise what a generator or `filter` leaves out of the batches that it hands on, and a batch that is left
    out because its preparation failed.

    Bad: `if batch is None: continue`, or `if loss.item() < best: break`, in the loop over batches
    Good: make up a batch of zero weight; or `dist.all_reduce(flag, op=dist.ReduceOp.MAX)`, and leave by it.

    Source: torch.distributed.algorithms.Join documentation; torch's notes on DDP.
    """
    loaders = program.analysis(Loaders)
    if not loaders.calls or not loaders.is_data_parallel or may_be_evened(program):
        return
    for loop in loaders.training_loops:
        if loop.run is not None and loop.run.step is not None:
            given = {each.arg for each in loop.run.step.args.args[1:]}
            for test, leaving in _own_exits(loaders, loop.run.step, given, _DEEPEST_STEP):
                yield _skipping(test, leaving)
        if not isinstance(loop.node, ast.For) or not loop.ends_with_data:
            continue
        handing = _generator_of(program, loop.node.iter)
        inner = [*_loops_handing_on(handing)] if handing is not None else []
        epochs = [each for each in loaders.epoch_loops(loop.node) if isinstance(each, ast.For)]
        batch = names_of_batch(program, loop.node)
        kept = made_of_own(program, loop.node, batch) - batch
        around = [each for each in epochs if scope_of(each) is scope_of(loop.node)]
        exits = [
            *_own_exits(loaders, loop.node, batch, _DEEPEST_STEP),
            *(one for epoch in around for one in _own_exits(loaders, epoch, kept, 0)),
            *(one for each in inner for one in _own_exits(loaders, each, names_of_batch(program, each), 0)),
        ]
        for test, leaving in exits:
            yield _skipping(test, leaving)
    for file in program.files:
        for each in file.nodes(ast.For):
            taking = _filter_of(loaders, each)
            if taking is not None:
                yield _skipping(taking, each)


def _skipping(test: ast.expr, leaving: ast.stmt) -> Finding:
    skips = isinstance(leaving, ast.Continue | ast.If | ast.For)
    return finding_at(
        data.UNEVEN_BATCHES,
        leaving,
        f"one rank {'skips a step' if skips else 'ends its steps'} here by what only it sees, while the "
        "others run backward and wait for its gradients",
        severity=Severity.WARNING,
        remedy="Let all ranks decide alike: reduce the decision first, such as "
        "`dist.all_reduce(flag, op=dist.ReduceOp.MAX)`, or train on a batch that counts for nothing.",
        related=[related_at(test, "under this test")],
    )


def _filter_of(loaders: Loaders, loop: ast.For) -> ast.expr | None:
    """By what a training loop takes some batches of a loader and leaves others: of `filter(is_good, loader)`
    and `(batch for batch in loader if batch)`."""
    over = loop.iter
    if isinstance(over, ast.GeneratorExp) and over.generators[0].ifs:
        test, inner = over.generators[0].ifs[0], over.generators[0].iter
        alone = _decides_alone(loaders.program, test, names_in(over.generators[0].target), frozenset())
    elif isinstance(over, ast.Call) and loaders.program.qualified(over.func) == "filter" and over.args[1:]:
        test, inner, alone = over.args[0], over.args[1], True
    else:
        return None
    return test if alone and loaders.looped_over(inner) and loaders.trains(loop.body) else None


def names_of_batch(program: Program, loop: ast.For) -> set[str]:
    """The variables that hold a loop's batch, without the number that `enumerate` gives it."""
    batch, over = loop.target, loop.iter
    while isinstance(over, ast.Call) and over.args:
        if program.qualified(over.func) == "enumerate" and isinstance(batch, ast.Tuple):
            batch = batch.elts[-1]
        over = over.args[0]
    return names_in(batch)


def _generator_of(program: Program, over: ast.expr) -> ast.FunctionDef | None:
    """The generator of the program that hands a loop its batches."""
    called = program.value(over.func) if isinstance(over, ast.Call) else None
    function = called.node if isinstance(called, Defined) else None
    return function if isinstance(function, ast.FunctionDef) else None


def _loops_handing_on(function: ast.FunctionDef) -> Iterator[ast.For]:
    """The loops of a generator that yield in their turns."""
    for each in file_of(function).yields_of.get(function, ()):
        yield from (outer for outer in ancestors_in_function(each) if isinstance(outer, ast.For))


def _own_exits(
    loaders: Loaders, block: ast.For | ast.FunctionDef, own: set[str], deepest: int
) -> Iterator[tuple[ast.expr, ast.stmt]]:
    """Where a loop or a function is left before it trains, or does not train, by what is made of these names,
    with the test."""
    program = loaders.program
    own = made_of_own(program, block, own)
    others = _FINITE if loaders.trains(block.body) else frozenset[str]()
    for node in walk(block):
        if isinstance(node, ast.If) and not node.orelse and isinstance(block, ast.For):
            trained = _steps_in(loaders, node.body) and not _steps_in(
                loaders, [each for each in block.body if node not in (each, *walk(each))]
            )
            if trained and _decides_alone(program, node.test, own, others):
                yield node.test, node
        if not isinstance(node, ast.stmt) or not _leaves_before_training(loaders, block, node):
            continue
        around = list(ancestors(node))
        for outer in around[: around.index(block)]:
            if isinstance(outer, ast.If) and _decides_alone(program, outer.test, own, others):
                yield outer.test, node
                break
            if isinstance(outer, ast.ExceptHandler) and _is_of_preparation(loaders, outer, own):
                yield outer.type or ast.Name("Exception"), node
                break
    for call in calls_in(block) if deepest else ():
        called = program.value(call.func)
        if isinstance(called, Defined) and isinstance(called.node, ast.FunctionDef):
            bound = bind_arguments(called.node, call, called.owner is not None) or {}
            given = {name for name, each in bound.items() if tells_own(program, each, own)}
            if given and loaders.trains(called.node.body):
                yield from _own_exits(loaders, called.node, given, deepest - 1)


def _leaves_before_training(loaders: Loaders, block: ast.For | ast.FunctionDef, node: ast.stmt) -> bool:
    """Whether a statement leaves a loop or function, or this turn of it, and what it misses trains."""
    exits = ends_process_well(loaders.program, node)
    if not exits and not isinstance(node, ast.Break | ast.Continue | ast.Return):
        return False
    around = list(ancestors(node))
    inner = next((each for each in around if isinstance(each, _LEFT_BY.get(type(node), ()))), None)
    ends = inner is block or ((exits or isinstance(node, ast.Return)) and block in around)
    late = isinstance(block, ast.FunctionDef) or isinstance(node, ast.Continue)
    behind = [each for each in block.body if each.lineno > node.lineno]
    return ends and (not late or _steps_in(loaders, behind))


def _steps_in(loaders: Loaders, statements: list[ast.stmt]) -> bool:
    """Whether statements train, or hand a batch to who does."""
    yields = (each for one in statements for each in walk(one) if isinstance(each, ast.Yield))
    return loaders.trains(statements) or any(True for _ in yields)


def _decides_alone(program: Program, test: ast.expr, own: set[str], unless: frozenset[str]) -> bool:
    """Whether a test tells something of what is this rank's own, or of a number that it draws for itself, or
    whether there is anything at all in its batch."""
    parts = [*walk(test)]
    if any(isinstance(each, ast.Call) and draws_for_itself(program, each) for each in parts):
        return not any(isinstance(each, ast.Call) and makes_ranks_agree(each) for each in parts)
    return tells_own(program, test, own, unless) or any(
        isinstance(each, ast.Compare)
        and isinstance(each.comparators[0], ast.Constant)
        and each.comparators[0].value == 0
        and isinstance(each.ops[0], ast.Eq | ast.NotEq | ast.Gt)
        and _asks_for_size(each.left)
        and any(isinstance(part, ast.Name) and part.id in own for part in walk(each.left))
        for each in parts
    )


def _asks_for_size(node: ast.expr) -> bool:
    asked = node.func if isinstance(node, ast.Call) else node
    asked = asked.value if isinstance(asked, ast.Subscript) else asked
    return last_name(asked) in _SIZES


def _is_of_preparation(loaders: Loaders, handler: ast.ExceptHandler, own: set[str]) -> bool:
    """Whether a handler is for what may fail on one rank alone while its batch is prepared."""
    statement = parent_of(handler)
    caught = [] if handler.type is None else getattr(handler.type, "elts", [handler.type])
    if any(last_name(each) in _ENDINGS for each in caught) or not isinstance(statement, ast.Try):
        return False
    names = {each.id for one in statement.body for each in walk(one) if isinstance(each, ast.Name)}
    return bool(names & own) and not loaders.trains(statement.body)


_ENDINGS = ("StopIteration", "KeyboardInterrupt", "SystemExit", "ImportError", "AttributeError")
"""Exceptions by which all ranks end alike."""


_LEFT_BY: Mapping[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Break: (ast.For, ast.AsyncFor, ast.While),
    ast.Continue: (ast.For, ast.AsyncFor, ast.While),
    ast.Return: (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda),
}


def made_of_own(program: Program, block: ast.AST, own: set[str], surely: bool = True) -> set[str]:
    """The names, with these, of what is this rank's own: what is calculated from them, and the losses.

    Without `surely` also what functions make of them that are not seen here.
    """
    nodes = list(walk(block))
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    agreed = {name for each in calls if makes_ranks_agree(each) for name in names_in(each)}
    own = own | {
        name
        for each in calls
        if isinstance(each.func, ast.Attribute) and each.func.attr == "backward"
        for name in _losses_in(each.func.value)
    }
    for _ in range(3):
        for node in nodes:
            targets: list[ast.expr] = []
            values: list[ast.expr] = []
            if isinstance(node, ast.Assign | ast.AugAssign | ast.NamedExpr):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                values = [node.value]
            elif isinstance(node, ast.Call) and last_name(node.func) in _ADDING:
                targets = [node.func.value] if isinstance(node.func, ast.Attribute) else []
                values = all_arguments(node)
            inner = [each for value in values for each in walk(value) if isinstance(each, ast.Call)]
            named = {name for each in targets for name in _set_names(each)}
            if any(map(makes_ranks_agree, inner)):
                agreed |= named
            elif any(tells_own(program, each, own - agreed, surely=surely) for each in values):
                own = own | named
    return own - agreed


def _losses_in(node: ast.expr) -> set[str]:
    """The variables of which backward starts: `loss` of `scaler.scale(loss / params.steps)`."""
    if isinstance(node, ast.Call):
        inner = [*node.args] or ([node.func.value] if isinstance(node.func, ast.Attribute) else [])
    elif isinstance(node, ast.BinOp):
        inner = [node.left, node.right]
    else:
        inner = [node.value] if isinstance(node, ast.Subscript) else []
    return {node.id} if isinstance(node, ast.Name) else {name for each in inner for name in _losses_in(each)}


def _set_names(target: ast.expr) -> set[str]:
    """The variables that a target is: not those of whose objects an attribute or an item is set."""
    if isinstance(target, ast.Tuple | ast.List):
        return {name for each in target.elts for name in _set_names(each)}
    return {target.id} if isinstance(target, ast.Name) else set()


def tells_own(
    program: Program,
    node: ast.expr,
    own: set[str],
    unless: frozenset[str] = frozenset(),
    surely: bool = True,
) -> bool:
    """Whether an expression tells, surely or at all, something of what these names hold besides its size."""
    calls = [each for each in walk(node) if isinstance(each, ast.Call)]
    if any(makes_ranks_agree(each) or last_name(each.func) in unless for each in calls):
        return False
    asked = [program.value(each.func) for each in calls] if unless else []
    inner = [each for value in asked if isinstance(value, Defined) for each in calls_in(value.node)]
    if any(last_name(each.func) in unless for each in inner):
        return False
    if unless and any(map(unequal_to_itself, walk(node))):
        return False
    return any(
        isinstance(each, ast.Name) and each.id in own and _shows_through(program, each, node, surely)
        for each in walk(node)
    )


def _shows_through(program: Program, name: ast.Name, whole: ast.expr, surely: bool) -> bool:
    """Whether what stands around a name gives on what it holds, and surely is no unknown function."""
    inner: ast.AST = name
    while inner is not whole:
        outer = parent_of(inner)
        if outer is None:  # Of a list that is made of a call's further arguments.
            return True
        if isinstance(outer, ast.Attribute) and outer.attr in _SIZES:
            return False
        if isinstance(outer, ast.Call) and inner is not outer.func:
            called = program.value(outer.func)
            if isinstance(called, Made):  # `criterion(output, target)`
                called = program.evaluation.attributes.member_of(called.definition, "forward")
            library = called.name if isinstance(called, External | Instance) else last_name(outer.func)
            if isinstance(called, Defined):
                if any(map(makes_ranks_agree, calls_in(called.node))):
                    return False
            elif library in _SIZES or (surely and not _is_known(called)):
                return False
        inner = outer
    return True


def _is_known(called: Value) -> bool:
    """Whether it is a function of a library, or an object of torch's, that calculates with what it gets."""
    if isinstance(called, Instance):
        return called.name.startswith("torch.nn.")
    return isinstance(called, External) and ("." not in called.name or called.name.startswith(_LIBRARIES))


def unequal_to_itself(part: ast.AST) -> ast.expr | None:
    """What is compared with itself, as only NaN is not equal to itself: `loss != loss`."""
    if not isinstance(part, ast.Compare) or not isinstance(part.ops[0], ast.NotEq):
        return None
    return part.left if ast.dump(part.left) == ast.dump(part.comparators[0]) else None


def may_be_evened(program: Program) -> bool:
    """Whether the ranks may agree on the number of batches: by Join or DDP's `join`, or the least of all."""
    joins = (call for file in program.files for call in file.calls_of.get("join", ()))
    return any(isinstance(parent_of(each), ast.withitem) for each in joins) or any(
        name in names
        for file in program.files
        for name in ("Join", "MIN", "join_hook")
        for names in (file.names, file.attributes)
    )
