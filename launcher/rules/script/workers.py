"""What the workers of a DataLoader may do, and need."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.rules.script.loaders import Loaders, loaders_of
from launcher.scripts.arguments import argument, constant, is_open
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors
from launcher.scripts.values import Constant, Defined, External, Instance, Made, Value, alternatives


@finds(Stage.SCRIPT, data.LOADER_WORKER_KILLED)
def workers_are_there(program: Program) -> Iterator[Finding]:
    """`prefetch_factor` or `persistent_workers=True` in a DataLoader without workers.

    DataLoader raises ValueError, on every rank, before the first batch. num_workers is 0 unless given.

    Bad: `DataLoader(dataset, persistent_workers=True)`
    Good: `DataLoader(dataset, num_workers=4, persistent_workers=True)`

    Source: torch/utils/data/dataloader.py.
    """
    loaders = loaders_of(program)
    for loader in loaders.calls:
        workers = loaders.given(loader, "num_workers")
        if is_open(loader) or not (workers is None or program.value(workers) == Constant(0)):
            continue
        for name in ("prefetch_factor", "persistent_workers"):
            given = constant(program, argument(loader, name))
            if given is not None and given.value is not None and given.value is not False:
                yield found(
                    data.LOADER_WORKER_KILLED,
                    loader,
                    f"{name}={given.value}, but num_workers is 0: DataLoader raises ValueError on every rank",
                    remedy=f"Give num_workers, or leave out {name}.",
                )
                break


@finds(Stage.SCRIPT, data.LOADER_WORKER_KILLED)
def workers_leave_the_devices_alone(program: Program) -> Iterator[Finding]:
    """CUDA in `__getitem__`, `__iter__` or the collate function of a DataLoader that has workers.

    A training process has initialised CUDA before it forks its workers, and in these every use of it raises
    "Cannot re-initialize CUDA in forked subprocess": the worker dies, its rank with it, and the others wait.
    Not found with the start methods spawn and forkserver, where it works.

    Bad: `def __getitem__(self, index): return self.samples[index].cuda()`
    Good: return tensors of the host, and move the batch in the training loop.

    Source: torch.utils.data documentation (multi-process data loading); torch/cuda/__init__.py.
    """
    loaders = loaders_of(program)
    if not loaders.calls or _starts_otherwise(program):
        return
    reported = set[ast.AST]()
    for loader in loaders.calls:
        workers = constant(program, loaders.given(loader, "num_workers"))
        if workers is None or not isinstance(workers.value, int) or workers.value < 1:
            continue
        if is_open(loader) or argument(loader, "multiprocessing_context") is not None:
            continue
        for function in _run_by_workers(loaders, loader):
            for use in _uses_of_cuda(program, function):
                if use not in reported:
                    reported.add(use)
                    yield found(
                        data.LOADER_WORKER_KILLED,
                        use,
                        "CUDA in a DataLoader worker, which is forked from a process that has used it: "
                        "it dies with `Cannot re-initialize CUDA in forked subprocess`",
                        remedy="Return tensors of the host, and move the batch to the device in the training "
                        "loop (pin_memory=True, `.to(device, non_blocking=True)`).",
                        related=[note(loader, f"its loader, with {workers.value} workers")],
                    )


def _starts_otherwise(program: Program) -> bool:
    """Whether the program chooses how processes are started."""
    names = ("set_start_method", "set_forkserver_preload", "get_context")
    return any(file.calls_of.get(name) for file in program.files for name in names)


def _run_by_workers(loaders: Loaders, loader: ast.Call) -> Iterator[ast.FunctionDef]:
    """The methods of the loader's dataset and its collate function, where they are the program's."""
    program = loaders.program
    dataset, collate = loaders.given(loader, "dataset"), loaders.given(loader, "collate_fn")
    for each in () if dataset is None else alternatives(program.value(dataset)):
        if isinstance(each, Made):
            yield from (
                node
                for node in each.definition.body
                if isinstance(node, ast.FunctionDef)
                and node.name in ("__getitem__", "__getitems__", "__iter__")
            )
    for each in () if collate is None else alternatives(program.value(collate)):
        if isinstance(each, Defined) and isinstance(each.node, ast.FunctionDef):
            yield each.node


def _uses_of_cuda(program: Program, function: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls in a function that surely put something on a CUDA device, outside of any test."""
    for call in ast.walk(function):
        if not isinstance(call, ast.Call) or _is_conditional(call, function):
            continue
        if isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
            yield call
        elif isinstance(call.func, ast.Attribute) and call.func.attr == "to":
            target = argument(call, "device", 0)
            if target is not None and _is_cuda(program, target):
                yield call
        else:
            device = argument(call, "device")
            called = program.value(call.func)
            if (
                device is not None
                and isinstance(called, External)
                and called.name.startswith("torch.")
                and _is_cuda(program, device)
            ):
                yield call


def _is_conditional(call: ast.Call, function: ast.FunctionDef) -> bool:
    for outer in ancestors(call):
        if outer is function:
            return False
        if isinstance(outer, ast.If | ast.IfExp | ast.Try):
            return True
    return True


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
    return _names_cuda(program, program.value(device))


def _names_cuda(program: Program, value: Value) -> bool:
    if isinstance(value, Constant):
        return isinstance(value.value, str) and value.value.partition(":")[0] == "cuda"
    if isinstance(value, Instance) and value.name == "torch.device" and value.call.args:
        return _is_cuda(program, value.call.args[0])
    return False
