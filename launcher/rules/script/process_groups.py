"""How process groups are made and ended, whether their backend is there, and training through torch_xla.

The rules on torch_xla are on what only the script can do there, as Training Compiler starts it. They speak
of programs that use it themselves: Trainer, Accelerator and Lightning do all this.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import ddp, distribution, training_compiler
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of, constant_argument, has_star_arguments
from launcher.program.guards import Guard
from launcher.program.index import (
    FunctionNode,
    Scope,
    ancestors,
    file_of,
    parent_of,
    positional_of,
    scope_of,
    statement_of,
)
from launcher.program.participants import Participants
from launcher.program.program import Program
from launcher.program.reachability import Reachability, never_runs, rank_starts, surely_runs
from launcher.program.values import (
    DDP,
    INIT_PROCESS_GROUP,
    LIBRARY_TABLES,
    UNKNOWN,
    Constant,
    Defined,
    Instance,
    RankValue,
)
from launcher.rules.script.findings import JobRun, ScriptSubject, destroy_group_at_end, finding_at, related_at

SHORT_TIMEOUT = 300
"""Seconds: what catalogue and tutorials call short, and a large checkpoint or download may take longer."""

_SECONDS = {
    "seconds": 1.0,
    "minutes": 60.0,
    "hours": 3600.0,
    "days": 86400.0,
    "milliseconds": 1e-3,
    "microseconds": 1e-6,
    "weeks": 604800.0,
}
_POSITIONS = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")

_LONG = {
    "torch.save": "saves",
    "torch.hub.load_state_dict_from_url": "downloads",
    "torch.hub.download_url_to_file": "downloads",
    "urllib.request.urlretrieve": "downloads",
    "huggingface_hub.snapshot_download": "downloads",
    "huggingface_hub.hf_hub_download": "downloads",
    "datasets.load_dataset": "downloads",
    "shutil.copytree": "copies",
    "tarfile.TarFile.extractall": "unpacks",
    "tarfile.open.extractall": "unpacks",
    "zipfile.ZipFile.extractall": "unpacks",
}
"""What one rank may do for minutes while the others wait, and the word for it."""


@finds(Stage.SCRIPT, ddp.FIND_UNUSED_LEFT_ON)
def unused_parameters_are_not_looked_for(program: Program) -> Iterator[Finding]:
    """`find_unused_parameters=True` written at the wrapper.

    It walks the graph after every forward. Informational: only a run shows whether it is needed.

    Bad: `DDP(model, find_unused_parameters=True)`. Good: `DDP(model)`. Source: torch's DDP documentation.
    """
    wrappers = (
        DDP,
        "accelerate.DistributedDataParallelKwargs",
        "accelerate.utils.DistributedDataParallelKwargs",
    )
    strategies = ("lightning.pytorch.strategies.DDPStrategy", "lightning.fabric.strategies.DDPStrategy")
    for call, _ in program.calls(*wrappers, *strategies):
        given = argument_of(call, "find_unused_parameters")
        if given is not None and program.value(given) == Constant(True):
            yield finding_at(
                ddp.FIND_UNUSED_LEFT_ON,
                given,
                "find_unused_parameters=True walks the whole graph after every forward pass, on each rank "
                "and step: lost time where every parameter is used",
            )


@finds(Stage.SCRIPT, ddp.GROUP_TIMEOUT_UNSUITABLE)
def groups_have_a_fitting_timeout(program: Program) -> Iterator[Finding]:
    """A process group without a timeout, or with one shorter than what one rank does while others wait.

    Without one it is informational. A timeout of at most 300 s is a warning where the program lets some
    ranks alone save, download or unpack: the others are in their next collective meanwhile.

    Bad: `init_process_group("nccl", timeout=timedelta(seconds=60))` and a `torch.save` under
    `if rank == 0:`. Good: `timeout=timedelta(minutes=30)`. Source: torch.distributed's documentation.
    """
    participants = program.analysis(Participants)
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        given = argument_of(call, "timeout", 2)
        if given is None:
            if not has_star_arguments(call):
                yield finding_at(
                    ddp.GROUP_TIMEOUT_UNSUITABLE,
                    call,
                    "no timeout is given: the default ends a rank that waits longer for another one's "
                    "checkpoint or download, and is how long a real hang keeps the whole cluster",
                    severity=Severity.INFO,
                )
            continue
        seconds = _seconds(program, given)
        if seconds is None or not 0 < seconds <= SHORT_TIMEOUT:
            continue
        work = next(_work_of_some_ranks(program, participants), None)
        if work is not None:
            place, word, guard = work
            yield finding_at(
                ddp.GROUP_TIMEOUT_UNSUITABLE,
                given,
                f"the timeout is {seconds:g} s, and {guard.described} alone {word} while the others wait in "
                "their next collective: where that takes longer, they are killed",
                related=[related_at(place, f"run by {guard.described} alone")],
            )


def _work_of_some_ranks(
    program: Program, participants: Participants
) -> Iterator[tuple[ast.Call, str, Guard]]:
    for call, name in program.calls(*_LONG):
        who = participants.ranks_running(call)
        if isinstance(who, Guard):
            yield call, _LONG[name], who


def _seconds(program: Program, node: ast.expr) -> float | None:
    """How long a `timedelta(...)` of literals is."""
    value = program.value(node)
    if (
        not isinstance(value, Instance)
        or value.name != "datetime.timedelta"
        or has_star_arguments(value.call)
    ):
        return None
    given = dict(zip(_POSITIONS, value.call.args, strict=False))
    given.update({each.arg: each.value for each in value.call.keywords if each.arg is not None})
    total = 0.0
    for unit, amount in given.items():
        number = program.value(amount)
        if not isinstance(number, Constant) or not isinstance(number.value, int | float):
            return None
        total += _SECONDS.get(unit, 0.0) * number.value
    return total


@finds(Stage.SCRIPT, ddp.GROUP_NEVER_DESTROYED)
def groups_are_destroyed(program: Program) -> Iterator[Finding]:
    """A program that makes a process group and nowhere destroys it: informational.

    A rank that exits with operations pending may keep another one from exiting. Silent about a function that
    the program never calls; such a one destroys nothing, and the end of a group within it is not its own.

    Bad: a `main()` that ends after training. Good: `dist.destroy_process_group()` as its last line.

    Source: torch.distributed's documentation, on shutdown.
    """
    if program.unread or _is_destroyed(program):
        return
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        function = scope_of(call).function
        if function is not None and _is_never_called(program, function):
            continue
        yield finding_at(
            ddp.GROUP_NEVER_DESTROYED,
            call,
            "the process group that is made here is never destroyed: a rank that exits with operations "
            "pending may keep another one from exiting",
            fix=destroy_group_at_end(program, call),
        )


def _is_destroyed(program: Program) -> bool:
    """Whether the program may come to the end of the process group of all ranks."""
    for name in program.known_as({"destroy_process_group"}):
        for file in program.mentioning(name):
            for use in (*file.names.get(name, ()), *file.attributes.get(name, ())):
                call = parent_of(use)
                group = argument_of(call, "group", 0) if isinstance(call, ast.Call) else None
                made = UNKNOWN if group is None else program.value(group)
                within = isinstance(made, Instance) and made.name in LIBRARY_TABLES["group_makers"]
                if not within and not program.analysis(Reachability).is_named_nowhere(use):
                    return True
    return any(f"{mark}destroy_process_group{mark}" in file.text for file in program.files for mark in "\"'")


def _is_never_called(program: Program, scope: Scope, deepest: int = 8) -> bool:
    """Whether a function stands in a module that another program may use, and this one calls it nowhere, or
    from functions alone that it never calls.
    """
    function = scope.node
    if not isinstance(function, FunctionNode) or file_of(function) is program.entry or deepest == 0:
        return False
    sites = program.evaluation.callers.call_sites(function)
    scopes = [scope_of(site.call).function for site in sites or ()]
    return sites is not None and all(
        each is not None and _is_never_called(program, each, deepest - 1) for each in scopes
    )


GROUP_RULES = (unused_parameters_are_not_looked_for, groups_have_a_fitting_timeout, groups_are_destroyed)


# Whether the backend that a process group is made with is there.


_BY_NAME = ("import_module", "__import__", "exec", "load_module")
"""Calls that may import anything."""


@finds(Stage.SCRIPT, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def backends_are_imported(program: Program) -> Iterator[Finding]:
    """`init_process_group("smddp")` in a program that imports nothing of SMDDP.

    The backend is registered when its module is imported; without that torch knows of none by this name, and
    every process ends there. Silent where a library that nobody has read may import it.

    Bad: `import torch.distributed as dist` and `dist.init_process_group("smddp")`. Good: before it
    `import smdistributed.dataparallel.torch.torch_smddp`.

    Source: AWS's guide to SMDDP; torch/distributed/distributed_c10d.py (Backend._plugins).
    """
    if _may_register(program):
        return
    for call, _ in program.calls(INIT_PROCESS_GROUP):
        backend = constant_argument(program, argument_of(call, "backend", 0))
        if not has_star_arguments(call) and backend is not None and str(backend.value).lower() == "smddp":
            yield finding_at(
                distribution.SCRIPT_DOES_NOT_FIT_STRATEGY,
                call,
                "nothing imports smdistributed.dataparallel.torch.torch_smddp, which registers the backend "
                "smddp: torch knows of none by this name, and every process ends here",
                remedy="Put `import smdistributed.dataparallel.torch.torch_smddp` before it.",
            )


def _may_register(program: Program) -> bool:
    """Whether anything that a program imports may register a backend."""
    return imports_the_unknown(program) or any(
        any(name in file.calls_of for name in _BY_NAME)
        or any((each.module or "").startswith("torch.sagemaker") for each in file.imports)
        for file in program.files
    )


BACKEND_RULES = (backends_are_imported,)


# Whether a program imports only libraries of which it is known what they do with process groups.


_PLAIN = frozenset(
    {
        "numpy",
        "torch",
        "torchvision",
        "torchaudio",
        "tqdm",
        "PIL",
        "pandas",
        "yaml",
        "matplotlib",
        "sklearn",
        "scipy",
        "tensorboard",
        "tensorboardX",
        "boto3",
        "botocore",
        "cv2",
        "requests",
        "smdebug",
    }
)
"""The libraries of which it is known that they make no process group and register no backend."""


def imports_the_unknown(program: Program) -> bool:
    """Whether anything that a program imports could make a group, or a backend; what cannot be read could."""
    if program.unread:
        return True
    for file in program.files:
        if any(star.startswith(".") for star in file.stars):
            return True
        for binding in file.imports:
            root = (binding.module or "").partition(".")[0]
            own = program.module(binding.module or "", file) or program.module(root, file)
            if own is None and root not in _PLAIN and root not in sys.stdlib_module_names:
                return True
    return False


# Training through torch_xla, as Training Compiler does.


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
        yield finding_at(
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
        yield finding_at(
            training_compiler.NO_MP_DEVICE_LOADER,
            loop.iter,
            "the workers train on a plain DataLoader: no MpDeviceLoader brings the batches to the "
            "device and runs the graph at each",
            related=(related_at(step, "the loop trains here"),),
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
            yield finding_at(
                training_compiler.GRADIENTS_NOT_REDUCED,
                step,
                "each worker updates its model with its own gradients alone: nothing reduces them",
            )
    for reduction, _ in program.calls(
        "torch_xla.xla_model.all_reduce", "torch_xla.xla_model.reduce_gradients"
    ):
        for early in _before_in_block(program, reduction):
            yield finding_at(
                training_compiler.GRADIENTS_NOT_REDUCED,
                early,
                f"{file_of(early).source(early.func)} comes before the workers' gradients are reduced: each "
                "worker does it to its own, and the update is another one",
                related=(related_at(reduction, "here they are reduced"),),
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
            yield finding_at(
                training_compiler.NO_CONSTANT_SEED,
                step,
                "the workers train models whose weights were made without a common seed",
            )
            return
    if names_any_of(program, _SEEDS - {"manual_seed", "set_seed", "seed_everything", "set_rng_state"}):
        return
    seeds = list(program.calls("torch.manual_seed"))
    if len(seeds) == 1 and seeds[0][0].args and isinstance(program.value(seeds[0][0].args[0]), RankValue):
        yield finding_at(
            training_compiler.NO_CONSTANT_SEED,
            seeds[0][0],
            "the seed differs between the workers, and nothing makes their weights alike",
        )


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


XLA_RULES = (
    worker_function_takes_the_index,
    steps_are_run,
    batches_come_by_a_device_loader,
    gradients_are_shared,
    weights_begin_alike,
)
"""The rules of this family, in the order in which their findings are shown."""


# Which programs train through torch_xla, how they start their workers, and the loops in which they train.


SPAWNS = ("torch_xla.multiprocessing.spawn", "torch_xla.launch")
"""What starts workers."""

_OWNERS = frozenset({"transformers", "accelerate", "lightning", "pytorch_lightning", "fairseq", "optimum"})
"""Libraries that call torch_xla in the script's place."""

_OPTIMIZERS = "torch.optim."
_LOADER = "torch.utils.data.DataLoader"


def uses_xla(program: Program) -> bool:
    """Whether the program calls torch_xla itself, and no library does so in its place."""
    roots = {(each.module or "").partition(".")[0] for file in program.files for each in file.imports}
    return "torch_xla" in roots and not roots & _OWNERS


def names_any_of(program: Program, names: frozenset[str]) -> bool:
    """Whether any of these names is used at all: then nobody says that it is missing."""
    return any(
        name in file.names or name in file.attributes or name in file.calls_of
        for file in program.files
        for name in names
    )


def is_on_xla(program: Program) -> bool:
    """Whether the program asks for a device of torch_xla."""
    return any(True for _ in program.calls("torch_xla.xla_model.xla_device", "torch_xla.device"))


def has_workers(program: Program) -> bool:
    """Whether torch_xla starts workers: by spawn, or as Training Compiler's launcher does."""
    by_launcher = any(
        each.name == "_mp_fn" and scope_of(each).node is program.entry.tree
        for each in program.entry.functions
    )
    return by_launcher or any(True for _ in program.calls(*SPAWNS))


def training_loops(program: Program) -> Iterator[tuple[ast.For, ast.Call]]:
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


# Whether the processes that a job starts become one training.


STARTS_EACH_PROCESS = ("torchrun", "smddp", "smp", "mpi")
"""The strategies that start one process for each GPU, or as many as the job says."""


@finds(Stage.SCRIPT, distribution.RANKS_NEVER_MET)
def trainer_knows_its_processes(subject: ScriptSubject) -> Iterator[Finding]:
    """A Lightning Trainer for one device, in a job of several processes: each runs it alone.

    As many trainings are paid for as there are processes, and each is whole.

    Only where `devices` is a literal 1 and neither `num_nodes` nor a strategy is given.

    Bad: `Trainer(devices=1)` with eight processes per host. Good: `Trainer(devices="auto", num_nodes=...)`.

    Source: the sources of DIST008.
    """
    if (subject.plan.world_size or 1) < 2:
        return
    program = subject.program
    for call, _ in program.calls("lightning.pytorch.Trainer"):
        devices = constant_argument(program, argument_of(call, "devices"))
        others = ("num_nodes", "strategy", "plugins")
        if devices is None or devices.value not in (1, "1") or has_star_arguments(call):
            continue
        if all(argument_of(call, name) is None for name in others) and surely_runs(program, call):
            yield finding_at(
                distribution.RANKS_NEVER_MET,
                call,
                f"the Trainer takes one device and knows of no others, and the job starts "
                f"{subject.plan.world_size} processes: each of them trains alone",
            )


@finds(Stage.SCRIPT, distribution.RANKS_NEVER_MET, distribution.SCRIPT_DOES_NOT_FIT_STRATEGY)
def ranks_make_a_group(subject: ScriptSubject) -> Iterator[Finding]:
    """A script that trains in each of the job's processes, and in this job makes no group of them.

    Nothing calls init_process_group, or only under an option that the job does not give, with the variables
    of another launcher, or for one process alone: each trains a whole model for itself.

    Only where the script runs the backward pass itself, and imports nothing that could make a group: only
    torch, numpy and a few others.

    Bad: `if args.distributed: init_process_group()` and a job without `distributed`. Good: the same under
    `if "RANK" in os.environ:`.

    Source: the sources of DIST008 and DIST005.
    """
    program, run = subject.program, JobRun(subject)
    steps = [call for file in program.files for call in file.calls_of.get("backward", ())]
    if run.strategy not in STARTS_EACH_PROCESS or (subject.plan.world_size or 1) < 2 or not steps:
        return
    started = f"the job starts {subject.plan.world_size} processes"
    alone = "each trains a whole model for itself"
    groups = [call for call, _ in program.calls(INIT_PROCESS_GROUP)]
    for call in groups:
        size = constant_argument(program, argument_of(call, "world_size", 3))
        if size == Constant(1) and surely_runs(program, call, known=run.truth):
            message = f"{started}, and each makes a group of itself here: {alone}"
            yield finding_at(distribution.RANKS_NEVER_MET, call, message)
    if list(rank_starts(program)) or imports_the_unknown(program):
        return
    if groups and all(never_runs(program, call, run.truth) for call in groups):
        message = f"{started}, and in none of them this is come to, which would make a group: {alone}"
        yield finding_at(distribution.RANKS_NEVER_MET, groups[0], message)
    elif run.strategy == "torchrun" and not _may_make_a_group(program):
        message = f"{started}, and nothing makes a group of them (init_process_group): {alone}"
        yield finding_at(distribution.SCRIPT_DOES_NOT_FIT_STRATEGY, steps[0], message)
        message = "without a group the ranks never meet: all hosts are paid for one training"
        yield finding_at(distribution.RANKS_NEVER_MET, steps[0], message, severity=Severity.INFO)


def is_judged_without_a_job(subject: ScriptSubject, name: str, value: str) -> bool:
    """Whether a variable harms everywhere, or is the protocol that the plugin's older versions want."""
    from launcher.planning.image_choice import efa_plugin_version, job_image_software
    from launcher.planning.settings import PLUGIN_CHOOSES_PROVIDER

    facts = instance_facts(subject.job.resources.instance_type)
    plugin = efa_plugin_version(job_image_software(subject.job, facts))
    is_simple = (name, value.lower()) == ("NCCL_PROTO", "simple")
    return not is_simple or plugin is None or plugin < PLUGIN_CHOOSES_PROVIDER


def _may_make_a_group(program: Program) -> bool:
    """Whether anything in the program could make a process group; what cannot be read could."""
    if program.known_as({"init_process_group"}) & _used(program):
        return True
    others = {"init_device_mesh", "init_rpc"}
    return any(others & file.calls_of.keys() for file in program.files) or imports_the_unknown(program)


def _used(program: Program) -> set[str]:
    return {name for file in program.files for name in (*file.calls_of, *file.names, *file.attributes)}


MEETING_RULES = (trainer_knows_its_processes, ranks_make_a_group)
"""The rules of this family, which need a job."""
