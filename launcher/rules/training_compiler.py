"""Training through torch_xla, as Training Compiler starts it: what only the script can do there.

The rules speak of programs that use torch_xla themselves: Trainer, Accelerator and Lightning do all this.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import training_compiler
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import all_arguments, argument_of, origins, parts_of
from launcher.program.index import (
    FunctionNode,
    ancestors,
    ancestors_in_function,
    default_of,
    file_of,
    is_main_guard,
    last_name,
    parent_of,
    positional_of,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.participants import Closure
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.training_loops import (
    Loop,
    LoopReach,
    gives_places,
    is_listed,
    iterated_object,
    looped_within,
    losses,
)
from launcher.program.ranks.truths import Truth, compare_values
from launcher.program.surroundings.loader_classes import LOADER
from launcher.program.surroundings.options import option_of
from launcher.program.values import INIT_PROCESS_GROUP, UNKNOWN, Constant, Defined, Instance
from launcher.rules.script.data.loaders import Loaders
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at
from launcher.rules.script.starts.job_run import given_option
from launcher.rules.worker_seeds import is_each_workers_own, seeds_of_torch, seeds_that_are_listed

# The names of torch_xla and of what stands beside it.


_STEPS = frozenset({"mark_step", "sync", "step", "wait_device_ops", "compile"})
"""What of torch_xla runs the graph that it has recorded."""

_SHARING_WRAPPERS = frozenset(
    {"DistributedDataParallel", "FullyShardedDataParallel", "XlaFullyShardedDataParallel"}
    | {"SpmdFullyShardedDataParallel", "mark_sharding", "use_spmd"}
)
_REDUCES = frozenset({"optimizer_step", "reduce_gradients", "all_reduce", "reduce_scatter", "all_gather"})
"""The names of what shares gradients between workers."""

_READS = frozenset({"item", "tolist", "numpy", "cpu"})
"""The methods that bring a tensor's values to the host."""

_SHOWING = frozenset({"float", "print", "master_print", "info", "debug", "set_postfix", "add_scalar"})
"""What does so with what it is given."""

_MAKE_ALIKE = (
    frozenset({"MpModelWrapper", "broadcast_master_param", "broadcast", "collective_broadcast"})
    | _SHARING_WRAPPERS
)
"""The names of what gives every worker the same weights."""

_RANDOM_LAYERS = re.compile(
    r"torch\.nn\.(?:Lazy)?(?:Linear|Bilinear|Conv|Embedding|LSTM|GRU|RNN|Transformer|MultiheadAttention)\w*"
)
_NEW_HEADS = frozenset({"num_labels", "id2label", "num_classes"})
"""What a pretrained model is told whose last layer is new."""


@finds(Stage.SCRIPT, training_compiler.NO_MP_FN)
def worker_function_takes_the_index(program: Program) -> Iterator[Finding]:
    """A function that torch_xla calls once for each worker, without a place for the worker's index.

    The launcher and xmp.spawn call it with the index first: TypeError in every worker.
    Whether `_mp_fn` is missing is seen with a job alone, whose strategy asks for it.

    Bad: `def _mp_fn():`. Good: `def _mp_fn(index):`.

    Source: the sources of XLA002.
    """
    if not uses_xla(program):
        return
    for function in program.entry.functions:
        if (
            function.name == "_mp_fn"
            and scope_of(function).node is program.entry.tree
            and _takes_nothing(function)
            and not any(True for _ in program.calls(INIT_PROCESS_GROUP))  # Then torchrun starts it.
        ):
            yield _without_index(function, "the launcher calls it with the index of the worker")
    for call, name in program.calls(*SPAWNS):
        target = program.value(call.args[0]) if call.args else None
        if (
            not isinstance(target, Defined)
            or isinstance(target.node, ast.ClassDef)
            or target.owner is not None
        ):
            continue
        called = getattr(target.node, "name", "")
        if called != "_mp_fn" and _takes_nothing(target.node):
            yield _without_index(
                target.node, f"{name.rpartition('.')[2]} calls it with the index of the worker"
            )


@finds(Stage.SCRIPT, training_compiler.NO_MP_FN)
def entry_point_has_a_worker_function(subject: ScriptSubject) -> Iterator[Finding]:
    """A script without `_mp_fn`, which Training Compiler's launcher imports and calls for each worker.

    Without it every worker ends as soon as it starts. Only with `strategy: torch_xla`. What stands under the
    main guard is not there for who imports the script.

    Bad: a script that only has `main()`. Good: `def _mp_fn(index): main()`.

    Source: the sources of XLA002.
    """
    entry = subject.program.entry
    if str(subject.job.distribution.strategy) != "torch_xla":
        return
    held = [each.node for each in entry.module.bindings.get("_mp_fn", ())]
    if all(map(_is_of_the_started, held)) and not entry.stars:
        spawned = [call.args[0] for call, _ in subject.program.calls(*SPAWNS) if call.args]
        workers = [each.node for each in map(subject.program.value, spawned) if isinstance(each, Defined)]
        near = [each for each in entry.functions if each.name == "_mp_fn"]  # A method, or under the guard.
        message = (
            "the launcher of torch_xla imports the script and calls _mp_fn(index), which it does not have"
        )
        message += " as a function of the module" if near else ""
        yield finding_at(training_compiler.NO_MP_FN, [*near, *workers, entry.tree][0], message)
    only = held[0] if len(held) == 1 else None
    if isinstance(only, ast.FunctionDef) and not only.decorator_list:
        lacking = [each.arg for each in positional_of(only)[1:] if default_of(only, each.arg) is None]
        for name in lacking[:1]:
            message = f"the launcher gives _mp_fn the index alone: TypeError, as {name} is missing"
            yield finding_at(training_compiler.NO_MP_FN, only, message)


def _is_of_the_started(node: ast.AST) -> bool:
    """Whether something runs only where its module is started, and not where it is imported."""
    return any(isinstance(each, ast.If) and is_main_guard(each.test) for each in ancestors(node))


@finds(Stage.SCRIPT, training_compiler.NO_MARK_STEP)
def steps_are_run(program: Program) -> Iterator[Finding]:
    """A training loop that never tells torch_xla to run what it has recorded, or reads values before it does.

    The graph grows from turn to turn, is compiled again each time, and values that are printed are stale.

    A device loader runs the graph at each batch, so that there only what is read in the loop behind the
    update counts, as a warning. Silent where anything that the loop may come to could be the missing call:
    mark_step, sync, `barrier=True`; what `add_step_closure` puts off is read later.

    Bad: `loss.backward(); xm.optimizer_step(optimizer)`. Good: `xm.mark_step()` behind it, or a loop over
    `MpDeviceLoader(loader, device)`, which does so for each batch.

    Source: the sources of XLA003.
    """
    if not uses_xla(program) or not is_on_xla(program):
        return
    reach = program.analysis(LoopReach)
    for loop, step in training_loops(program):
        if _kind_of(program, step) == "run":
            continue
        turn = [each for each in reach.nodes(loop) if isinstance(each, ast.Call)]
        runs = [each for each in turn if _kind_of(program, each) == "run"]
        if runs:
            yield from _read_too_early(program, loop)
            if all(_is_rare(program, each, step) for each in runs):
                yield _unmarked(step, " in most turns", Severity.WARNING)
            continue
        within = isinstance(loop, ast.For) and looped_within(program, loop.iter) is not loop.iter
        if (reach.is_open(loop) or within) and names_any_of(program, _STEPS - {"step", "compile"}):
            continue
        read = next((each for each in turn if _kind_of(program, each) == "read"), None)
        if _is_over_a_device_loader(program, loop):
            if read is not None:
                yield _unread_graph(read, step)
            continue
        yield _unmarked(step)


def _unmarked(step: ast.Call, when: str = "", severity: Severity | None = None) -> Finding:
    message = f"no xm.mark_step() follows the update of the model{when}: torch_xla goes on recording, and "
    message += "compiles an ever larger graph" if not when else "compiles one graph of many updates"
    return finding_at(training_compiler.NO_MARK_STEP, step, message, severity=severity)


def _is_rare(program: Program, run: ast.Call, step: ast.Call) -> bool:
    """Whether the graph runs once in ten turns or more, as where a script logs, and the model is updated in
    each."""
    around = [each for each in ancestors_in_function(run) if isinstance(each, ast.If)]
    tests = [part for each in around if each not in ancestors(step) for part in walk(each.test)]
    counted = (part.right for part in tests if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod))
    numbers = (getattr(program.value(each), "value", None) for each in counted)
    return any(isinstance(each, int) and each >= 10 for each in numbers)


@finds(Stage.SCRIPT, training_compiler.NO_MP_DEVICE_LOADER)
def batches_come_by_a_device_loader(program: Program) -> Iterator[Finding]:
    """Workers that train on a plain DataLoader, or on a device loader that gives all of them the same data.

    By the first each batch is copied by hand, while the device waits; a device loader only moves batches.

    Only in a program that starts workers of torch_xla. The second only where the loader shuffles or the
    training goes over it, and the data set has nothing of the worker's number.

    Bad: `for batch in DataLoader(data, sampler=sampler)`. Good:
    `for batch in MpDeviceLoader(DataLoader(data, sampler=sampler), device)`.

    Source: the sources of XLA004.
    """
    if not uses_xla(program) or not has_workers(program):
        return
    trained = training_loops(program)
    for loop, step in trained:
        if (iterated := iterated_object(program, loop)).name == LOADER:
            yield finding_at(
                training_compiler.NO_MP_DEVICE_LOADER,
                loop.iter if isinstance(loop, ast.For) else loop,
                "the workers train on a plain DataLoader: no MpDeviceLoader brings the batches to the "
                "device and runs the graph at each",
                related=(related_at(step, "the loop trains here"), related_at(iterated.call, "the loader")),
            )
    over = {iterated_object(program, loop).call for loop, _ in trained}
    for device_loader, _ in program.calls("torch_xla.parallel_loader.MpDeviceLoader"):
        loader = program.value(device_loader.args[0]) if device_loader.args and trained else None
        if not isinstance(loader, Instance) or loader.name != LOADER or loader.item is not None:
            continue
        if _gives_all_the_same(program, loader.call, device_loader in over):
            yield finding_at(
                training_compiler.NO_MP_DEVICE_LOADER,
                loader.call,
                "no sampler divides the loader: every worker trains on the same data",
                related=(related_at(device_loader, "a device loader only moves the batches"),),
            )


def _gives_all_the_same(program: Program, loader: ast.Call, is_trained_on: bool) -> bool:
    """Whether a DataLoader of the training gives every worker the whole data set."""
    loaders = program.analysis(Loaders)
    dataset, shuffle = loaders.given(loader, "dataset"), loaders.given(loader, "shuffle")
    shuffles = shuffle is not None and program.value(shuffle) == Constant(True)
    ranks = [argument_of(each, "rank", 2) for each in loaders.samplers_of(loader) or ()]
    if any(each is not None and program.value(each) == Constant(0) for each in ranks):
        return True
    if loaders.samplers_of(loader) != frozenset() or dataset is None or not (shuffles or is_trained_on):
        return False
    made = Closure(program, dataset)
    if any(word in each.lower() for each in made.identifiers() for word in _OF_ONE_WORKER):
        return False
    return shuffles or made.is_the_same_everywhere


_OF_ONE_WORKER = ("ordinal", "rank", "world", "shard", "split_by", "worker")


@finds(Stage.SCRIPT, training_compiler.GRADIENTS_NOT_REDUCED)
def gradients_are_shared(program: Program) -> Iterator[Finding]:
    """Workers that step for themselves, or that step, unscale or clip before their gradients are shared.

    Without a reduction every worker trains a model of its own. Unscaled before it, each worker decides for
    itself whether the step is skipped. A clip before `xm.optimizer_step`, which reduces, is a warning.
    Only in a program that starts workers of torch_xla; silent where anything that the loop may come to could
    be the reduction. The order is that of one turn, through the functions that it calls.

    Bad: `scaler.step(optimizer)` with no all_reduce before. Good:
    `gradients = xm._fetch_gradients(optimizer)`,
    `xm.all_reduce("sum", gradients, scale=1.0 / xm.xrt_world_size())`, then unscale_, clip, step.

    Source: the sources of XLA005.
    """
    if not uses_xla(program) or not has_workers(program):
        return
    reach = program.analysis(LoopReach)
    bodies: list[list[ast.stmt]] = []
    for loop, step in training_loops(program):
        bodies.append(loop.body)
        turn = list(reach.nodes(loop))
        of_values = {
            each.func for each in turn if isinstance(each, ast.Call) and _is_of_values(program, each)
        }
        words = {
            getattr(each, "attr", getattr(each, "id", getattr(each, "value", None)))
            for each in turn
            if each not in of_values
        }
        may_be_open = reach.is_open(loop) and names_any_of(program, _REDUCES)
        if not (may_be_open or names_any_of(program, _SHARING_WRAPPERS)) and _REDUCES.isdisjoint(
            each for each in words if isinstance(each, str)
        ):
            message = "each worker updates its model with its own gradients alone: nothing reduces them"
            yield finding_at(training_compiler.GRADIENTS_NOT_REDUCED, step, message)
        elif not reach.is_open(loop) and not names_any_of(program, _SHARING_WRAPPERS):
            for update in _left_to_each_worker(program, loop.body):
                message = "this update is by each worker's own gradients: only those of another are reduced"
                yield finding_at(training_compiler.GRADIENTS_NOT_REDUCED, update, message)
    for call, _ in program.calls(f"{_XM}all_reduce", f"{_XM}reduce_gradients"):
        function = scope_of(call).function
        if function is not None and isinstance(function.node, ast.FunctionDef):
            bodies.append(function.node.body)
    seen = set[ast.Call]()
    found = [each for body in bodies for each in _before_the_reduction(program, body)]
    for early, reduction in (*found, *_clips_of_a_handler(program)):
        if early not in seen:
            seen.add(early)
            yield finding_at(
                training_compiler.GRADIENTS_NOT_REDUCED,
                early,
                f"{file_of(early).source(early.func)} comes before the workers' gradients are reduced: each "
                "worker does it to its own, and the update is another one",
                severity=Severity.WARNING if _kind_of(program, reduction) != "reduce" else None,
                related=(related_at(reduction, "here they are reduced"),),
            )


@finds(Stage.SCRIPT, training_compiler.NO_CONSTANT_SEED)
def weights_begin_alike(program: Program) -> Iterator[Finding]:
    """Workers whose weights begin from different random numbers.

    Averaged gradients belong to none of the models.

    Only in a program that starts workers of torch_xla and trains; silent where the weights are pretrained
    and nothing is new, or broadcast, reduced or wrapped in DDP. A checkpoint that is loaded where there is
    one makes no first start alike.

    Bad: no seed, or `torch.manual_seed(xm.get_ordinal())` before the model is made. Good:
    `torch.manual_seed(42)` in every worker.

    Source: the sources of XLA006.
    """
    if not uses_xla(program) or not has_workers(program) or _begins_alike(program):
        return
    trained = training_loops(program)
    seeds = list(seeds_of_torch(program))
    used = (each for file in program.files for each in file.attributes.get("manual_seed", ()))
    listed = {each for _, each in seeds_that_are_listed(program)}
    handed_on = any(getattr(parent_of(each), "func", None) is not each for each in used if each not in listed)
    if not seeds and trained and not handed_on and not program.unread:
        message = "the workers train models whose weights were made without a common seed"
        yield finding_at(training_compiler.NO_CONSTANT_SEED, trained[0][1], message)
    differing = all(is_each_workers_own(program, given) for _, given in seeds)
    if seeds and (differing or _all_come_late(program, [call for call, _ in seeds])):
        yield finding_at(
            training_compiler.NO_CONSTANT_SEED,
            seeds[0][0],
            "the seed differs between the workers, and nothing makes their weights alike"
            if differing
            else "the seed is set behind the model, whose weights the workers have drawn by then",
        )


@finds(Stage.SCRIPT, training_compiler.NO_CONSTANT_SEED)
def seed_is_given(subject: ScriptSubject) -> Iterator[Finding]:
    """Seeds that are set only where an option is given, in a job that does not give it.

    Every worker then makes weights of its own. Only where the option has no default, and all seeds stand
    under such a test.

    Bad: `if args.seed is not None: torch.manual_seed(args.seed)` without the hyperparameter. Good:
    `hyperparameters: {seed: 42}`, or a default.

    Source: the sources of XLA006.
    """
    program, job = subject.program, subject.job
    if not uses_xla(program) or not has_workers(program) or _begins_alike(program):
        return
    seeds = [call for call, _ in seeds_of_torch(program)]
    skipped = [_option_asked_for(program, each) for each in seeds]
    names = [each for each in skipped if each is not None and given_option(job, each) is None]
    if training_loops(program) and seeds and len(names) == len(seeds):
        yield finding_at(
            training_compiler.NO_CONSTANT_SEED,
            seeds[0],
            f"the job gives no {names[0]}, so that no seed is set: the workers' weights begin from different "
            "random numbers",
        )


def _option_asked_for(program: Program, node: ast.AST, depth: int = 4) -> str | None:
    """The option by whose default something does not run, in its function or where that is called."""
    for outer in ancestors_in_function(node):
        if isinstance(outer, ast.If) and not {node, *ancestors(node)}.isdisjoint(outer.body):
            name = _false_by_default(program, outer.test)
            if name is not None:
                return name
    function = scope_of(node).function
    defined = function.node if function is not None and depth else None
    sites = program.evaluation.callers.call_sites(defined) if isinstance(defined, FunctionNode) else None
    found = [_option_asked_for(program, site.call, depth - 1) for site in sites or ()]
    return found[0] if found and None not in found else None


def _false_by_default(program: Program, test: ast.expr) -> str | None:
    """The option of which a test is false, where nobody gives it: `args.seed is not None`."""
    option = option_of(program, test.left if isinstance(test, ast.Compare) else test)
    default = UNKNOWN if option is None else program.value(option.default)
    if option is None or not isinstance(default, Constant):
        return None
    truth: Truth = bool(default.value)
    if isinstance(test, ast.Compare):
        truth = compare_values(test, default, program.value(test.comparators[0]), program.evaluation, None)
    return option.name if truth is False else None


def _all_come_late(program: Program, seeds: list[ast.Call]) -> bool:
    """Whether each seed stands behind where a model's layers are made, in one function."""
    begun: dict[ast.AST, int] = {}
    for call in (each for file in program.files for each in file.calls):
        if _RANDOM_LAYERS.fullmatch(program.qualified(call.func) or ""):
            for function, line in _places_of(program, call):
                begun[function] = min(line, begun.get(function, line))
    return all(
        any(begun.get(function, line) < line for function, line in _places_of(program, seed))
        for seed in seeds
    )


def _places_of(program: Program, call: ast.AST, depth: int = 4) -> Iterator[tuple[ast.AST, int]]:
    """The functions in which something runs, with the line there: its own, and those that call it."""
    function = scope_of(call).function
    if function is None or not isinstance(function.node, ast.FunctionDef) or not depth:
        return
    yield function.node, getattr(call, "lineno", 0)
    for site in program.evaluation.callers.call_sites(function.node) or ():
        yield from _places_of(program, site.call, depth - 1)


def _begins_alike(program: Program) -> bool:
    """Whether anything gives all workers the same weights, or none of them is random."""
    if names_any_of(program, _MAKE_ALIKE) or any(
        _shares_weights(program, call) for call, _ in program.calls(f"{_XM}all_reduce")
    ):
        return True
    loads = [call for file in program.files for call in file.calls_of.get("load_state_dict", ())]
    if any(_always_comes_to(program, call) for call in loads if not _copies(call)):
        return True
    calls = [call for file in program.files for call in file.calls]
    pretrained = any(
        last_name(call.func) == "from_pretrained"
        or {each.arg for each in call.keywords if program.value(each.value) != Constant(None)}
        & {"pretrained", "weights"}
        for call in calls
    )
    return pretrained and not any(
        _RANDOM_LAYERS.fullmatch(program.qualified(call.func) or "")
        or _NEW_HEADS & {each.arg for each in call.keywords}
        for call in calls
    )


def _shares_weights(program: Program, reduction: ast.Call) -> bool:
    """Whether a reduction before the training may be of the weights."""
    function = scope_of(reduction).function
    if function is None or _is_of_gradients(program, reduction):
        return False
    reach = program.analysis(LoopReach)
    if any(reach.comes_to(loop, reduction) for loop, _ in training_loops(program)):
        return False
    asked = (getattr(each, "attr", "") for each in walk(function.node))
    return any(each in ("parameters", "buffers", "state_dict") for each in asked)


def _copies(load: ast.Call) -> bool:
    """Whether the weights of another model of the program are loaded, as of a target network."""
    return any(isinstance(each, ast.Call) and last_name(each.func) == "state_dict" for each in load.args)


def _always_comes_to(program: Program, node: ast.AST, depth: int = 4) -> bool:
    """Whether no test decides over a statement, as far as its callers are known."""
    for outer in ancestors_in_function(node):
        if isinstance(outer, ast.Try | ast.IfExp) or (
            isinstance(outer, ast.If) and not is_main_guard(outer.test)
        ):
            return False
    function = scope_of(node).function
    if function is None or not isinstance(function.node, ast.FunctionDef) or not depth:
        return True
    line = getattr(node, "lineno", 0)
    for each in file_of(node).returns_of.get(function.node, ()):
        if each.lineno < line:  # Where there is no checkpoint yet.
            return False
    sites = program.evaluation.callers.call_sites(function.node)
    return not sites or any(_always_comes_to(program, site.call, depth - 1) for site in sites)


def _takes_nothing(function: FunctionNode) -> bool:
    arguments = function.args
    return not positional_of(function) and arguments.vararg is None


def _without_index(function: FunctionNode, why: str) -> Finding:
    name = getattr(function, "name", "the function")
    return finding_at(
        training_compiler.NO_MP_FN,
        function,
        f"{name} has no parameter, and {why}: TypeError in every worker",
    )


XLA_RULES = (
    worker_function_takes_the_index,
    steps_are_run,
    batches_come_by_a_device_loader,
    gradients_are_shared,
    weights_begin_alike,
)

XLA_JOB_RULES = (entry_point_has_a_worker_function, seed_is_given)


# What one turn of a training loop does, in its order.


def _kind_of(program: Program, call: ast.Call) -> str | None:
    """What a call is for the order of a turn: such as backward, reduce, early, update, read, run."""
    last = last_name(call.func)
    if last == "backward":
        return "backward"
    if last in _READS and isinstance(call.func, ast.Attribute) and not (call.args or call.keywords):
        return None if any(_is_put_off(program, each) for each in ancestors(call)) else "read"
    name = program.qualified(call.func) or ""
    if _shows_the_loss(program, call, last or ""):
        return None if any(_is_put_off(program, each) for each in ancestors(call)) else "read"
    if name.startswith("torch_xla.") and ".amp." not in name and name.rpartition(".")[2] in _STEPS:
        return "run"
    if name == f"{_XM}optimizer_step":
        return "shared update" if argument_of(call, "barrier", 1) is None else "run"
    if name == f"{_XM}reduce_gradients" or (name == f"{_XM}all_reduce" and _is_of_gradients(program, call)):
        return "reduce"
    if last == "unscale_" or name in _CLIPS:
        return "early"
    return "update" if last == "step" and _is_an_update(program, call) else None


def _shows_the_loss(program: Program, call: ast.Call, last: str) -> bool:
    """Whether a call makes a number or a text of what backward begins from, by whatever name."""
    if not all_arguments(call) or isinstance(program.value(call.func), Defined):
        return False
    nodes = [part for given in all_arguments(call) for part in walk(given)]
    parts = [part for part in nodes if isinstance(part, ast.Name)]
    shown = [part for part in parts if isinstance(parent_of(part), ast.FormattedValue)]
    if last in _SHOWING:
        shown += [part for part in parts if not isinstance(parent_of(part), ast.Attribute)]
    begun = program.analysis(losses) if shown else ()
    return any(each in begun for part in shown for each in (part.id, *origins(program, part)))


def _is_put_off(program: Program, outer: ast.AST) -> bool:
    """Whether what stands in a call or function runs when the graph has run, by itself or by a decorator."""
    if isinstance(outer, ast.Call):
        return last_name(outer.func) == "add_step_closure"
    made = map(program.value, outer.decorator_list if isinstance(outer, ast.FunctionDef) else ())
    nodes = (each for value in made if isinstance(value, Defined) for each in walk(value.node))
    return any(isinstance(each, ast.Attribute) and each.attr == "add_step_closure" for each in nodes)


def _is_of_gradients(program: Program, reduction: ast.Call) -> bool:
    named = (getattr(each, "id", getattr(each, "attr", "")) for each in walk(reduction))
    return any("grad" in str(each) for each in named) or any(
        isinstance(made, ast.Call) and last_name(made.func) == "_fetch_gradients"
        for given in reduction.args
        for made in origins(program, given)
    )


def _is_of_values(program: Program, reduction: ast.Call) -> bool:
    """Whether a collective is of a loss, or of how often something was right, and surely of no gradients."""
    if program.qualified(reduction.func) not in (f"{_XM}all_reduce", f"{_XM}all_gather"):
        return False
    parts = [part for given in all_arguments(reduction) for part in parts_of(program, given)]
    names = {str(getattr(each, "attr", getattr(each, "id", ""))) for each in parts}
    if any("grad" in each or each in ("parameters", "param_groups") for each in names):
        return False
    return bool(names & program.analysis(losses)) or any(isinstance(each, ast.Compare) for each in parts)


def _turns(program: Program, body: list[ast.stmt]) -> list[list[tuple[str, ast.Call]]]:
    """What one turn does, in each of the ways through its branches."""
    return program.analysis(LoopReach).ways(body, lambda call: _kind_of(program, call))


def _before_the_reduction(program: Program, body: list[ast.stmt]) -> Iterator[tuple[ast.Call, ast.Call]]:
    """What is done to the gradients of a backward pass before they are reduced, with the reduction."""
    for way in _turns(program, body):
        early: list[ast.Call] = []
        reduced = False
        for kind, call in way:
            if kind == "backward":
                early, reduced = [], False
            elif kind in ("reduce", "shared update") or last_name(call.func) == "optimizer_step":
                yield from () if reduced else ((each, call) for each in early)
                reduced = True
            elif kind in ("early", "update") and not reduced:
                early.append(call)


def _left_to_each_worker(program: Program, body: list[ast.stmt]) -> Iterator[ast.Call]:
    """The updates by a backward pass whose gradients are not reduced, where another one's are."""
    ways = _turns(program, body)
    found: list[set[ast.Call]] = []
    for way in ways:
        updates, own, reduced = set[ast.Call](), set[ast.Call](), False
        for kind, call in (*way, ("backward", None)):
            if kind == "backward":
                updates |= set() if reduced else own
                own, reduced = set(), False
            elif kind in ("reduce", "shared update"):
                reduced = True
            elif kind == "update" and call is not None:
                own.add(call)
        kinds = [kind for kind, _ in way]
        found.append(updates if kinds.count("backward") > 1 and "reduce" in kinds else set())
    yield from sorted(set.intersection(*found) if found else (), key=lambda each: each.lineno)


def _clips_of_a_handler(program: Program) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The clips that no loop is seen to call, where `xm.optimizer_step` alone shares the gradients: as it
    steps at once, there is no place for a clip between the two."""
    steps = [each for each, _ in program.calls(f"{_XM}optimizer_step")]
    others = (_REDUCES - {"optimizer_step"}) | _SHARING_WRAPPERS
    if len(steps) != 1 or names_any_of(program, others):
        return
    if {step for _, step in training_loops(program)} != {*steps}:
        return
    reach = program.analysis(Reachability)
    for call, _ in program.calls(*_CLIPS):
        if reach.reaches(call) and not reach.is_named_nowhere(call):
            yield call, steps[0]


_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")


def _read_too_early(program: Program, loop: Loop) -> Iterator[Finding]:
    """A value that is read between the update and what runs the graph."""
    seen = set[ast.Call]()
    for way in _turns(program, loop.body):
        updated: ast.Call | None = None
        for number, (kind, call) in enumerate(way):
            if kind in ("update", "shared update", "run"):
                updated = None if kind == "run" else call
            runs_later = any(each == "run" for each, _ in way[number:])
            if kind == "read" and updated is not None and runs_later and call not in seen:
                seen.add(call)
                yield _unread_graph(call, updated)


def _unread_graph(read: ast.Call, step: ast.Call) -> Finding:
    return finding_at(
        training_compiler.NO_MARK_STEP,
        read,
        "a value is read behind the update, before the graph is run: it may be stale, and a graph of its own "
        "is compiled for it",
        severity=Severity.WARNING,
        related=(related_at(step, "the model is updated here, and no xm.mark_step() follows"),),
    )


# Which programs train through torch_xla, how they start their workers, and the loops in which they train.


SPAWNS = ("torch_xla.multiprocessing.spawn", "torch_xla.launch")
"""What starts workers."""

_XM = "torch_xla.xla_model."
_OWNERS = frozenset({"accelerate", "lightning", "pytorch_lightning", "fairseq"})
"""Libraries that call torch_xla in the script's place; Transformers does where its Trainer is used."""

_OPTIMIZERS = "torch.optim."


def uses_xla(program: Program) -> bool:
    """Whether the program calls torch_xla itself, and no library does so in its place."""
    roots = {(each.module or "").partition(".")[0] for file in program.files for each in file.imports}
    if "torch_xla" not in roots or roots & _OWNERS:
        return False
    trainers = (name for file in program.files for name in file.imported_as)
    return not any(name.endswith(("Trainer", "TrainingArguments")) for name in trainers) or not roots & {
        "transformers",
        "optimum",
    }


def names_any_of(program: Program, names: frozenset[str]) -> bool:
    """Whether any of these names is used at all: then nobody says that it is missing."""
    return any(name in file.mentioned or name in file.calls_of for file in program.files for name in names)


def is_on_xla(program: Program) -> bool:
    """Whether the program asks for a device of torch_xla."""
    return any(True for _ in program.calls("torch_xla.xla_model.xla_device", "torch_xla.device"))


def has_workers(program: Program) -> bool:
    """Whether torch_xla starts workers: by spawn, or as Training Compiler's launcher does."""
    return "_mp_fn" in program.entry.module.bindings or any(True for _ in program.calls(*SPAWNS))


def training_loops(program: Program) -> list[tuple[Loop, ast.Call]]:
    """The innermost loops that update a model, with the call that does, wherever the call stands."""
    reach = program.analysis(LoopReach)
    steps = [
        call
        for file in program.files
        for name in ("step", "optimizer_step")
        for call in file.calls_of.get(name, ())
        if _is_an_update(program, call)
    ]
    return [(loop, step) for step in steps for loop in reach.loops_around(step)]


def _is_over_a_device_loader(program: Program, loop: Loop) -> bool:
    """Whether a loop's batches may come by what runs the graph at each."""
    made = origins(program, loop.iter) if isinstance(loop, ast.For) else ()
    if made and all(is_listed(program, each) for each in made):
        return False  # What it gave before the loop.
    iterated = iterated_object(program, loop).name
    if isinstance(loop, ast.While) or (made and all(gives_places(program, each) for each in made)):
        turn = program.analysis(LoopReach).nodes(loop)
        return any(
            isinstance(each, ast.Call) and last_name(each.func) in ("next", "__next__") for each in turn
        )
    return iterated != LOADER


def _is_an_update(program: Program, step: ast.Call) -> bool:
    """Whether a call is an optimizer's step, by itself, by GradScaler or by torch_xla."""
    name = program.qualified(step.func) or ""
    if name == f"{_XM}optimizer_step":
        return True
    if not name.endswith(".step") and isinstance(step.func, ast.Attribute):
        owner = step.func.value
        stored = owner.attr if isinstance(owner, ast.Attribute) else ""
        name = next(
            (
                value.name + ".step"
                for file in program.files
                for binding in file.set_attributes.get(stored, ())
                if isinstance(value := program.evaluation.value_of_binding(binding, None), Instance)
            ),
            "",
        )
    return (
        name.endswith(".step")
        and (name.startswith(_OPTIMIZERS) or ".amp." in name)
        and "lr_scheduler" not in name
    )
