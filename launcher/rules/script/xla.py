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
from launcher.rules.script.xla_programs import (
    SPAWNS,
    has_workers,
    is_on_xla,
    names_any_of,
    training_loops,
    uses_xla,
)
from launcher.scripts.program import Program
from launcher.scripts.scopes import FunctionNode, ancestors, file_of, positional_of, scope_of, statement_of
from launcher.scripts.values import Defined, RankValue

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
    if not uses_xla(program) or names_any_of(program, _LOADERS) or not is_on_xla(program):
        return
    for loop, step in training_loops(program):
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
    if not uses_xla(program) or names_any_of(program, _LOADERS) or not has_workers(program):
        return
    for loop, step in training_loops(program):
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
    if not uses_xla(program) or not has_workers(program):
        return
    if not names_any_of(program, _REDUCES):
        for _, step in training_loops(program):
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
    if not uses_xla(program) or not has_workers(program):
        return
    if not names_any_of(program, _SEEDS):
        for _, step in training_loops(program):
            yield found(
                training_compiler.NO_CONSTANT_SEED,
                step,
                "the workers train models whose weights were made without a common seed",
            )
            return
    if names_any_of(program, _SEEDS - {"manual_seed", "set_seed", "seed_everything", "set_rng_state"}):
        return
    seeds = list(program.calls("torch.manual_seed"))
    if len(seeds) == 1 and seeds[0][0].args and isinstance(program.value(seeds[0][0].args[0]), RankValue):
        yield found(
            training_compiler.NO_CONSTANT_SEED,
            seeds[0][0],
            "the seed differs between the workers, and nothing makes their weights alike",
        )


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
