"""Whether the workers of loaders leave the accelerators alone, which a forked process cannot use."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import all_arguments, argument_of, constant_argument, origins
from launcher.program.index import SCOPE, FunctionNode, ancestors, last_name
from launcher.program.objects.nodes import catches, walk
from launcher.program.program import Program
from launcher.program.values import (
    Constant,
    Defined,
    External,
    Instance,
    Made,
    Nothing,
    RankValue,
    Value,
    alternatives,
    library_names,
)
from launcher.rules.script.data.loaders import method_of
from launcher.rules.script.data.workers.pools import WorkerPool, WorkerPools
from launcher.rules.script.default_values import default_constant, default_number
from launcher.rules.script.findings import finding_at, related_at


@finds(Stage.SCRIPT, data.LOADER_WORKER_KILLED)
def workers_leave_the_devices_alone(program: Program) -> Iterator[Finding]:
    """CUDA in what the workers of a DataLoader run: the dataset's methods, collate functions, what they call.

    A training process has initialised CUDA before it forks its workers, and in these every use of it raises
    "Cannot re-initialize CUDA in forked subprocess": the worker dies, its rank with it, and the others wait.
    Such a use is also to index a tensor or to call a model that is on the device already, as a TensorDataset
    of such tensors does. Not found with the start methods spawn and forkserver, where it works.

    Bad: `def __getitem__(self, index): return self.samples[index].cuda()`
    Good: return tensors of the host, and move the batch in the training loop.

    Source: torch.utils.data documentation (multi-process data loading); torch/cuda/__init__.py.
    """
    pools = program.analysis(WorkerPools).pools
    if not pools or _starts_otherwise(program):
        return
    reported = set[ast.AST]()
    for pool in pools:
        workers = default_number(program, pool.workers)
        if workers is None or workers < 1 or not _is_forked(program, pool):
            continue
        uses = [use for each in _run_by_workers(program, pool) for use in _uses_of_cuda(program, each)]
        if _holds_cuda_tensors(program, pool):
            uses.append(pool.call)
        for use in uses:
            if use not in reported:
                reported.add(use)
                yield finding_at(
                    data.LOADER_WORKER_KILLED,
                    use,
                    "CUDA in a DataLoader worker, which is forked from a process that has used it: "
                    "it dies with `Cannot re-initialize CUDA in forked subprocess`",
                    remedy="Return tensors of the host, and move the batch to the device in the training "
                    "loop (pin_memory=True, `.to(device, non_blocking=True)`).",
                    related=[related_at(pool.call, f"its loader, with {workers:g} workers")],
                )


def _starts_otherwise(program: Program) -> bool:
    """Whether the program chooses another way than fork by which processes are started."""
    chosen = (call for file in program.files for call in file.calls_of.get("set_start_method", ()))
    if any(file.calls_of.get("set_forkserver_preload") for file in program.files):
        return True
    return any(not _names_fork(program, argument_of(call, "method", 0)) for call in chosen)


def _is_forked(program: Program, pool: WorkerPool) -> bool:
    """Whether nothing that a loader is given starts its workers in another way than by fork."""
    context = None if pool.context is None else program.value(pool.context)
    if isinstance(context, Instance) and context.name.endswith(".get_context"):
        return _names_fork(program, argument_of(context.call, "method", 0))
    return pool.context is None or _names_fork(program, pool.context)


def _names_fork(program: Program, method: ast.expr | None) -> bool:
    """Whether a way of starting processes surely is fork, which is Linux's own."""
    known = Constant(None) if method is None else default_constant(program, method)
    return known in (Constant(None), Constant("fork"))


_DEEPEST_PART = 5
"""Datasets within datasets, and values of values, that are followed."""

_ITEM_METHODS = ("__getitem__", "__getitems__", "__iter__")
_PARTS_OF_DATASETS = (
    "torch.utils.data.Subset",
    "torch.utils.data.ConcatDataset",
    "torch.utils.data.random_split",
)
_STARTING_CUDA = frozenset({"torch.cuda.set_device", "torch.cuda.synchronize", "torch.cuda.current_device"})


def _run_by_workers(program: Program, pool: WorkerPool) -> Iterator[FunctionNode]:
    """What the program has its workers run: the methods of the dataset, and of those within it, the collate
    and the first function, and what these call."""
    waiting: list[FunctionNode] = []
    for given in pool.functions:
        for each in alternatives(program.value(given)):
            if isinstance(each, Instance) and each.name == "functools.partial" and each.call.args:
                each = program.value(each.call.args[0])
            if isinstance(each, Made):
                waiting += _methods(each.definition, "__call__")
            elif isinstance(each, Defined) and not isinstance(each.node, ast.ClassDef):
                waiting.append(each.node)
    for dataset in pool.datasets:
        for each in _datasets_within(program, program.value(dataset), 0):
            if isinstance(each, Made):
                waiting += _methods(each.definition, *_ITEM_METHODS)
            elif isinstance(each, Instance):
                for stage in _lazy_stages(program, each):
                    waiting += _functions_within(program, stage)
    seen = set[ast.AST]()
    while waiting:
        function = waiting.pop(0)
        if function in seen or len(seen) >= _MOST_FUNCTIONS:
            continue
        seen.add(function)
        yield function
        for part in walk(function):
            if not isinstance(part, ast.Call | ast.Subscript) or _is_conditional(program, part, function):
                continue
            reads = isinstance(part, ast.Subscript)
            used = part.value if isinstance(part, ast.Subscript) else part.func
            for each in alternatives(program.value(used)):
                if isinstance(each, Made):
                    waiting += _methods(
                        each.definition, *(_ITEM_METHODS if reads else ("__call__", "forward"))
                    )
                elif isinstance(each, Defined) and not reads and not isinstance(each.node, ast.ClassDef):
                    waiting.append(each.node)
                elif isinstance(each, Instance):
                    waiting += _functions_within(program, each)


def _functions_within(program: Program, made: Instance, deepest: int = 4) -> Iterator[FunctionNode]:
    """What an object of a library was given to call: `Compose([ToTensor(), Jitter()])`, `Lambda(augment)`."""
    given = all_arguments(made.call) if deepest and SCOPE in made.call.__dict__ else []
    for node in (one for each in given for one in (each.elts if isinstance(each, ast.List) else [each])):
        for each in alternatives(program.value(node)):
            if isinstance(each, Made):
                yield from _methods(each.definition, "__call__", "forward")
            elif isinstance(each, Defined) and not isinstance(each.node, ast.ClassDef):
                yield each.node
            elif isinstance(each, Instance):
                yield from _functions_within(program, each, deepest - 1)


def _lazy_stages(program: Program, made: Instance) -> Iterator[Instance]:
    """A dataset of a library, and the stages before it, whose functions run where it is read: those of
    `WebDataset(urls).map(decode).batched(8)`, and of Hugging Face's what is streamed or only a transform."""
    stages = [made]
    while len(stages) < _MOST_STAGES and isinstance(stages[-1].call.func, ast.Attribute):
        before = program.value(stages[-1].call.func.value)
        if not isinstance(before, Instance) or SCOPE not in before.call.__dict__:
            break
        stages.append(before)
    library = made.name.partition(".")[0]
    is_streamed = constant_argument(program, argument_of(stages[-1].call, "streaming")) == Constant(True)
    for number, each in enumerate(stages):
        if library == "datasets":
            if is_streamed or last_name(each.call.func) == "with_transform":
                yield each
        elif number == 0 or library in _LAZY:
            yield each


_MOST_STAGES = 20
_LAZY = library_names("lazy_datasets")

_MOST_FUNCTIONS = 40
"""So many functions are followed from what a worker runs."""


def _methods(definition: ast.ClassDef, *names: str) -> list[FunctionNode]:
    return [each for name in names if (each := method_of(definition, name)) is not None]


def _datasets_within(program: Program, value: Value, depth: int) -> Iterator[Value]:
    """A dataset, or those of which it takes a part: `Subset(dataset, indices)`."""
    for each in alternatives(value):
        if isinstance(each, Instance) and each.name in _PARTS_OF_DATASETS and each.call.args:
            inner = each.call.args[0]
            for one in inner.elts if isinstance(inner, ast.List | ast.Tuple) else [inner]:
                if depth < _DEEPEST_PART:
                    yield from _datasets_within(program, program.value(one), depth + 1)
        else:
            yield each


def _holds_cuda_tensors(program: Program, pool: WorkerPool) -> bool:
    """Whether a loader's dataset is made of tensors that are on a CUDA device."""
    return any(
        isinstance(each, Instance)
        and each.name == "torch.utils.data.TensorDataset"
        and any(_is_on_cuda(program, given) for given in all_arguments(each.call))
        for dataset in pool.datasets
        for each in _datasets_within(program, program.value(dataset), 0)
    )


def _is_on_cuda(program: Program, node: ast.expr, depth: int = 0) -> bool:
    """Whether a tensor or model surely is on a CUDA device: by the last of what was asked of it."""
    found = origins(program, node) if depth < _DEEPEST_PART else ()
    return bool(found) and all(each is not None and _is_put_on_cuda(program, each, depth) for each in found)


def _is_put_on_cuda(program: Program, made: ast.expr, depth: int) -> bool:
    if isinstance(made, ast.Subscript):
        return _is_on_cuda(program, made.value, depth + 1)
    if not isinstance(made, ast.Call):
        return False
    if _puts_on_cuda(program, made):
        return True
    function = made.func
    if not isinstance(function, ast.Attribute) or function.attr in ("cpu", "numpy", "tolist", "item", "to"):
        return False
    return isinstance(program.value(made), Nothing | Instance) and _is_on_cuda(
        program, function.value, depth + 1
    )


def _uses_of_cuda(program: Program, function: FunctionNode) -> Iterator[ast.expr]:
    """What in a function surely needs a CUDA device, outside of any test."""
    for node in walk(function):
        if not isinstance(node, ast.Call | ast.Subscript) or _is_conditional(program, node, function):
            continue
        if isinstance(node, ast.Subscript):
            if isinstance(node.value, ast.Attribute) and _is_on_cuda(program, node.value):
                yield node
        elif _puts_on_cuda(program, node) or program.qualified(node.func) in _STARTING_CUDA:
            yield node
        elif isinstance(node.func, ast.Attribute) and _is_on_cuda(program, node.func):
            yield node  # A model that is there already.


def _puts_on_cuda(program: Program, call: ast.Call) -> bool:
    """Whether a call surely puts something on a CUDA device."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
        return True
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        target = argument_of(call, "device", 0)
        return target is not None and _is_cuda(program, target)
    called = program.value(call.func)
    if not isinstance(called, External) or not called.name.startswith(("torch.", "torchvision.", "kornia.")):
        return False
    if called.name in ("torch.device", "torch.autocast"):
        return False  # A name of a device, or a mode, which touches none.
    name, place = _PLACES_OF_DEVICES.get(called.name, ("device", None))
    device = argument_of(call, name, place)
    return device is not None and _is_cuda(program, device)


_PLACES_OF_DEVICES = {
    "torch.load": ("map_location", 1),
    "torch.Generator": ("device", 0),
    "torchvision.io.decode_jpeg": ("device", 2),
}
"""Where functions take a device by another name than `device`, or by position."""


def _is_conditional(program: Program, call: ast.AST, function: FunctionNode) -> bool:
    inner = call
    for outer in ancestors(call):
        if outer is function:
            return False
        if catches(outer):
            return True
        if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
            body = outer.body if isinstance(outer, ast.If) else [outer.body]
            if inner not in body or not _is_there(program, outer.test):
                return True
        inner = outer
    return True


def _is_there(program: Program, test: ast.expr) -> bool:
    """Whether a test asks for something that the program gives: `if self.transform is not None`."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
        test = test.left if isinstance(test.comparators[0], ast.Constant) else test
    return isinstance(program.value(test), Made | Defined | Instance)


def _is_cuda(program: Program, device: ast.expr) -> bool:
    """Whether it is a CUDA device where there is one: also `"cuda" if is_available() else "cpu"`."""
    if isinstance(device, ast.JoinedStr) and device.values and isinstance(device.values[0], ast.Constant):
        return str(device.values[0].value).startswith("cuda")
    if isinstance(device, ast.IfExp):
        asks = isinstance(device.test, ast.Call) and program.qualified(device.test.func)
        return asks == "torch.cuda.is_available" and _is_cuda(program, device.body)
    sources = program.evaluation.sources(device)
    if len(sources) == 1 and isinstance(sources[0].value, ast.IfExp) and sources[0].item is None:
        return _is_cuda(program, sources[0].value)
    made = origins(program, device)
    if made and all(isinstance(each, ast.JoinedStr) for each in made):
        return all(isinstance(each, ast.JoinedStr) and _is_cuda(program, each) for each in made)
    if all(_names_cuda(program, each) for each in alternatives(program.value(device))):
        return True
    known = default_constant(program, device)
    return known is not None and _names_cuda(program, known)


def _names_cuda(program: Program, value: Value) -> bool:
    if isinstance(value, Constant):
        by_number = isinstance(value.value, int) and not isinstance(value.value, bool)
        return by_number or (isinstance(value.value, str) and value.value.partition(":")[0] == "cuda")
    if isinstance(value, Instance) and value.name == "torch.device":
        given = argument_of(value.call, "type", 0) or argument_of(value.call, "device")
        return given is not None and _is_cuda(program, given)
    if isinstance(value, External | Instance):
        return value.name in _DEVICES
    return isinstance(value, RankValue)


_DEVICES = library_names("accelerator_devices")
