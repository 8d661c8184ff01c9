"""Training through torch_xla, as Training Compiler does: what only the script can do there.

These rules speak of programs that use torch_xla themselves: Trainer, Accelerator and Lightning do all this.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import training_compiler
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.program import Program
from launcher.scripts.scopes import FunctionNode, ancestors, file_of, positional_of, scope_of, statement_of
from launcher.scripts.values import Defined, Instance, RankValue

_SPAWNS = ("torch_xla.multiprocessing.spawn", "torch_xla.launch")
_OWNERS = frozenset({"transformers", "accelerate", "lightning", "pytorch_lightning", "fairseq", "optimum"})
"""Libraries that call torch_xla in the script's place."""

_STEPS = frozenset({"mark_step", "sync", "step", "wait_device_ops"})
_LOADERS = frozenset({"MpDeviceLoader", "ParallelLoader", "per_device_loader", "device_loader"})
_REDUCES = frozenset(
    {
        "optimizer_step",
        "reduce_gradients",
        "_fetch_gradients",
        "all_reduce",
        "DistributedDataParallel",
        "XlaFullyShardedDataParallel",
        "mark_sharding",
        "use_spmd",
        "SpmdFullyShardedDataParallel",
        "FullyShardedDataParallel",
    }
)
"""The names of what shares gradients between workers."""

_SEEDS = frozenset(
    {
        "manual_seed",
        "set_rng_state",
        "set_seed",
        "seed_everything",
        "broadcast_master_param",
        "load_state_dict",
        "from_pretrained",
        "DistributedDataParallel",
    }
)
"""The names of what gives every worker the same weights."""

_OPTIMIZERS = "torch.optim."
_LOADER = "torch.utils.data.DataLoader"


@finds(Stage.SCRIPT, training_compiler.NO_MP_FN)
def worker_function_takes_the_index(program: Program) -> Iterator[Finding]:
    """A function that torch_xla calls once for each worker, without a place for the worker's index.

    The launcher and xmp.spawn call it with the index first: TypeError in every worker.

    Whether `_mp_fn` is missing is seen with a job alone, whose strategy asks for it.

    Bad: `def _mp_fn():`. Good: `def _mp_fn(index):`.

    Source: the sources of XLA002.
    """
    if not _uses_xla(program):
        return
    for function in program.entry.functions:
        if (
            function.name == "_mp_fn"
            and scope_of(function).node is program.entry.tree
            and _takes_nothing(function)
        ):
            yield _without_index(function, "the launcher calls it with the index of the worker")
    for call, name in program.calls(*_SPAWNS):
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


@finds(Stage.SCRIPT, training_compiler.NO_MARK_STEP)
def steps_are_run(program: Program) -> Iterator[Finding]:
    """A training loop over a plain DataLoader that never tells torch_xla to run what it has recorded.

    The graph grows from batch to batch, is compiled again each time, and values that are printed are stale.

    Silent where anything in the program could be the missing call: mark_step, sync, `barrier=True`, a device
    loader.

    Bad: `loss.backward(); xm.optimizer_step(optimizer)`. Good: `xm.mark_step()` behind it, or a loop over
    `MpDeviceLoader(loader, device)`, which does so for each batch.

    Source: the sources of XLA003.
    """
    if not _uses_xla(program) or _names(program, _LOADERS) or not _is_on_xla(program):
        return
    for loop, step in _training_loops(program):
        if any(keyword.arg == "barrier" for keyword in step.keywords) or _marks(program, loop):
            continue
        yield found(
            training_compiler.NO_MARK_STEP,
            step,
            "no xm.mark_step() follows the update of the model: torch_xla goes on recording, and compiles "
            "an ever larger graph",
        )


@finds(Stage.SCRIPT, training_compiler.NO_MP_DEVICE_LOADER)
def batches_come_by_a_device_loader(program: Program) -> Iterator[Finding]:
    """Workers that train on a plain DataLoader: each batch is copied by hand, while the device waits.

    Only in a program that starts workers of torch_xla, and has a training loop over a DataLoader, and no
    device loader anywhere.

    Bad: `for batch in DataLoader(data, sampler=sampler)`. Good:
    `for batch in MpDeviceLoader(DataLoader(data, sampler=sampler), device)`.

    Source: the sources of XLA004.
    """
    if not _uses_xla(program) or _names(program, _LOADERS) or not _has_workers(program):
        return
    for loop, step in _training_loops(program):
        yield found(
            training_compiler.NO_MP_DEVICE_LOADER,
            loop.iter,
            "the workers train on a plain DataLoader: no MpDeviceLoader brings the batches to the "
            "device and runs the graph at each",
            related=(note(step, "the loop trains here"),),
        )


@finds(Stage.SCRIPT, training_compiler.GRADIENTS_NOT_REDUCED)
def gradients_are_shared(program: Program) -> Iterator[Finding]:
    """Workers that step for themselves, or whose gradients are unscaled or clipped before they are shared.

    Without a reduction every worker trains a model of its own. Unscaled before it, each worker decides for
    itself whether the step is skipped.

    Only in a program that starts workers of torch_xla; the order only where both calls stand in one block.

    Bad: `scaler.step(optimizer)` with no all_reduce before. Good:
    `gradients = xm._fetch_gradients(optimizer)`,
    `xm.all_reduce("sum", gradients, scale=1.0 / xm.xrt_world_size())`, then unscale_, clip, step.

    Source: the sources of XLA005.
    """
    if not _uses_xla(program) or not _has_workers(program):
        return
    if not _names(program, _REDUCES):
        for _, step in _training_loops(program):
            yield found(
                training_compiler.GRADIENTS_NOT_REDUCED,
                step,
                "each worker updates its model with its own gradients alone: nothing reduces them",
            )
    for reduction, _ in program.calls(
        "torch_xla.xla_model.all_reduce", "torch_xla.xla_model.reduce_gradients"
    ):
        for early in _before_in_block(program, reduction):
            yield found(
                training_compiler.GRADIENTS_NOT_REDUCED,
                early,
                f"{file_of(early).source(early.func)} comes before the workers' gradients are reduced: each "
                "worker does it to its own, and the update is another one",
                related=(note(reduction, "here they are reduced"),),
            )


@finds(Stage.SCRIPT, training_compiler.NO_CONSTANT_SEED)
def weights_begin_alike(program: Program) -> Iterator[Finding]:
    """Workers whose weights begin from different random numbers.

    Averaged gradients belong to none of the models.

    Only in a program that starts workers of torch_xla and trains; silent where it loads weights, broadcasts
    them or wraps them in DDP.

    Bad: no seed, or `torch.manual_seed(xm.get_ordinal())` before the model is made. Good:
    `torch.manual_seed(42)` in every worker.

    Source: the sources of XLA006.
    """
    if not _uses_xla(program) or not _has_workers(program):
        return
    if not _names(program, _SEEDS):
        for _, step in _training_loops(program):
            yield found(
                training_compiler.NO_CONSTANT_SEED,
                step,
                "the workers train models whose weights were made without a common seed",
            )
            return
    if _names(program, _SEEDS - {"manual_seed", "set_seed", "seed_everything", "set_rng_state"}):
        return
    seeds = list(program.calls("torch.manual_seed"))
    if len(seeds) == 1 and seeds[0][0].args and isinstance(program.value(seeds[0][0].args[0]), RankValue):
        yield found(
            training_compiler.NO_CONSTANT_SEED,
            seeds[0][0],
            "the seed differs between the workers, and nothing makes their weights alike",
        )


def _uses_xla(program: Program) -> bool:
    """Whether the program calls torch_xla itself, and no library does so in its place."""
    roots = {(each.module or "").partition(".")[0] for file in program.files for each in file.imports}
    return "torch_xla" in roots and not roots & _OWNERS


def _names(program: Program, names: frozenset[str]) -> bool:
    """Whether any of these names is used at all: then nobody says that it is missing."""
    return any(
        name in file.names or name in file.attributes or name in file.calls_of
        for file in program.files
        for name in names
    )


def _is_on_xla(program: Program) -> bool:
    return any(True for _ in program.calls("torch_xla.xla_model.xla_device", "torch_xla.device"))


def _has_workers(program: Program) -> bool:
    """Whether torch_xla starts workers: by spawn, or as Training Compiler's launcher does."""
    by_launcher = any(
        each.name == "_mp_fn" and scope_of(each).node is program.entry.tree
        for each in program.entry.functions
    )
    return by_launcher or any(True for _ in program.calls(*_SPAWNS))


def _takes_nothing(function: FunctionNode) -> bool:
    arguments = function.args
    return not positional_of(function) and arguments.vararg is None


def _without_index(function: FunctionNode, why: str) -> Finding:
    name = getattr(function, "name", "the function")
    return found(
        training_compiler.NO_MP_FN,
        function,
        f"{name} has no parameter, and {why}: TypeError in every worker",
    )


def _training_loops(program: Program) -> Iterator[tuple[ast.For, ast.Call]]:
    """The loops over a DataLoader of torch that update a model, with the call that does."""
    for file in program.files:
        for name in ("step", "optimizer_step"):
            for step in file.calls_of.get(name, ()):
                loop = next((each for each in ancestors(step) if isinstance(each, ast.For)), None)
                if loop is not None and _is_over_a_loader(program, loop) and _updates(program, step):
                    yield loop, step


def _is_over_a_loader(program: Program, loop: ast.For) -> bool:
    iterated = loop.iter
    if isinstance(iterated, ast.Call) and program.qualified(iterated.func) in ("enumerate", "tqdm.tqdm"):
        iterated = iterated.args[0] if iterated.args else iterated
    value = program.value(iterated)
    return isinstance(value, Instance) and value.name == _LOADER


def _updates(program: Program, step: ast.Call) -> bool:
    name = program.qualified(step.func) or ""
    if name == "torch_xla.xla_model.optimizer_step":
        return True
    return (
        name.endswith(".step")
        and (name.startswith(_OPTIMIZERS) or ".amp." in name)
        and ("lr_scheduler" not in name)
    )


def _marks(program: Program, loop: ast.For) -> bool:
    """Whether a loop, or a function that it calls, may run what was recorded."""
    for node in ast.walk(loop):
        if not isinstance(node, ast.Call):
            continue
        name = program.qualified(node.func)
        if name is not None and name.startswith("torch_xla.") and name.rpartition(".")[2] in _STEPS:
            return True
        called = program.value(node.func)
        if isinstance(called, Defined):
            inside = (each for each in ast.walk(called.node) if isinstance(each, ast.Attribute | ast.Name))
            if any(getattr(each, "attr", getattr(each, "id", "")) in _STEPS - {"step"} for each in inside):
                return True
    return False


def _before_in_block(program: Program, reduction: ast.Call) -> Iterator[ast.Call]:
    """The calls that unscale or clip, in the block of a reduction of gradients and before it."""
    fetched = any(
        isinstance(each, ast.Name | ast.Attribute)
        and "grad" in (getattr(each, "id", "") or getattr(each, "attr", ""))
        for each in ast.walk(reduction)
    )
    statement = statement_of(reduction)
    if not fetched:
        return
    for outer in ancestors(statement):
        for _, block in ast.iter_fields(outer):
            if isinstance(block, list) and any(each is statement for each in block):
                for each in block[: next(i for i, one in enumerate(block) if one is statement)]:
                    call = each.value if isinstance(each, ast.Expr) else None
                    if isinstance(call, ast.Call) and _unscales_or_clips(program, call):
                        yield call
        return


def _unscales_or_clips(program: Program, call: ast.Call) -> bool:
    name = program.qualified(call.func) or ""
    clips = name in ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")
    return clips or (isinstance(call.func, ast.Attribute) and call.func.attr == "unscale_")


RULES = (
    worker_function_takes_the_index,
    steps_are_run,
    batches_come_by_a_device_loader,
    gradients_are_shared,
    weights_begin_alike,
)
"""The rules of this family, in the order in which their findings are shown."""
