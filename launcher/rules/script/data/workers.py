"""The workers of loaders: whether they are there, leave the devices alone, and have CPUs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Related, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    calculate_number,
    constant_argument,
    has_star_arguments,
    origins,
)
from launcher.program.index import SCOPE, FunctionNode, ancestors
from launcher.program.objects.nodes import catches
from launcher.program.program import Program
from launcher.program.surroundings.options import option_of
from launcher.program.values import (
    Constant,
    Defined,
    External,
    Instance,
    Made,
    Nothing,
    RankKind,
    RankValue,
    Value,
    WorldSize,
    alternatives,
)
from launcher.rules.script.data.loaders import Loaders, method_of
from launcher.rules.script.default_values import default_number
from launcher.rules.script.findings import ScriptSubject, finding_at, related_at


@finds(Stage.SCRIPT, data.LOADER_WORKER_KILLED)
def workers_are_there(program: Program) -> Iterator[Finding]:
    """`prefetch_factor` or `persistent_workers=True` in a DataLoader without workers.

    DataLoader raises ValueError, on every rank, before the first batch. num_workers is 0 unless given.

    Bad: `DataLoader(dataset, persistent_workers=True)`
    Good: `DataLoader(dataset, num_workers=4, persistent_workers=True)`

    Source: torch/utils/data/dataloader.py.
    """
    loaders = program.analysis(Loaders)
    for loader in loaders.calls:
        workers = loaders.given(loader, "num_workers")
        if has_star_arguments(loader) or not (workers is None or program.value(workers) == Constant(0)):
            continue
        for name in ("prefetch_factor", "persistent_workers"):
            given = constant_argument(program, argument_of(loader, name))
            if given is not None and given.value is not None and given.value is not False:
                yield finding_at(
                    data.LOADER_WORKER_KILLED,
                    loader,
                    f"{name}={given.value}, but num_workers is 0: DataLoader raises ValueError on every rank",
                    remedy=f"Give num_workers, or leave out {name}.",
                )
                break


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
    loaders = program.analysis(Loaders)
    if not loaders.calls or _starts_otherwise(program):
        return
    reported = set[ast.AST]()
    for loader in loaders.calls:
        workers = _workers_of(loaders, loader)
        if workers is None or workers < 1:
            continue
        if argument_of(loader, "multiprocessing_context") is not None:
            continue
        uses = [use for each in _run_by_workers(loaders, loader) for use in _uses_of_cuda(program, each)]
        if _holds_cuda_tensors(loaders, loader):
            uses.append(loader)
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
                    related=[related_at(loader, f"its loader, with {workers} workers")],
                )


def _workers_of(loaders: Loaders, loader: ast.Call) -> int | None:
    """The workers of a loader in a run of the defaults."""
    given = loaders.given(loader, "num_workers")
    workers = None if given is None else default_number(loaders.program, given)
    return workers if isinstance(workers, int) else None


def _starts_otherwise(program: Program) -> bool:
    """Whether the program chooses how processes are started."""
    names = ("set_start_method", "set_forkserver_preload", "get_context")
    return any(file.calls_of.get(name) for file in program.files for name in names)


_DEEPEST_PART = 5
"""Datasets within datasets, and values of values, that are followed."""

_ITEM_METHODS = ("__getitem__", "__getitems__", "__iter__")
_PARTS_OF_DATASETS = (
    "torch.utils.data.Subset",
    "torch.utils.data.ConcatDataset",
    "torch.utils.data.random_split",
)
_STARTING_CUDA = frozenset({"torch.cuda.set_device", "torch.cuda.synchronize", "torch.cuda.current_device"})


def _run_by_workers(loaders: Loaders, loader: ast.Call) -> Iterator[FunctionNode]:
    """What the program has its workers run: the methods of the dataset, and of those within it, the collate
    and the first function, and what these call."""
    program = loaders.program
    waiting: list[FunctionNode] = []
    for name in ("collate_fn", "worker_init_fn"):
        given = loaders.given(loader, name)
        for each in () if given is None else alternatives(program.value(given)):
            if isinstance(each, Instance) and each.name == "functools.partial" and each.call.args:
                each = program.value(each.call.args[0])
            if isinstance(each, Made):
                waiting += _methods(each.definition, "__call__")
            elif isinstance(each, Defined) and not isinstance(each.node, ast.ClassDef):
                waiting.append(each.node)
    dataset = loaders.given(loader, "dataset")
    for each in () if dataset is None else _datasets_within(program, program.value(dataset), 0):
        if isinstance(each, Made):
            waiting += _methods(each.definition, *_ITEM_METHODS)
        elif isinstance(each, Instance):
            waiting += _functions_within(program, each)
    seen = set[ast.AST]()
    while waiting:
        function = waiting.pop(0)
        if function in seen or len(seen) >= _MOST_FUNCTIONS:
            continue
        seen.add(function)
        yield function
        for part in ast.walk(function):
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


def _holds_cuda_tensors(loaders: Loaders, loader: ast.Call) -> bool:
    """Whether a loader's dataset is made of tensors that are on a CUDA device."""
    dataset = loaders.given(loader, "dataset")
    program = loaders.program
    return any(
        isinstance(each, Instance)
        and each.name == "torch.utils.data.TensorDataset"
        and any(_is_on_cuda(program, given) for given in all_arguments(each.call))
        for each in (() if dataset is None else _datasets_within(program, program.value(dataset), 0))
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
    for node in ast.walk(function):
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
    device = argument_of(call, "map_location" if called == External("torch.load") else "device")
    external = isinstance(called, External) and called.name.startswith(("torch.", "torchvision."))
    return device is not None and external and _is_cuda(program, device)


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
    return _names_cuda(program, program.value(device))


def _names_cuda(program: Program, value: Value) -> bool:
    if isinstance(value, Constant):
        return isinstance(value.value, str) and value.value.partition(":")[0] == "cuda"
    if isinstance(value, Instance) and value.name == "torch.device" and value.call.args:
        return _is_cuda(program, value.call.args[0])
    if isinstance(value, Instance):
        return value.name == "torch.cuda.current_device"
    return isinstance(value, RankValue) and value.kind is RankKind.LOCAL


# The workers that a script starts, against the CPUs of the job's hosts.


@finds(Stage.SCRIPT, data.TOO_MANY_WORKERS)
def workers_have_cpus(subject: ScriptSubject) -> Iterator[Finding]:
    """More workers in a DataLoader than the host has vCPUs for each process, by literal, default or a count.

    Each process starts as many, and they take time and memory from each other and from the training: also
    where it counts the CPUs of its host, which are not its own alone. What the job file gives the script is
    judged there.

    Bad: `DataLoader(dataset, num_workers=os.cpu_count())` on an ml.p4d.24xlarge with 96 vCPUs, 8 processes
    Good: `DataLoader(dataset, num_workers=os.cpu_count() // torch.cuda.device_count())`

    Source: torch.utils.data documentation; EC2's vCPUs of the instance type.
    """
    processes = subject.plan.processes_per_host
    facts = instance_facts(subject.job.resources.instance_type)
    if facts is None or processes is None:
        return
    program = subject.program
    cpus = max(1, facts.vcpus // processes)
    loaders = program.analysis(Loaders)
    for loader in loaders.calls:
        given = loaders.given(loader, "num_workers")
        if given is None:
            continue
        number = _number_on_host(subject, given)
        option = option_of(program, given)
        related: list[Related] = [] if option is None else [related_at(option.node, "its default")]
        if number is not None and int(number) > cpus:
            workers = int(number)
            yield finding_at(
                data.TOO_MANY_WORKERS,
                given,
                f"{workers} workers in each of {processes} processes make {workers * processes} on the "
                f"{facts.vcpus} vCPUs of {facts.instance_type}",
                remedy=f"Use at most {max(1, cpus - 1)}: {cpus} vCPUs a process, less one.",
                related=related,
            )


@finds(Stage.SCRIPT, data.LOADER_WORKER_KILLED)
def prefetched_batches_have_memory(subject: ScriptSubject) -> Iterator[Finding]:
    """Images that the workers of a host keep ready, of a size that the script says, beyond any host's memory.

    Each worker keeps `prefetch_factor` batches in /dev/shm, 2 unless given, in each process. They are counted
    as float32 of three channels, where `ToTensor` makes them of images that are cut to one size.

    Bad: `prefetch_factor=128` with 8 workers, batches of 256 and `RandomResizedCrop(512)`
    Good: `prefetch_factor=2`

    Source: torch.utils.data documentation (prefetch_factor, multi-process data loading).
    """
    processes = subject.plan.processes_per_host
    loaders = subject.program.analysis(Loaders)
    for loader in loaders.calls if processes else ():
        given = [loaders.given(loader, each) for each in ("batch_size", "num_workers", "prefetch_factor")]
        numbers = [None if each is None else _number_on_host(subject, each) for each in given]
        side = _side_of_images(loaders, loader)
        prefetch = given[-1]
        if prefetch is None or processes is None or side is None:
            continue
        bytes_kept = 12 * side * side * processes
        for each in numbers:
            bytes_kept *= int(each or 0)
        if bytes_kept > _LARGEST_HOST:
            yield finding_at(
                data.LOADER_WORKER_KILLED,
                prefetch,
                f"the workers of {processes} processes keep {bytes_kept >> 30} GiB ready in /dev/shm: "
                "they die of a bus error when it is full",
                remedy="Leave prefetch_factor at 2, or give smaller batches.",
            )


_LARGEST_HOST = 4 << 40
"""More bytes than hosts with GPUs have; /dev/shm is a part of it."""

_CUTTING = frozenset({"RandomResizedCrop", "CenterCrop", "RandomCrop"})
"""The transforms of torchvision that make images of one size."""


def _side_of_images(loaders: Loaders, loader: ast.Call) -> int | None:
    """The side of the square images, as tensors of float32, that a dataset's transforms make last."""
    program = loaders.program
    dataset = loaders.given(loader, "dataset")
    made = () if dataset is None else origins(program, dataset)
    steps = [
        one
        for each in made
        for given in (all_arguments(each) if isinstance(each, ast.Call) else [])
        for composed in alternatives(program.value(given))
        if isinstance(composed, Instance) and composed.name.endswith("transforms.Compose")
        for listed in composed.call.args[:1]
        for one in getattr(listed, "elts", ())
    ]
    calls = [(program.qualified(each.func) or "", each) for each in steps if isinstance(each, ast.Call)]
    sizes = [
        argument_of(call, "size", 0)
        for name, call in calls
        if name.startswith("torchvision.transforms.") and name.rpartition(".")[2] in _CUTTING
    ]
    size = None if len(sizes) != 1 or sizes[0] is None else program.value(sizes[0])
    tensors = any(name == "torchvision.transforms.ToTensor" for name, _ in calls)
    return size.value if tensors and isinstance(size, Constant) and isinstance(size.value, int) else None


_OF_SAGEMAKER = ("SM_NUM_CPUS", "SM_NUM_GPUS")
_CPU_COUNTS = frozenset(
    f"{module}.cpu_count" for module in ("os", "multiprocessing", "torch.multiprocessing", "psutil", "joblib")
) | {"os.process_cpu_count"}


def _as_number(node: ast.expr) -> float | ast.expr:
    """The number that a literal text holds; any other expression as it is."""
    text = node.value if isinstance(node, ast.Constant) else None
    return int(text) if isinstance(text, str) and text.isdecimal() else node


def _number_on_host(subject: ScriptSubject, node: ast.expr) -> float | None:
    """What an expression of literals, options, CPUs and processes is on the job's hosts; None if unknown."""
    program, processes = subject.program, subject.plan.processes_per_host
    facts = instance_facts(subject.job.resources.instance_type)

    def of_sagemaker(variable: Constant | None) -> float | None:
        by_name = {"SM_NUM_CPUS": None if facts is None else facts.vcpus, "SM_NUM_GPUS": processes}
        return None if variable is None else by_name.get(str(variable.value))

    def of_host(part: ast.expr) -> float | ast.expr | None:
        if isinstance(part, ast.Attribute) and (option := option_of(program, part)) is not None:
            return _as_number(option.default)
        name = program.qualified(part.func) if isinstance(part, ast.Call) else None
        if isinstance(part, ast.Call) and name in ("os.environ.get", "os.getenv") and len(part.args) == 2:
            variable = constant_argument(program, part.args[0])
            given = variable is None or variable.value in subject.job.environment
            own = variable is not None and variable.value in _OF_SAGEMAKER
            known = given or own or isinstance(program.value(part), WorldSize)
            return of_sagemaker(variable) if own else None if known else _as_number(part.args[1])
        if isinstance(part, ast.Subscript) and program.value(part.value) == External("os.environ"):
            return of_sagemaker(constant_argument(program, part.slice))
        if isinstance(part, ast.Call) and name in _CPU_COUNTS and not part.args:
            return None if facts is None else facts.vcpus
        if isinstance(part, ast.Call) and name == "len" and part.args:
            affinity = program.qualified(part.args[0]) == "os.sched_getaffinity"
            return facts.vcpus if affinity and facts is not None else None
        size = program.value(part)
        if name == "torch.cuda.device_count" or (
            isinstance(size, WorldSize) and "LOCAL" in size.source.upper()
        ):
            return processes
        if isinstance(size, WorldSize) and processes is not None:
            return processes * subject.job.resources.instance_count
        return None

    chosen = program.value(node)  # Of a function with several ways, the one that it is asked for.
    if isinstance(chosen, Instance) and chosen.item is None and SCOPE in chosen.call.__dict__:
        node = chosen.call
    found = calculate_number(program, node, of_host)
    return default_number(program, node) if found is None else found
