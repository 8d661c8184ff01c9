"""Whether a script fits the processes that are started, and which device each of them takes.

Their number, the strategy, the instance type and the version of torch are the job's. The planning is
imported where it is asked, so that the lint of a script alone does not pay for it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import chain

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import distribution, nccl
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import all_arguments, argument_of, constant_argument, origins, text_parts
from launcher.program.index import (
    BindingKind,
    FileIndex,
    ancestors,
    file_of,
    is_main_guard,
    last_name,
    scope_of,
    statement_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.process_environment import changed_variables, variables_of_ranks
from launcher.program.process_starts import (
    count_on_host,
    is_for_one_host,
    runs_groups_side_by_side,
    started_processes,
)
from launcher.program.program import Program
from launcher.program.ranks.guards import Guards
from launcher.program.ranks.reachability import Reachability, surely_runs
from launcher.program.surroundings.options import is_taken
from launcher.program.surroundings.shell_starts import ShellStarts
from launcher.program.values import (
    DDP,
    FSDP,
    INIT_PROCESS_GROUP,
    Constant,
    RankKind,
    RankValue,
)
from launcher.rules import shared_facts
from launcher.rules.script.default_values import default_constant
from launcher.rules.script.environment import is_set_in_every_run, setting_findings
from launcher.rules.script.findings import ScriptSubject, finding_at, finding_in_shell, related_at
from launcher.rules.script.process_groups import STARTS_EACH_PROCESS
from launcher.rules.script.starts.job_run import JobRun
from launcher.rules.script.starts.local_ranks import takes_rank_for_local
from launcher.rules.script.starts.topology import is_part_of_the_start, makes_a_group

# Which device a process takes: one for each, by its rank on the host.


_SETS_DEVICE = "torch.cuda.set_device"
_TAKES = {_SETS_DEVICE: ("device", 0), "torch.device": ("index", 1)}
_HOROVOD = "horovod.torch.DistributedOptimizer"
_OWN_DEVICES = (
    "torch.cuda.set_device",
    "torch.cuda.device",
    "torch.accelerator.set_device_index",
    "accelerate.Accelerator",
    "accelerate.PartialState",
    "deepspeed.initialize",
    "deepspeed.init_distributed",
    "deepspeed.comm.init_distributed",
    "lightning.pytorch.Trainer",
    "lightning.fabric.Fabric",
    "transformers.Trainer",
    "transformers.TrainingArguments",
    "ignite.distributed.Parallel",
    "ignite.distributed.initialize",
    *("horovod.ray.RayExecutor", "horovod.spark.run"),
)
"""What gives each process a device of its own."""

_KNOWS_THE_HOST = ("device_count", "nnodes", "num_nodes", "node_rank", "local")
"""Names in a test after which the global rank may be right as an index: one host alone."""


NONE_ON_A_SECOND_HOST = "the second host has no device of that number"


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def device_is_not_the_global_rank(program: Program) -> Iterator[Finding]:
    """The rank among all processes taken as the index of a device.

    Right on one host. On the second the ranks begin at the number of its GPUs: 'invalid device ordinal'.

    Silent about a rank modulo the number of GPUs, in a program that spawns its processes itself or is a test
    that does, and under a test that asks for the hosts or their GPUs.

    Bad: `torch.cuda.set_device(dist.get_rank())`, `DDP(model, device_ids=[rank])`. Good:
    `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`.

    Source: the sources of DIST006.
    """
    if is_for_one_host(program) or takes_rank_for_local(program):
        return
    for node, index in device_indices(program):
        value = program.value(index)
        is_global = isinstance(value, RankValue) and value.kind is RankKind.GLOBAL
        if not is_global or _is_for_one_host(program, node):
            continue
        yield finding_at(
            distribution.HARD_CODED_TOPOLOGY,
            node,
            f"the global rank ({file_of(index).source(index)}) is taken as the index of a device: "
            f"{NONE_ON_A_SECOND_HOST}",
            remedy='Take int(os.environ["LOCAL_RANK"]), the rank on the host, as the index.',
        )


@finds(Stage.SCRIPT, distribution.HARD_CODED_TOPOLOGY)
def device_is_not_the_same_for_all(program: Program) -> Iterator[Finding]:
    """One GPU, by its number, for every process of the host.

    NCCL stops with 'Duplicate GPU detected', or the one device runs out of memory while others are idle.

    Silent where no process group is made, where nobody can tell whether the line runs, where the name may get
    another device, where the number is a parameter, the device a parameter's default, and where
    CUDA_VISIBLE_DEVICES is named. Informational where only what the script imports makes the group and
    nothing is trained, as in inference, which is mostly one process.

    Bad: `torch.cuda.set_device(0)`, `DDP(model, device_ids=[0])`, `torch.device("cuda:0")`. Good:
    `torch.device("cuda", int(os.environ["LOCAL_RANK"]))`.

    Source: the sources of DIST006 and DIST003.
    """
    groups = [call for call, _ in program.calls(INIT_PROCESS_GROUP)]
    if not groups or chooses_devices(program):
        return
    severity = None if program.analysis(Reachability).is_one_of_several(groups) else Severity.INFO
    for node, index in device_indices(program):
        value = program.value(index)
        if not isinstance(value, Constant) or type(value.value) is not int or _is_a_parameter(program, index):
            continue
        if _stays(program, node):
            harm = "'Duplicate GPU detected', or out of memory"
            message = f"every process of the host takes GPU {value.value}: {harm}"
            yield finding_at(distribution.HARD_CODED_TOPOLOGY, node, message, severity=severity)


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def device_is_not_the_hosts_number(program: Program) -> Iterator[Finding]:
    """The number of the host taken as the index of a device.

    All processes of a host share one: 'Duplicate GPU detected', or out of memory. Silent where no process
    group is made.

    Bad: `torch.cuda.set_device(rank // torch.cuda.device_count())`. Good: `rank % torch.cuda.device_count()`.

    Source: the sources of DIST003.
    """
    if not any(True for _ in program.calls(INIT_PROCESS_GROUP)):
        return
    for node, index in device_indices(program):
        value = program.value(index)
        if isinstance(value, RankValue) and value.kind is RankKind.NODE:
            host = file_of(index).source(index)
            message = f"{host} is the host's number: all of its processes take one device"
            yield finding_at(distribution.MORE_PROCESSES_THAN_DEVICES, node, message)


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def each_process_takes_a_device(program: Program) -> Iterator[Finding]:
    """A model on `cuda`, wrapped in DDP, FSDP or by Horovod, in a program that never says which GPU is whose.

    Without an index, `cuda` is GPU 0 in every process: 'Duplicate GPU detected', or out of memory. So too
    where the shell script beside the program shows fewer GPUs than it starts processes.

    Silent where anything in the program takes a device by an index or another library does, where
    CUDA_VISIBLE_DEVICES is set, and where the device comes from elsewhere.

    Bad: `DDP(model.cuda())` and no set_device. Good: `torch.cuda.set_device(local_rank)` first.
    Source: the sources of DIST003.
    """
    yield from _devices_shown_by_shell(program)
    yield from on_the_first_device(program, program.analysis(Reachability).is_named_nowhere)


def on_the_first_device(program: Program, is_passed: Callable[[ast.AST], bool]) -> Iterator[Finding]:
    """The wrappers of models that lie on GPU 0 in every process, as a run passes over all that takes another
    device."""
    wrappers = [
        (call, name)
        for call, name in program.calls(DDP, FSDP, _HOROVOD)
        if _takes_none_of_its_own(program, argument_of(call, "device_ids", None if name == _HOROVOD else 1))
        and _takes_none_of_its_own(program, argument_of(call, "device_id"))
    ]
    if not wrappers or chooses_devices(program):
        return
    chosen = (node for node, index in device_indices(program) if not _is_the_current(program, index))
    own = (call for call, _ in program.calls(*_OWN_DEVICES))
    if not all(map(is_passed, chain(chosen, own))):
        return
    joining = program.calls(INIT_PROCESS_GROUP, "horovod.torch.init")
    groups = [call for call, _ in joining if surely_runs(program, call)]
    if not groups or any(argument_of(call, "device_id", 8) is not None for call in groups):
        return
    for wrapper, name in wrappers:
        moved = _on_cuda(program, wrapper)
        if moved is not None and surely_runs(program, wrapper):
            place, beside = (moved, wrapper) if name == _HOROVOD else (wrapper, moved)
            said = "wrapped here" if name == _HOROVOD else "here it is moved to GPU 0, in every process"
            yield finding_at(
                distribution.MORE_PROCESSES_THAN_DEVICES,
                place,
                f"{name.rpartition('.')[2]} wraps a model on `cuda`, and nothing calls set_device: "
                "every process of the host takes GPU 0",
                related=(related_at(beside, said),),
            )


def _takes_none_of_its_own(program: Program, given: ast.expr | None) -> bool:
    """Whether a wrapper is told of no device, or of the one that is the current one anyway."""
    one = given.elts[0] if isinstance(given, ast.List) and len(given.elts) == 1 else given
    return one is None or _is_the_current(program, one)


def _devices_shown_by_shell(program: Program) -> Iterator[Finding]:
    """Where a shell script exports fewer devices than each line of it starts processes on a host; with gloo
    several processes may share one."""
    shell = program.analysis(ShellStarts)
    started = [each.processes_per_host for each in shell.starts]
    for setting in shell.settings:
        shown = [each.strip() for each in setting.value.split(",")]
        if setting.name != "CUDA_VISIBLE_DEVICES" or not all(each.isdecimal() for each in shown):
            continue
        fewest = min(each or 0 for each in started)
        if len(shown) < fewest and not any("gloo" in file.text for file in program.files):
            yield finding_in_shell(
                distribution.MORE_PROCESSES_THAN_DEVICES,
                setting,
                f"{fewest} processes on each host see {len(shown)} of its devices",
            )


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def device_is_taken_before_the_wrapper(program: Program) -> Iterator[Finding]:
    """DDP or FSDP around a model before the process has taken its device.

    The wrapper moves and shares parameters over the current device: GPU 0, until set_device is called.

    Only where both surely run, in one function, and the wrapper is told nothing of a device.

    Bad: `model = FSDP(model)`, then `torch.cuda.set_device(local_rank)`. Good: the other way round.

    Source: the sources of DIST003.
    """
    setters = [call for call, _ in program.calls("torch.cuda.set_device") if surely_runs(program, call)]
    for wrapper, name in program.calls(DDP, FSDP):
        if argument_of(wrapper, "device_ids", 1) is not None or argument_of(wrapper, "device_id") is not None:
            continue
        if name == DDP and _on_cuda(program, wrapper) is None:
            continue
        scope = scope_of(wrapper)
        beside = [each for each in setters if scope_of(each) is scope]
        if not beside or len(beside) != len(setters) or not surely_runs(program, wrapper):
            continue
        if all(each.lineno > wrapper.lineno for each in beside):
            yield finding_at(
                distribution.MORE_PROCESSES_THAN_DEVICES,
                wrapper,
                f"{name.rpartition('.')[2]} wraps the model before set_device is called: until then, "
                "the device of every process is GPU 0",
                related=(related_at(beside[0], "only here the process takes its device"),),
            )


def device_indices(program: Program) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Where a device is taken by a number, and the expression of the number."""
    for call, name in program.calls(*_TAKES):
        keyword, position = _TAKES[name]
        given = argument_of(call, keyword, position)
        if name == "torch.device" and given is None:
            yield from _written(program, call, argument_of(call, "device", 0))
        elif given is not None:
            yield from _given(program, call, given)
    for call, _ in program.calls(DDP):
        for keyword, position in (("device_ids", 1), ("output_device", 2)):
            given = argument_of(call, keyword, position)
            if isinstance(given, ast.List) and len(given.elts) == 1 and keyword == "device_ids":
                yield from _given(program, given, given.elts[0])
    for file in program.files:
        for call in file.calls_of.get("to", ()):
            for given in call.args[:1]:
                yield from _written(program, call, given)
                if isinstance(program.value(given), RankValue):
                    yield call, given
        for call in file.calls_of.get("cuda", ()):
            given = argument_of(call, "device", 0)
            if given is not None and isinstance(call.func, ast.Attribute):
                yield from _given(program, call, given)


def _given(program: Program, node: ast.AST, given: ast.expr) -> Iterator[tuple[ast.AST, ast.expr]]:
    yield from [*_written(program, node, given)] or [(node, given)]


def _written(program: Program, node: ast.AST, given: ast.expr | None) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The number in `"cuda:0"`, `f"cuda:{rank}"`, `"cuda:%d" % rank`."""
    parts = text_parts(program, given)[0]
    if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Mod):
        begins = str(getattr(given.left, "value", "")).partition("%")[0]
        parts = [ast.Constant(begins), given.right]
    if isinstance(given, ast.IfExp):
        other = given.orelse.value if isinstance(given.orelse, ast.Constant) else None
        if isinstance(other, str) and not other.startswith("cuda"):
            yield from _written(program, node, given.body)
    elif len(parts) == 2 and isinstance(parts[0], ast.Constant) and parts[0].value == "cuda:":
        number = parts[1]
        is_text = isinstance(number, ast.Call) and last_name(number.func) == "str" and number.args
        yield node, number.args[0] if is_text and isinstance(number, ast.Call) else number
    elif isinstance(given, ast.Constant) and isinstance(given.value, str):
        kind, _, number_text = given.value.partition(":")
        if kind == "cuda" and number_text.isdigit():
            yield node, _number(given, int(number_text))


def _number(node: ast.Constant, number: int) -> ast.Constant:
    """The number that is part of a literal, as an expression at its place."""
    written = ast.copy_location(ast.Constant(number), node)
    written.__dict__.update({key: node.__dict__[key] for key in ("parent", "scope")})
    return written


def chooses_devices(program: Program) -> bool:
    """Whether the program says which devices a process sees."""
    return any("VISIBLE_DEVICES" in line for file in program.files for line in _lines_run(program, file))


def _lines_run(program: Program, file: FileIndex) -> Iterator[str]:
    """The lines of a file but those that run where it is started itself and the entry is not."""
    guarded = (each for each in file.tree.body if isinstance(each, ast.If) and is_main_guard(each.test))
    others = [range(each.lineno, (each.end_lineno or each.lineno) + 1) for each in guarded]
    for number, line in enumerate(file.text.splitlines(), 1):
        if file is program.entry or not any(number in each for each in others):
            yield line


def _is_a_parameter(program: Program, index: ast.expr) -> bool:
    """Whether a number is what a function is given, now by the only call of it: a demo of one process."""
    bindings = program.evaluation.sources(index) if isinstance(index, ast.Name) else []
    return any(each.kind is BindingKind.PARAMETER for each in bindings)


def _stays(program: Program, node: ast.AST) -> bool:
    """Whether a device is surely taken, and its name gets no other one somewhere."""
    statement = statement_of(node)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return False  # A default, in place of which another may be given.
    target = getattr(statement, "targets", [getattr(statement, "target", None)])[0]
    if isinstance(target, ast.Name) and (holder := scope_of(statement).holder_of(target.id)) is not None:
        found = holder.bindings[target.id]
        if isinstance(holder.node, ast.ClassDef):
            found = program.evaluation.attributes.bindings_in_class(holder.node, target.id)
        if len(found) > 1:
            return False
    if isinstance(target, ast.Attribute):
        stores = [each for file in program.files for each in file.set_attributes.get(target.attr, ())]
        if len(stores) > 1:
            return False
    return is_part_of_the_start(program, node)


def _is_for_one_host(program: Program, node: ast.AST) -> bool:
    """Whether a test around a node may let one host alone come by; `local_rank != -1` is of all of them."""
    for outer in ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp) and program.analysis(Guards).truth(outer.test) is not True:
            names = {getattr(each, "attr", getattr(each, "id", "")) for each in walk(outer.test)}
            if any(part in str(name).lower() for name in names for part in _KNOWS_THE_HOST):
                return True
    return False


def _on_cuda(program: Program, wrapper: ast.Call) -> ast.AST | None:
    """Where the model of a wrapper is moved to `cuda` without an index."""
    is_optimizer = program.qualified(wrapper.func) == _HOROVOD
    named = argument_of(wrapper, "named_parameters", 1) if is_optimizer else None
    asked = named.func if isinstance(named, ast.Call) else None
    model = asked.value if isinstance(asked, ast.Attribute) else argument_of(wrapper, "module", 0)
    candidates = [] if model is None else [model, *origins(program, model)]
    if isinstance(model, ast.Name | ast.Attribute):
        uses = file_of(model).names if isinstance(model, ast.Name) else file_of(model).attributes
        for use in uses.get(last_name(model) or "", ()):
            call = _moved(use) if ast.unparse(use) == ast.unparse(model) else None
            if call is not None and scope_of(use) is scope_of(model) and use.lineno < wrapper.lineno:
                candidates.append(call)
    for each in candidates:
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            if each.func.attr == "cuda" and not each.args and not each.keywords:
                return each
            device = argument_of(each, "device", 0) if each.func.attr == "to" else None
            if device is not None and _is_bare_cuda(program, device):
                return each
    moves = (last_name(each.func) for each in candidates if isinstance(each, ast.Call))
    return None if {"to", "cpu", "cuda"} & set(moves) else _default_device(program, wrapper)


def _default_device(program: Program, wrapper: ast.Call) -> ast.Call | None:
    """What surely makes `cuda` the device of all that is made, before a wrapper."""
    for call, _ in program.calls("torch.set_default_device"):
        given = argument_of(call, "device", 0)
        before = scope_of(call) is not scope_of(wrapper) or call.lineno < wrapper.lineno
        if given is not None and before and _is_bare_cuda(program, given) and surely_runs(program, call):
            return call
    return None


def _moved(use: ast.expr) -> ast.Call | None:
    attribute = use.__dict__.get("parent")
    call = attribute.__dict__.get("parent") if isinstance(attribute, ast.Attribute) else None
    return call if isinstance(call, ast.Call) and call.func is attribute else None


def _is_bare_cuda(program: Program, device: ast.expr) -> bool:
    """Whether a device is `cuda` without an index, or the current one; or else, without GPUs, the CPU."""
    found = {_bare_kind(program, each) for each in origins(program, device)}
    return "cuda" in found and found <= {"cuda", "cpu"}


def _bare_kind(program: Program, made: ast.expr | None) -> str | None:
    written = None if made is None else default_constant(program, made)
    if written is not None and written.value in ("cuda", "cpu"):
        return str(written.value)
    name = program.qualified(made.func) if isinstance(made, ast.Call) else None
    given = all_arguments(made) if isinstance(made, ast.Call) and name == "torch.device" else []
    if given and _is_the_current(program, given[-1]):
        return "cuda"
    if len(given) == 1 and _is_bare_cuda(program, given[0]):
        return "cuda"
    return "cpu" if len(given) == 1 and program.value(given[0]) == Constant("cpu") else None


def _is_the_current(program: Program, index: ast.expr) -> bool:
    """Whether a device or its index is asked of torch, which says 0 until somebody sets another one."""
    made = origins(program, index)
    return all(isinstance(each, ast.Call) and _asks_for_the_current(program, each) for each in made)


def _asks_for_the_current(program: Program, call: ast.Call) -> bool:
    name = program.qualified(call.func)
    of_device = name == "torch.device" and bool(all_arguments(call))
    return name == "torch.cuda.current_device" or (
        of_device and _is_the_current(program, all_arguments(call)[-1])
    )


DEVICE_RULES = (
    device_is_not_the_global_rank,
    device_is_not_the_same_for_all,
    device_is_not_the_hosts_number,
    each_process_takes_a_device,
    device_is_taken_before_the_wrapper,
)
"""The rules of this family, in the order in which their findings are shown."""


# What only script and job together show: the strategy, the instance type, the version of torch.


@finds(
    Stage.SCRIPT,
    distribution.PROCESSES_DIFFER_FROM_ACCELERATORS,
    distribution.MORE_PROCESSES_THAN_DEVICES,
)
def spawned_processes_are_the_hosts_accelerators(subject: ScriptSubject) -> Iterator[Finding]:
    """A script that starts its processes itself, and not as many as the host has GPUs.

    GPUs without a process are idle and billed, and of two processes on one GPU both are slow. By mp.spawn,
    elastic_launch, a torchrun of its own or a Lightning Trainer, whose several devices are judged under
    torchrun too: it counts on as many processes. Silent about groups that run side by side.

    Bad: `mp.spawn(train, nprocs=4)` on a host with eight. Good: `nprocs=torch.cuda.device_count()`.

    Source: the sources of DIST001.
    """
    facts = instance_facts(subject.job.resources.instance_type)
    program, run = subject.program, JobRun(subject)
    launched = run.strategy == "torchrun"
    if not (launched or run.strategy == "none") or facts is None or not facts.has_gpus:
        return
    wanted = (launched and subject.plan.processes_per_host) or facts.accelerators
    beside = runs_groups_side_by_side(program)
    for call, given in (*(() if launched else started_processes(program)), *_devices_of_trainers(program)):
        number = count_on_host(program, given, facts.accelerators, run.value)
        if number is None or number == wanted or not surely_runs(program, call, known=run.truth):
            continue
        fewer = number < wanted
        if (fewer and beside) or (launched and number == 1):
            continue
        idle = "the others are idle, and billed" if fewer else "some of them share a device"
        yield finding_at(
            distribution.PROCESSES_DIFFER_FROM_ACCELERATORS
            if fewer
            else distribution.MORE_PROCESSES_THAN_DEVICES,
            given,
            f"{number} devices of a host are asked for, and torchrun starts {wanted} processes there"
            if launched
            else f"{number} processes are started on hosts with {facts.accelerators} GPUs: {idle}",
            severity=Severity.WARNING if fewer else None,
        )


def _devices_of_trainers(program: Program) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Where Lightning is told on how many GPUs it trains, with a process for each."""
    for call, _ in program.calls("lightning.pytorch.Trainer", "lightning.fabric.Fabric"):
        given = argument_of(call, "devices")
        kind = constant_argument(program, argument_of(call, "accelerator"))
        if given is not None and kind in (None, Constant("gpu"), Constant("cuda"), Constant("auto")):
            yield call, given


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def devices_are_as_many_as_the_processes(subject: ScriptSubject) -> Iterator[Finding]:
    """Fewer devices taken, or shown, than the job starts processes on a host.

    Two processes on one device: 'Duplicate GPU detected', or 'invalid device ordinal' where none is left.

    Bad: `torch.cuda.set_device(rank % 4)` with eight processes, `CUDA_VISIBLE_DEVICES=0,1,2,3`. Good:
    `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))`.

    Source: the sources of DIST003.
    """
    program, run, processes = subject.program, JobRun(subject), subject.plan.processes_per_host or 1
    if run.strategy not in STARTS_EACH_PROCESS or not makes_a_group(program):
        return
    for change in changed_variables(program):
        if change.name != "CUDA_VISIBLE_DEVICES" or change.only_unset:
            continue
        shown = run.count_listed(change.value)
        if shown is not None and 0 < shown < processes and is_part_of_the_start(program, change.runs):
            message = f"{processes} processes on each host see {shown} of its devices"
            yield finding_at(distribution.MORE_PROCESSES_THAN_DEVICES, change.node, message)
    shared = list[tuple[ast.AST, int]]()
    for node, index in device_indices(program):
        for made in origins(program, index):
            if not isinstance(made, ast.BinOp) or not isinstance(made.op, ast.Mod):
                continue
            rank, size = program.value(made.left), count_on_host(program, made.right, processes, run.value)
            if not isinstance(rank, RankValue) or rank.kind not in (RankKind.GLOBAL, RankKind.LOCAL):
                continue
            if size is not None and 0 < size < processes:
                shared.append((node, size))
    setters = {call for call, _ in program.calls(_SETS_DEVICE)}
    sets = [each for each in shared if each[0] in setters]
    for node, size in (sets or shared)[:1]:
        message = f"{processes} processes on each host share {size} devices"
        yield finding_at(distribution.MORE_PROCESSES_THAN_DEVICES, node, message)


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def one_process_does_not_take_all_devices(subject: ScriptSubject) -> Iterator[Finding]:
    """DataParallel in each of several processes of a host.

    It is one process's way to several GPUs: every process puts a copy of its model and a part of its batch on
    each of them. Silent where the devices that it is given may be a process's own.

    Bad: `nn.DataParallel(model)` under torchrun. Good: `DDP(model, device_ids=[local_rank])`.

    Source: the sources of DIST003.
    """
    program, run, processes = subject.program, JobRun(subject), subject.plan.processes_per_host or 1
    if run.strategy not in STARTS_EACH_PROCESS or processes < 2 or chooses_devices(program):
        return
    for call, _ in program.calls("torch.nn.parallel.DataParallel"):
        given = argument_of(call, "device_ids", 1)
        made = [] if given is None else origins(program, given)
        own = any(isinstance(each, ast.List) and len(each.elts) == 1 for each in made)
        ranks = any(
            isinstance(program.value(part), RankValue) for each in made if each for part in _expressions(each)
        )
        if not own and not ranks and surely_runs(program, call, known=run.truth):
            message = f"{processes} processes on each host take the same devices here, several each"
            yield finding_at(
                distribution.MORE_PROCESSES_THAN_DEVICES, call, message, severity=Severity.WARNING
            )


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    return (each for each in walk(node) if isinstance(each, ast.expr))


def _is_judged_without_a_job(subject: ScriptSubject, name: str, value: str) -> bool:
    """Whether a variable harms everywhere, or is the protocol that the plugin's older versions want."""
    from launcher.planning.image_choice import efa_plugin_version, job_image_software
    from launcher.planning.settings import PLUGIN_CHOOSES_PROVIDER

    facts = instance_facts(subject.job.resources.instance_type)
    plugin = efa_plugin_version(job_image_software(subject.job, facts))
    is_simple = (name, value.lower()) == ("NCCL_PROTO", "simple")
    return not is_simple or plugin is None or plugin < PLUGIN_CHOOSES_PROVIDER


@finds(Stage.SCRIPT, nccl.OBSOLETE_ENVIRONMENT, nccl.FIGHTS_THE_PLUGIN, nccl.DEBUGGING_ENVIRONMENT)
def settings_suit_the_job(subject: ScriptSubject) -> Iterator[Finding]:
    """A variable that is obsolete for the job's torch, or fights the plugin of a host with EFA.

    What it was to change stays as it is, or the plugin's own choice is lost.

    What harms everywhere is found without a job; where it stands under a test or is an option's value, by
    what the job makes of that.

    Bad: `os.environ["NCCL_ASYNC_ERROR_HANDLING"] = "1"` with torch 2.2 or later, before which it is right.
    Good: no such line, or the name `TORCH_NCCL_ASYNC_ERROR_HANDLING`.
    Source: the sources of NCCL001 and NCCL002.
    """
    from launcher.planning.images import torch_version

    program, torch, run = subject.program, torch_version(subject.job), JobRun(subject)
    facts = instance_facts(subject.job.resources.instance_type)
    for change in variables_of_ranks(program):
        value = run.value(change.value)
        if value is None or value.value is None or not is_taken(program, change.node, run.value):
            continue
        text = str(value.value).strip()
        always = is_set_in_every_run(program, change)
        if not always and not surely_runs(program, change.runs, known=run.truth):
            continue
        if not always or default_constant(program, change.value) is None:
            yield from setting_findings(program, change, text)
        harm = shared_facts.why_obsolete(change.name, text, torch)
        if harm and shared_facts.why_obsolete(change.name, text, None) is None:
            yield finding_at(nccl.OBSOLETE_ENVIRONMENT, change.node, f"{change.name}={text}: {harm}")
        advice = shared_facts.advice_on(change.name)
        if advice is None or facts is None or not facts.has_efa:
            continue
        if not advice.with_efa_only and _is_judged_without_a_job(subject, change.name, text):
            continue
        if text not in advice.harmless and facts.plugin_environment.get(change.name) != text:
            message = f"{change.name}={text} {advice.harm}"
            yield finding_at(nccl.FIGHTS_THE_PLUGIN, change.node, message, severity=Severity.WARNING)


STRATEGY_JOB_RULES = (
    devices_are_as_many_as_the_processes,
    one_process_does_not_take_all_devices,
    spawned_processes_are_the_hosts_accelerators,
    settings_suit_the_job,
)
"""The rules that judge script and job together."""
