"""The DataLoaders of a program: what they are made of, whose they are, what their workers may do and need.

A loader that was handed to a library (`accelerator.prepare`, a Trainer) is that library's: it may give it a
sampler and tell it the epoch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.program.bindings import bind_arguments
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    calls_that_made,
    constant_argument,
    has_star_arguments,
    origins,
    unpacked_argument,
)
from launcher.program.index import (
    SCOPE,
    FileIndex,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    class_of,
    file_of,
    last_name,
    scope_of,
)
from launcher.program.participants import Closure
from launcher.program.program import Program
from launcher.program.values import (
    LIBRARY_TABLES,
    Constant,
    Defined,
    External,
    Instance,
    Made,
    Nothing,
    RankKind,
    RankValue,
    Value,
    alternatives,
    is_import_of,
    library_names,
)
from launcher.rules.script.findings import (
    default_of_option,
    finding_at,
    related_at,
)


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
    """The workers of a loader, by a literal or the default of an option."""
    given = loaders.given(loader, "num_workers")
    literal = constant_argument(loaders.program, given)
    option = None if given is None or literal is not None else default_of_option(loaders.program, given)
    workers: object = literal.value if literal is not None else None if option is None else option.value
    return workers if isinstance(workers, int) and not isinstance(workers, bool) else None


def _starts_otherwise(program: Program) -> bool:
    """Whether the program chooses how processes are started."""
    names = ("set_start_method", "set_forkserver_preload", "get_context")
    return any(file.calls_of.get(name) for file in program.files for name in names)


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
    return [each for name in names if (each := _method(definition, name)) is not None]


def _datasets_within(program: Program, value: Value, depth: int) -> Iterator[Value]:
    """A dataset, or those of which it takes a part: `Subset(dataset, indices)`."""
    for each in alternatives(value):
        if isinstance(each, Instance) and each.name in _PARTS_OF_DATASETS and each.call.args:
            inner = each.call.args[0]
            for one in inner.elts if isinstance(inner, ast.List | ast.Tuple) else [inner]:
                if depth < _DEEPEST:
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
    found = origins(program, node) if depth < _DEEPEST else ()
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
    external = isinstance(called, External) and called.name.startswith("torch.")
    return device is not None and external and _is_cuda(program, device)


def _is_conditional(program: Program, call: ast.AST, function: FunctionNode) -> bool:
    inner = call
    for outer in ancestors(call):
        if outer is function:
            return False
        if isinstance(outer, ast.Try):
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


# What loaders are made of, and where the program trains with them.


LOADER = "torch.utils.data.DataLoader"
SAMPLER = "torch.utils.data.DistributedSampler"
BATCH_SAMPLER = "torch.utils.data.BatchSampler"

PARAMETERS = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn")
"""The first parameters of a DataLoader, which may be given by position."""

_LOOKERS = frozenset(
    {
        "enumerate",
        "iter",
        "len",
        "next",
        "zip",
        "list",
        "print",
        "isinstance",
        "hasattr",
        "getattr",
        "id",
        "type",
        "str",
        "range",
        "reversed",
        "itertools.islice",
        "itertools.chain",
        "itertools.cycle",
        "tqdm.tqdm",
        "tqdm.trange",
        "tqdm.auto.tqdm",
        "tqdm.autonotebook.tqdm",
        "tqdm.notebook.tqdm",
        "math.ceil",
        "rich.progress.track",
    }
)
"""What is given a loader and leaves it as it is."""

_WRAPPED = frozenset(
    {"enumerate", "iter", "rich.progress.track", "reversed", *(each for each in _LOOKERS if "tqdm" in each)}
)
"""What gives one element for each of its first argument's."""

_DEEPEST = 5
"""So many calls are followed from a loop to what it calls, and from a function to its callers."""


@dataclass(frozen=True, slots=True, eq=False)
class LoaderLoop:
    """A loop over batches that calculates gradients, itself or in what it calls.

    `loaders` is all that it may loop over: loaders that the script makes, and that stay its own. `iter` is
    that as it is written, also of a comprehension, or of a loop that takes `next(batches)` itself.
    """

    node: ast.For | ast.While | ast.comprehension
    iter: ast.expr
    loaders: frozenset[ast.Call]

    @property
    def ends_with_data(self) -> bool:
        """Whether it makes as many rounds as there are batches."""
        return getattr(self.node, "iter", None) is self.iter


class Loaders:
    """The loaders of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked for before somebody asks."""
        self.program = program

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """Where DataLoaders are made."""
        return tuple(call for call, _ in self.program.calls(LOADER))

    @cached_property
    def samplers(self) -> tuple[ast.Call, ...]:
        """Where DistributedSamplers are made."""
        return tuple(call for call, _ in self.program.calls(SAMPLER))

    @cached_property
    def is_data_parallel(self) -> bool:
        """Whether all ranks train one model, each with data of its own; False where that is not sure."""
        for file in self.program.files:
            for binding in file.imports:
                if is_import_of(binding.module or "", "parallelism_imports"):
                    return False
        return any(True for _ in self.program.calls(*library_names("model_wrappers")))

    def given(self, call: ast.Call, name: str) -> ast.expr | None:
        """What a DataLoader is given for one of PARAMETERS or by keyword."""
        given = argument_of(call, name, PARAMETERS.index(name) if name in PARAMETERS else None)
        return unpacked_argument(self.program, call, name) if given is None else given

    def samplers_of(self, loader: ast.Call) -> frozenset[ast.Call] | None:
        """The distributed samplers that a loader may have: none where it surely has none, None if unknown."""
        if has_star_arguments(loader):
            return None
        found = frozenset[ast.Call]()
        for name in ("sampler", "batch_sampler"):
            given = self.given(loader, name)
            if given is None:
                continue
            samplers = self._distributed(given)
            if samplers is None:
                return None
            found |= samplers
        return found

    def _distributed(self, sampler: ast.expr) -> frozenset[ast.Call] | None:
        value = self.program.value(sampler)
        if value == Constant(None):
            return frozenset()
        found = frozenset[ast.Call]()
        for each in alternatives(value):
            if isinstance(each, Made) and _deals_all(self.program, each.definition, sampler):
                continue
            calls = calls_that_made(each, SAMPLER, BATCH_SAMPLER, *library_names("plain_samplers"))
            if calls is None:
                return None
            for call in calls:
                if self.program.qualified(call.func) == SAMPLER:
                    found |= {call}
                elif self.program.qualified(call.func) == BATCH_SAMPLER:
                    inner = argument_of(call, "sampler", 0)
                    samplers = None if inner is None or has_star_arguments(call) else self._distributed(inner)
                    if samplers is None:
                        return None
                    found |= samplers
        return found

    def resolved(self, node: ast.expr) -> frozenset[ast.Call] | None:
        """The DataLoaders that an expression may be; None where it may be anything else."""
        return calls_that_made(self.program.value(node), LOADER)

    @cached_property
    def training_loops(self) -> tuple[LoaderLoop, ...]:
        """The loops that train, over loaders that are the program's own."""
        if not self.calls:
            return ()
        return tuple(self._training_loops())

    def _training_loops(self) -> Iterator[LoaderLoop]:
        for file in self.program.files:
            for loop, given, body in _loops_over_something(self.program, file):
                over = self.resolved(self.unwrapped(given))
                if over and not over & self.handed_over and self.trains(body):
                    yield LoaderLoop(loop, given, over)

    def unwrapped(self, node: ast.expr) -> ast.expr:
        """What is looped over, without enumerate, tqdm and the like."""
        for _ in range(_DEEPEST):
            if not isinstance(node, ast.Call):
                break
            called = self.program.value(node.func)
            if isinstance(called, External) and called.name in _WRAPPED and node.args:
                node = node.args[0]
            elif isinstance(called, Defined) and (inner := _passed_through(called, node)) is not None:
                node = inner
            else:
                break
        return node

    @cached_property
    def handed_over(self) -> frozenset[ast.Call]:
        """The loaders that were given to a library, made for one, or given to something unknown."""
        owner_of = self.program.analysis(LoaderOwners).owner_of
        found = {call for call in self.calls if owner_of(call) is not LoaderOwner.SCRIPT}
        for file in self.program.files:
            for call in file.calls:
                given = [
                    each
                    for each in all_arguments(call)
                    if isinstance(each, ast.Name | ast.Attribute | ast.Call | ast.Starred)
                ]
                if given and not self._leaves_alone(call):
                    for each in given:
                        found.update(self._loaders_in(each))
        return frozenset(found)

    def _leaves_alone(self, call: ast.Call) -> bool:
        values = alternatives(self.program.value(call.func))
        return all(
            isinstance(each, Defined) or (isinstance(each, External) and each.name in _LOOKERS)
            for each in values
        )

    def _loaders_in(self, node: ast.expr) -> Iterator[ast.Call]:
        if isinstance(node, ast.Starred):
            node = node.value
        for each in alternatives(self.program.value(node)):
            if isinstance(each, Instance) and each.name == LOADER:
                yield each.call

    def trains(self, body: Sequence[ast.AST]) -> bool:
        """Whether gradients are calculated in these statements, or in functions that they call."""
        return self._calls_backward(body, set(), 0)

    def _calls_backward(self, body: Sequence[ast.AST], seen: set[ast.AST], depth: int) -> bool:
        calls = [each for statement in body for each in ast.walk(statement) if isinstance(each, ast.Call)]
        if any(last_name(call.func) == "backward" for call in calls):
            return True
        if depth >= _DEEPEST:
            return False
        for call in calls:
            for each in alternatives(self.program.value(call.func)):
                function = each.node if isinstance(each, Defined) else None
                if isinstance(each, Made):
                    function = _method(each.definition, "__call__")
                if isinstance(function, ast.FunctionDef) and function not in seen:
                    seen.add(function)
                    if self._calls_backward(function.body, seen, depth + 1):
                        return True
        return False

    def epoch_loops(self, node: ast.AST) -> Iterator[ast.For | ast.While]:
        """The loops in which a loop over batches is run again, in its function or where that is called."""
        yield from self._loops_around(node, set(), 0)

    def _loops_around(self, node: ast.AST, seen: set[ast.AST], depth: int) -> Iterator[ast.For | ast.While]:
        inner = node
        for outer in ancestors(node):
            if isinstance(outer, ast.For) and inner in outer.body and self._counts(outer):
                yield outer
                return
            if (
                isinstance(outer, ast.While)
                and inner in outer.body
                and not isinstance(outer.test, ast.Constant)
            ):
                yield outer
                return
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                break
            inner = outer
        function = scope_of(node).function
        if function is None or function.node in seen or depth >= _DEEPEST:
            return
        seen.add(function.node)
        assert isinstance(function.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for site in self.program.evaluation.callers.call_sites(function.node) or ():
            yield from self._loops_around(site.call, seen, depth + 1)

    def _counts(self, loop: ast.For) -> bool:
        """Whether a loop is over numbers, and more than one."""
        over = self.unwrapped(loop.iter)
        if not isinstance(over, ast.Call):
            return False
        called = self.program.value(over.func)
        if isinstance(called, Defined):
            yields = file_of(called.node).yields_of.get(called.node, ())
            loops = [loop for each in yields for loop in ancestors_in_function(each)]
            return any(isinstance(each, ast.For) and self._counts(each) for each in loops)
        if not isinstance(called, External) or not called.name.endswith(("range", "count")):
            return False
        bounds = [self.program.value(each) for each in over.args]
        return not bounds or bounds[-1] != Constant(1) or len(bounds) > 1


def _method(definition: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    return next(
        (each for each in definition.body if isinstance(each, ast.FunctionDef) and each.name == name), None
    )


def _loops_over_something(
    program: Program, file: FileIndex
) -> Iterator[tuple[ast.For | ast.While | ast.comprehension, ast.expr, Sequence[ast.AST]]]:
    """The loops of a file, over what they go, and what they do with each element: also comprehensions, and
    loops that take the next element themselves: `for _ in range(n): x = next(batches)`."""
    for loop in file.statements.get(ast.For, ()):
        assert isinstance(loop, ast.For)
        yield loop, loop.iter, loop.body
    for scope in file.scopes:
        if isinstance(scope, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            yield scope.generators[0], scope.generators[0].iter, [scope.elt]
    for call in file.calls_of.get("next", ()):
        around = (each for each in ancestors_in_function(call) if isinstance(each, ast.For | ast.While))
        outer = next(around, None)
        made = origins(program, call.args[0]) if outer is not None and call.args else ()
        begun = made[0] if len(made) == 1 else None
        if outer is None or not isinstance(begun, ast.Call) or last_name(begun.func) != "iter":
            continue
        if begun.args and outer not in ancestors(begun):
            yield outer, begun.args[0], outer.body


def _passed_through(called: Defined, call: ast.Call) -> ast.expr | None:
    """What a generator of the program gives on, element by element: the argument of `log_every(loader, 10)`,
    or what it knows itself, as `self.loader`."""
    function = called.node
    if not isinstance(function, ast.FunctionDef):
        return None
    loops = {
        next((each for each in ancestors_in_function(node) if isinstance(each, ast.For | ast.While)), None)
        for node in file_of(function).yields_of.get(function, ())
    }
    loop = loops.pop() if len(loops) == 1 else None
    if not isinstance(loop, ast.For):
        return None
    arguments = bind_arguments(function, call, called.owner is not None) or {}
    return arguments.get(loop.iter.id, loop.iter) if isinstance(loop.iter, ast.Name) else loop.iter


def _deals_all(program: Program, definition: ast.ClassDef, sampler: ast.expr) -> bool:
    """Whether a sampler of the program's own deals all that there is, on every rank: nothing in it cuts a
    part off, or draws some of the samples only."""
    bases = {program.qualified(each) for each in definition.bases}
    names = {last_name(each) for each in ast.walk(definition) if isinstance(each, ast.expr)}
    return (
        bases <= {"torch.utils.data.Sampler", BATCH_SAMPLER, "object"}
        and names.isdisjoint(_DRAWING_SOME)
        and not any(isinstance(each, ast.While) for each in ast.walk(definition))
        and Closure(program, sampler).is_cut_nowhere
    )


_DRAWING_SOME = frozenset({"choice", "choices", "multinomial", "sample", "randint", "num_samples"})


# Which library an object went through: `accelerator.prepare(loader)` gives the loader its own sampler and
# sets its epoch, so that what would be a mistake of the script is none. A loader that did not go through it
# is still the script's.


class LoaderOwner(Enum):
    """Who shards a loader, sets its epoch, and moves its batches."""

    SCRIPT = "the script"
    ACCELERATE = "Accelerate"
    FABRIC = "Fabric"
    LIGHTNING = "Lightning"
    TRANSFORMERS = "the Hugging Face Trainer"
    DEEPSPEED = "DeepSpeed"


_OWNER_BY_CALL = {name: LoaderOwner[owner] for name, owner in LIBRARY_TABLES["owner_by_call"].items()}
"""The calls by which a library takes the objects that are its arguments."""

_OWNER_BY_CLASS = {name: LoaderOwner[owner] for name, owner in LIBRARY_TABLES["owner_by_class"].items()}
"""The classes whose own methods make objects for a library."""


class LoaderOwners:
    """Which library owns the objects of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked for before somebody asks."""
        self.program = program

    def owner_of(self, call: ast.Call) -> LoaderOwner:
        """Who owns the object that a call makes: by what it is handed to, or by the class that makes it."""
        return self._taken.get(call) or self._of_class(call) or LoaderOwner.SCRIPT

    @cached_property
    def _taken(self) -> dict[ast.Call, LoaderOwner]:
        found: dict[ast.Call, LoaderOwner] = {}
        for call, name in self.program.calls(*_OWNER_BY_CALL):
            for argument in _flatten_lists(all_arguments(call)):
                for value in alternatives(self.program.value(argument)):
                    if isinstance(value, Instance):
                        found.setdefault(value.call, _OWNER_BY_CALL[name])
        return found

    def _of_class(self, call: ast.Call) -> LoaderOwner | None:
        scope = scope_of(call).function
        definition = None if scope is None else class_of(scope.node)
        return None if definition is None else self._inherits(definition, 0)

    def _inherits(self, definition: ast.ClassDef, depth: int) -> LoaderOwner | None:
        for base in definition.bases:
            value = self.program.value(base)
            if isinstance(value, External) and value.name in _OWNER_BY_CLASS:
                return _OWNER_BY_CLASS[value.name]
            if isinstance(value, Defined) and isinstance(value.node, ast.ClassDef) and depth < 10:
                above = self._inherits(value.node, depth + 1)
                if above is not None:
                    return above
        return None


def _flatten_lists(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    """The expressions, and those within written lists of them."""
    for node in nodes:
        if isinstance(node, ast.Tuple | ast.List):
            yield from _flatten_lists(node.elts)
        else:
            yield node
