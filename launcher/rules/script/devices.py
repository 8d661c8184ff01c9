"""Which device a process takes: one for each, by its rank on the host."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import distribution
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.rules.script.topology import is_part_of_the_start
from launcher.scripts.arguments import argument
from launcher.scripts.certainty import surely_runs
from launcher.scripts.launching import is_for_one_host
from launcher.scripts.program import Program
from launcher.scripts.scopes import BindingKind, ancestors, file_of, scope_of, statement_of
from launcher.scripts.values import Constant, Instance, RankKind, RankValue, Value

_GROUP = "torch.distributed.init_process_group"
_DDP = "torch.nn.parallel.DistributedDataParallel"
_FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
_TAKES = {
    "torch.cuda.set_device": ("device", 0),
    "torch.device": ("index", 1),
}
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
)
"""What gives each process a device of its own."""

_KNOWS_THE_HOST = ("device_count", "nnodes", "num_nodes", "node_rank", "local")
"""Names in a test after which the global rank may be right as an index: one host alone."""


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
    if is_for_one_host(program):
        return
    for node, index in _indices(program):
        value = program.value(index)
        if (
            not isinstance(value, RankValue)
            or value.kind is not RankKind.GLOBAL
            or _is_for_one_host(program, node)
        ):
            continue
        yield found(
            distribution.HARD_CODED_TOPOLOGY,
            node,
            f"the global rank ({file_of(index).source(index)}) is taken as the index of a device: the second "
            "host has no device of that number",
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
    groups = [call for call, _ in program.calls(_GROUP)]
    if not groups or _chooses(program):
        return
    severity = None if program.reach.is_one_of_several(groups) else Severity.INFO
    for node, index in _indices(program):
        value = program.value(index)
        if not isinstance(value, Constant) or type(value.value) is not int or _is_a_parameter(program, index):
            continue
        if _stays(program, node):
            yield found(
                distribution.HARD_CODED_TOPOLOGY,
                node,
                f"every process of the host takes GPU {value.value}: 'Duplicate GPU detected', or out of "
                "memory",
                severity=severity,
            )


@finds(Stage.SCRIPT, distribution.MORE_PROCESSES_THAN_DEVICES)
def each_process_takes_a_device(program: Program) -> Iterator[Finding]:
    """A model on `cuda`, wrapped in DDP or FSDP, in a program that never says which GPU is whose.

    Without an index, `cuda` is GPU 0 in every process: 'Duplicate GPU detected', or out of memory.

    Silent where anything in the program takes a device by an index or another library does, where
    CUDA_VISIBLE_DEVICES is set, and where the device comes from elsewhere.

    Bad: `DDP(model.cuda())` and no set_device. Good: `torch.cuda.set_device(local_rank)` first.

    Source: the sources of DIST003.
    """
    if _chooses(program) or any(True for _ in program.calls(*_OWN_DEVICES)) or any(_indices(program)):
        return
    groups = [call for call, _ in program.calls(_GROUP) if surely_runs(program, call)]
    if not groups or any(argument(call, "device_id", 8) is not None for call in groups):
        return
    for wrapper, name in program.calls(_DDP, _FSDP):
        if argument(wrapper, "device_ids", 1) is not None or argument(wrapper, "device_id") is not None:
            continue
        moved = _on_cuda(program, wrapper)
        if moved is not None and surely_runs(program, wrapper):
            yield found(
                distribution.MORE_PROCESSES_THAN_DEVICES,
                wrapper,
                f"{name.rpartition('.')[2]} wraps a model on `cuda`, and nothing calls set_device: "
                "every process of the host takes GPU 0",
                related=(note(moved, "here it is moved to GPU 0, in every process"),),
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
    for wrapper, name in program.calls(_DDP, _FSDP):
        if argument(wrapper, "device_ids", 1) is not None or argument(wrapper, "device_id") is not None:
            continue
        if name == _DDP and _on_cuda(program, wrapper) is None:
            continue
        scope = scope_of(wrapper)
        beside = [each for each in setters if scope_of(each) is scope]
        if not beside or len(beside) != len(setters) or not surely_runs(program, wrapper):
            continue
        if all(each.lineno > wrapper.lineno for each in beside):
            yield found(
                distribution.MORE_PROCESSES_THAN_DEVICES,
                wrapper,
                f"{name.rpartition('.')[2]} wraps the model before set_device is called: until then, "
                "the device of every process is GPU 0",
                related=(note(beside[0], "only here the process takes its device"),),
            )


def _indices(program: Program) -> Iterator[tuple[ast.AST, ast.expr]]:
    """Where a device is taken by a number, and the expression of the number."""
    for call, name in program.calls(*_TAKES):
        keyword, position = _TAKES[name]
        given = argument(call, keyword, position)
        if name == "torch.device" and given is None:
            yield from _written(call, argument(call, "device", 0))
        elif given is not None:
            yield from _given(program, call, given)
    for call, _ in program.calls(_DDP):
        for keyword, position in (("device_ids", 1), ("output_device", 2)):
            given = argument(call, keyword, position)
            if isinstance(given, ast.List) and len(given.elts) == 1 and keyword == "device_ids":
                yield from _given(program, given, given.elts[0])
    for file in program.files:
        for call in file.calls_of.get("to", ()):
            for given in call.args[:1]:
                yield from _written(call, given)
                if isinstance(program.value(given), RankValue):
                    yield call, given
        for call in file.calls_of.get("cuda", ()):
            given = argument(call, "device", 0)
            if given is not None and isinstance(call.func, ast.Attribute):
                yield from _given(program, call, given)


def _given(program: Program, node: ast.AST, given: ast.expr) -> Iterator[tuple[ast.AST, ast.expr]]:
    written = list(_written(node, given))
    yield from written or [(node, given)]


def _written(node: ast.AST, given: ast.expr | None) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The number in `"cuda:0"`, `f"cuda:{rank}"`."""
    if isinstance(given, ast.IfExp):
        other = given.orelse.value if isinstance(given.orelse, ast.Constant) else None
        if isinstance(other, str) and not other.startswith("cuda"):
            yield from _written(node, given.body)
    elif isinstance(given, ast.JoinedStr) and len(given.values) == 2:
        prefix, number = given.values
        if (
            isinstance(prefix, ast.Constant)
            and prefix.value == "cuda:"
            and isinstance(number, ast.FormattedValue)
        ):
            yield node, number.value
    elif isinstance(given, ast.Constant) and isinstance(given.value, str):
        kind, _, number_text = given.value.partition(":")
        if kind == "cuda" and number_text.isdigit():
            yield node, _number(given, int(number_text))


def _number(node: ast.Constant, number: int) -> ast.Constant:
    """The number that is part of a literal, as an expression at its place."""
    written = ast.copy_location(ast.Constant(number), node)
    written.__dict__.update({key: node.__dict__[key] for key in ("parent", "scope")})
    return written


def _chooses(program: Program) -> bool:
    """Whether the program says which devices a process sees."""
    return any("VISIBLE_DEVICES" in file.text for file in program.files)


def _is_a_parameter(program: Program, index: ast.expr) -> bool:
    """Whether a number is what a function is given, now by the only call of it: a demo of one process."""
    bindings = program.evaluation.sources(index) if isinstance(index, ast.Name) else []
    return any(each.kind is BindingKind.PARAMETER for each in bindings)


def _stays(program: Program, node: ast.AST) -> bool:
    """Whether a device is surely taken, and its name gets no other one somewhere."""
    statement = statement_of(node)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return False  # A default, in place of which another may be given.
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, ast.Name):
        holder = scope_of(statement).holder_of(target.id)
        if holder is not None and len(holder.bindings[target.id]) > 1:
            return False
    if isinstance(target, ast.Attribute):
        stores = [each for file in program.files for each in file.set_attributes.get(target.attr, ())]
        if len(stores) > 1:
            return False
    return is_part_of_the_start(program, node)


def _is_for_one_host(program: Program, node: ast.AST) -> bool:
    """Whether a test around a node may let one host alone come by; `local_rank != -1` is of all of them."""
    for outer in ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp) and program.guards.truth(outer.test) is not True:
            names = {getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(outer.test)}
            if any(part in str(name).lower() for name in names for part in _KNOWS_THE_HOST):
                return True
    return False


def _on_cuda(program: Program, wrapper: ast.Call) -> ast.AST | None:
    """Where the model of a wrapper is moved to `cuda` without an index."""
    model = argument(wrapper, "module", 0)
    candidates = [model] if model is not None else []
    if isinstance(model, ast.Name):
        candidates += [each.value for each in program.evaluation.sources(model) if each.value is not None]
        for use in file_of(model).names.get(model.id, ()):
            call = _moved(use)
            if call is not None and scope_of(use) is scope_of(model) and use.lineno < wrapper.lineno:
                candidates.append(call)
    for each in candidates:
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute):
            if each.func.attr == "cuda" and not each.args and not each.keywords:
                return each
            if each.func.attr == "to" and each.args and _is_bare_cuda(program.value(each.args[0])):
                return each
    return None


def _moved(use: ast.Name) -> ast.Call | None:
    attribute = use.__dict__.get("parent")
    call = attribute.__dict__.get("parent") if isinstance(attribute, ast.Attribute) else None
    return call if isinstance(call, ast.Call) and call.func is attribute else None


def _is_bare_cuda(value: Value) -> bool:
    if isinstance(value, Instance) and value.name == "torch.device" and len(value.call.args) == 1:
        first = value.call.args[0]
        return isinstance(first, ast.Constant) and first.value == "cuda"
    return value == Constant("cuda")


RULES = (
    device_is_not_the_global_rank,
    device_is_not_the_same_for_all,
    each_process_takes_a_device,
    device_is_taken_before_the_wrapper,
)
"""The rules of this family, in the order in which their findings are shown."""
