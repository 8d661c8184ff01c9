"""The DataLoaders of a program: what they are made of, and where it trains with them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from launcher.frozen import frozen_by_identity
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    calls_that_made,
    has_star_arguments,
    origins,
    unpacked_argument,
)
from launcher.program.index import (
    FileIndex,
    FunctionNode,
    ancestors,
    ancestors_in_function,
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program, is_of_a_library, write_out_unpacked
from launcher.program.ranks.participants import Closure, Participants
from launcher.program.ranks.training_loops import calls_in
from launcher.program.surroundings.loader_classes import LOADER, SAMPLER
from launcher.program.surroundings.options import DefaultRun
from launcher.program.values import (
    PROGRESS_BARS,
    Constant,
    Defined,
    Dictionary,
    External,
    Instance,
    Made,
    alternatives,
    is_import_of,
    library_names,
)
from launcher.rules.script.data.by_libraries import (
    ENGINE_RUNS,
    HOOK_OF_TRAINERS,
    EngineRun,
    LoaderOwner,
    LoaderOwners,
    derived_trainers,
    engine_runs,
    is_made_by_hook,
    leaves_samplers_to_the_script,
)

# What loaders are made of, and where the program trains with them.


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
        "tqdm.trange",
        "math.ceil",
        *PROGRESS_BARS,
    }
)
"""What is given a loader and leaves it as it is."""

_WRAPPED = frozenset(
    {
        "enumerate",
        "iter",
        "itertools.islice",
        "itertools.chain",
        "itertools.cycle",
        "map",
        "filter",
        "reversed",
        *PROGRESS_BARS,
    }
)
"""What gives one element for each of its first argument's."""

PREPARING = ("accelerate.Accelerator.prepare", "lightning.fabric.Fabric.setup")
"""What wraps a model, and splits the loaders that it, or what stands beside it, is given."""

_DEEPEST = 5
"""So many calls are followed from a loop to what it calls, and from a function to its callers."""


@frozen_by_identity
class LoaderLoop:
    """A loop over batches that calculates gradients, itself or in what it calls.

    `loaders` is all that it may loop over: loaders that the script makes, and that stay its own. `iter` is
    that as it is written, also of a comprehension, or of a loop that takes `next(batches)` itself. Where a
    library goes through the loader, `node` is the call that lets it.
    """

    node: ast.For | ast.While | ast.comprehension | ast.Call
    iter: ast.expr
    loaders: frozenset[ast.Call]
    run: EngineRun | None = None

    @property
    def ends_with_data(self) -> bool:
        """Whether it makes as many rounds as there are batches."""
        if self.run is not None:
            return self.run.ends_with_data
        counted = "islice" in {last_name(each) for each in walk(self.iter) if isinstance(each, ast.expr)}
        return getattr(self.node, "iter", None) is self.iter and not counted


class Loaders:
    """The loaders of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked for before somebody asks."""
        self.program = program

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """Where DataLoaders are made."""
        return self._made(LOADER)

    @cached_property
    def samplers(self) -> tuple[ast.Call, ...]:
        """Where DistributedSamplers are made."""
        return self._made(SAMPLER)

    def _made(self, kind: str) -> tuple[ast.Call, ...]:
        """Where objects of a class of torch are made, also of one of another library or of the program that
        is the same for who uses it."""
        program, last = self.program, kind.rpartition(".")[2]
        found = dict.fromkeys(call for call, _ in program.calls(kind))
        lasts = {name for file in program.files for name in file.mentioned if name.endswith(last)}
        for name in sorted(program.known_as(lasts)):
            for call in (each for file in program.files for each in file.calls_of.get(name, ())):
                made = alternatives(program.value(call))
                if all(isinstance(each, Instance) and each.name == kind for each in made):
                    write_out_unpacked(program, call)
                    found.setdefault(call)
        return tuple(found)

    @cached_property
    def is_data_parallel(self) -> bool:
        """Whether all ranks train one model, each with data of its own; False where that is not sure."""
        return self.is_wrapped_by(library_names("model_wrappers"))

    @cached_property
    def is_one_model(self) -> bool:
        """The same, also where a library wraps the model that it prepares."""
        return self.is_wrapped_by((*library_names("model_wrappers"), *PREPARING))

    def is_wrapped_by(self, names: Iterable[str]) -> bool:
        """Whether one of these makes the model one of all ranks, and nothing splits it in other ways."""
        for file in self.program.files:
            for binding in file.imports:
                if is_import_of(binding.module or "", "parallelism_imports"):
                    return False
        return any(True for _ in self.program.calls(*names))

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

    @cached_property
    def _fitted(self) -> frozenset[ast.Call]:
        calls = [call for call, _ in self.program.calls("lightning.pytorch.Trainer.fit")]
        given = [each for call in calls if (each := argument_of(call, "train_dataloaders", 1)) is not None]
        return frozenset(loader for each in given for loader in self.resolved(each) or ())

    def is_of_lightning(self, loader: ast.Call) -> bool:
        """Whether a Trainer of Lightning trains with a loader: it is given it, or its hook makes it."""
        return loader in self._fitted or is_made_by_hook(self.program, loader)

    def is_shuffled(self, loader: ast.Call) -> bool:
        """Whether a loader draws from all of a dataset that has a length: it can not shuffle a stream."""
        given = [each for name in ("shuffle", "sampler") if (each := self.given(loader, name)) is not None]
        return any(self.program.value(each) not in (Constant(False), Constant(None)) for each in given)

    def _distributed(self, sampler: ast.expr) -> frozenset[ast.Call] | None:
        value = self.program.value(sampler)
        if value == Constant(None):
            return frozenset()
        found = frozenset[ast.Call]()
        for each in alternatives(value):
            if isinstance(each, Made) and _deals_all(self.program, each.definition, sampler):
                continue
            if not calls_that_made(each, SAMPLER, BATCH_SAMPLER, *library_names("plain_samplers")):
                return None
            assert isinstance(each, Instance)
            if each.name == SAMPLER:
                left_out = self.program.analysis(DefaultRun).leaves_out(each.call)
                found |= frozenset() if left_out else {each.call}
            elif each.name == BATCH_SAMPLER:
                inner = argument_of(each.call, "sampler", 0)
                starred = inner is None or has_star_arguments(each.call)
                samplers = None if inner is None or starred else self._distributed(inner)
                if samplers is None:
                    return None
                found |= samplers
        return found

    def resolved(self, node: ast.expr) -> frozenset[ast.Call] | None:
        """The DataLoaders that an expression may be; None where it may be anything else.

        Those that a run of one process has in their place are none.
        """
        found = calls_that_made(self.program.value(node), LOADER)
        found = self._in_list(node) if found is None else found
        who = self.program.analysis(Participants)
        several = [each for each in found or () if who.ranks_running(each) is not False]
        return frozenset(several) or found

    def _in_list(self, node: ast.expr) -> frozenset[ast.Call] | None:
        """The loaders that were appended to the list of which an expression is an element."""
        lists: list[ast.expr] = []
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            lists = [node.value]
        elif isinstance(node, ast.Name):
            bindings = self.program.evaluation.sources(node)
            lists = [each.value for each in bindings if each.value is not None and each.item is not None]
            if len(lists) != len(bindings):
                return None
        found = frozenset[ast.Call]()
        for each in lists:
            called = self.program.value(each.func) if isinstance(each, ast.Call) else None
            function = called.node if isinstance(called, Defined) else None
            given = [] if function is None else file_of(function).returns_of.get(function, [])
            for one in [each] if function is None else [part.value for part in given]:
                appended = self._appended(one) if isinstance(one, ast.Name) else None
                if not appended:
                    return None
                found |= appended
        return found or None

    def _appended(self, held: ast.Name) -> frozenset[ast.Call] | None:
        """The loaders that an empty list gets; None where it gets anything else."""
        scope = scope_of(held).holder_of(held.id)
        bindings = [] if scope is None else scope.bindings[held.id]
        if not all(isinstance(each.value, ast.List) and not each.value.elts for each in bindings):
            return None
        found = frozenset[ast.Call]()
        for given in self.program.grown.get(held.id, ()):
            if given is None or scope_of(given).holder_of(held.id) is scope:
                made = None if given is None else calls_that_made(self.program.value(given), LOADER)
                if made is None:
                    return None
                found |= made
        return found

    @cached_property
    def training_loops(self) -> tuple[LoaderLoop, ...]:
        """The loops that train, over loaders that are the program's own."""
        if not self.calls:
            return ()
        return tuple(self._training_loops())

    def _training_loops(self) -> Iterator[LoaderLoop]:
        for file in self.program.files:
            for loop, given, body in loops_over_something(self.program, file):
                over = self.looped_over(given)
                if over and not over & self.handed_over and self.trains(body):
                    yield LoaderLoop(loop, given, over)
        for run in engine_runs(self.program):
            over = self.looped_over(run.data)
            trains = run.step is None or self.trains(run.step.body)
            if over and not over & self.handed_over and trains:
                yield LoaderLoop(run.call, run.data, over, run)

    def looped_over(self, node: ast.expr, depth: int = 3) -> frozenset[ast.Call] | None:
        """The loaders that a loop goes over, also where one rank has a bar: `tqdm(x) if first else x`."""
        node = self.unwrapped(node)
        found = self.resolved(node)
        value = self.program.value(node)
        if found is None and depth and isinstance(value, Made):
            return self._behind(value.definition, depth - 1)
        if found is not None or not depth or len(alternatives(value)) < 2:
            return found
        arms = [each for each in origins(self.program, node) if each is not None and each is not node]
        over = [self.looped_over(each, depth - 1) for each in arms]
        known = [each for each in over if each is not None]
        return frozenset[ast.Call]().union(*known) if len(known) == len(origins(self.program, node)) else None

    def _behind(self, definition: ast.ClassDef, depth: int) -> frozenset[ast.Call] | None:
        """The loaders whose batches an object of the program gives out, as one that reads ahead does."""
        given = [
            call.args[0] for call in calls_in(definition) if last_name(call.func) == "iter" and call.args
        ]
        attributes = self.program.evaluation.attributes
        for name in ("__iter__", "__next__"):
            methods = [each.node for each in attributes.bindings_in_class(definition, name)]
            loops = [each for method in methods for each in walk(method)]
            given += [each.iter for each in loops if isinstance(each, ast.For)]
            given += [each.value for each in loops if isinstance(each, ast.YieldFrom)]
        over = [self.looped_over(each, depth) for each in given]
        return frozenset[ast.Call]().union(*filter(None, over)) or None

    def unwrapped(self, node: ast.expr) -> ast.expr:
        """What is looped over, without enumerate, tqdm and the like."""
        for _ in range(_DEEPEST):
            inner = self._wrapped_in(node)
            if inner is None:
                break
            node = inner
        return node

    def _wrapped_in(self, node: ast.expr) -> ast.expr | None:
        """What gives its elements to what is looped over; None where that is the loader, or unknown."""
        if isinstance(node, ast.GeneratorExp):
            return node.generators[0].iter
        made = self.program.value(node)
        if isinstance(node, ast.Name | ast.Attribute):  # `bar = tqdm(loader)`
            if isinstance(made, Instance) and made.name in _WRAPPED and made.item is None:
                return made.call
            begun = [each for each in origins(self.program, node) if each is not node]
            if len(begun) == 1 and isinstance(begun[0], ast.GeneratorExp):
                return begun[0]
        if not isinstance(node, ast.Call):
            return None
        called = self.program.value(node.func)
        if isinstance(called, External) and called.name in _WRAPPED and node.args:
            return node.args[1 if called.name == "map" and len(node.args) > 1 else 0]
        if isinstance(called, External) and called.name == "zip":
            over = [each for each in node.args if self.resolved(self.unwrapped(each))]
            return over[0] if over else None
        return _passed_through(called, node) if isinstance(called, Defined) else None

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
        owner = self.program.value(call.func.value) if isinstance(call.func, ast.Attribute) else None
        if isinstance(owner, Dictionary):
            return True
        if isinstance(call.func, ast.Attribute) and call.func.attr == "append":
            return isinstance(call.func.value, ast.Name) and self._is_only_kept(call.func.value)
        return all(
            isinstance(each, Defined | Made)
            or (isinstance(each, External | Instance) and _only_looks(each.name))
            for each in values
        )

    def _is_only_kept(self, held: ast.Name) -> bool:
        """Whether a list of loaders is given back, looped over and indexed, and handed to nobody."""
        scope = scope_of(held).holder_of(held.id)
        for use in file_of(held).names.get(held.id, ()):
            outer = parent_of(use)
            if scope_of(use).holder_of(use.id) is not scope:
                continue
            asked = isinstance(outer, ast.Call) and last_name(outer.func) in ("len", "enumerate", "zip")
            kept = isinstance(outer, ast.Return | ast.Subscript | ast.For | ast.comprehension) or asked
            if not kept and not (isinstance(outer, ast.Attribute) and outer.attr == "append"):
                return False
        return scope is not None

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
        calls = [each for statement in body for each in walk(statement) if isinstance(each, ast.Call)]
        if any(last_name(call.func) == "backward" for call in calls):
            return True
        if depth >= _DEEPEST:
            return False
        for call in calls:
            for each in alternatives(self.program.value(call.func)):
                function = each.node if isinstance(each, Defined) else None
                if isinstance(each, Made):
                    function = method_of(each.definition, "__call__")
                if isinstance(each, Instance) and each.name.endswith("Scaler"):
                    return True  # `loss_scaler(loss, optimizer)` of timm.
                if isinstance(function, ast.FunctionDef) and function not in seen:
                    seen.add(function)
                    if self._calls_backward(function.body, seen, depth + 1):
                        return True
        return False

    def epoch_loops(self, node: ast.AST) -> Iterator[ast.For | ast.While]:
        """The loops in which a loop over batches is run again, in its function or where that is called."""
        yield from self._loops_around(node, set(), 0)

    def epochs_of(self, loop: LoaderLoop) -> list[ast.For | ast.While | ast.Call]:
        """What runs a loop over batches again: the loops around it, or the library that it is of."""
        own = [loop.run.call] if loop.run is not None and loop.run.repeats else []
        return [*own, *self.epoch_loops(loop.node)]

    def _loops_around(self, node: ast.AST, seen: set[ast.AST], depth: int) -> Iterator[ast.For | ast.While]:
        inner = node
        for outer in ancestors(node):
            if isinstance(outer, ast.For) and inner in outer.body and self._counts(outer):
                yield outer
                return
            if isinstance(outer, ast.While) and inner in outer.body and _comes_round(outer):
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


def _comes_round(loop: ast.While) -> bool:
    """Whether a loop is for turn after turn: not `while True` around something that is tried until it works,
    whose first turn ends it."""
    if not isinstance(loop.test, ast.Constant):
        return True
    pending: list[ast.AST] = [*loop.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Try) or (isinstance(node, ast.Return | ast.Break) and node in loop.body):
            return False
        if not isinstance(node, ast.For | ast.While | FunctionNode):
            pending.extend(each for each in children_of(node) if isinstance(each, ast.stmt))
    return True


def names_in(node: ast.AST) -> set[str]:
    """The names in an expression."""
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def is_numbered(end: ast.expr) -> bool:
    """Whether the names of a list are known by their numbers: `{name: n for n, name in enumerate(names)}`."""
    holder = parent_of(end)
    if isinstance(holder, ast.Attribute) and holder.attr == "index":
        return True
    loop = parent_of(holder) if isinstance(holder, ast.comprehension) else holder
    target = holder.target if isinstance(holder, ast.comprehension | ast.For) else None
    if (
        not isinstance(end, ast.Call)
        or last_name(end.func) != "enumerate"
        or not isinstance(target, ast.Tuple)
    ):
        return False
    number, *names = map(last_name, target.elts)
    if isinstance(loop, ast.DictComp):
        keys = {each.id for each in walk(loop.key) if isinstance(each, ast.Name)}
        return last_name(loop.value) == number and not keys.isdisjoint(names)
    kept = [each for each in walk(loop) if isinstance(each, ast.Assign)] if loop else []
    return any(
        isinstance(each.targets[0], ast.Subscript)
        and last_name(each.value) == number
        and last_name(each.targets[0].slice) in names
        for each in kept
    )


def subscript_by_index(
    program: Program, read: ast.Subscript, owner: ast.ClassDef | None
) -> ast.Subscript | None:
    """A subscript in a Dataset of torch by the index that `__getitem__` gets, or what is calculated from it,
    also in a method to which it is handed on."""
    function = scope_of(read).function
    if function is None or owner is None or not _is_dataset(program, owner):
        return None
    node = function.node
    by_index = _names_by_index(owner, node) if isinstance(node, ast.FunctionDef) else set()
    return read if by_index & names_in(read.slice) else None


def _names_by_index(owner: ast.ClassDef, method: ast.FunctionDef, deepest: int = 3) -> set[str]:
    """The variables of a method that are, or are made of, the index that `__getitem__` gets, or count how far
    it reaches: `while index >= ends[part]: part += 1`."""
    parameters = [each.arg for each in method.args.args]
    found = {*parameters[1:2]} if method.name == "__getitem__" else set[str]()
    others = [each for each in owner.body if isinstance(each, ast.FunctionDef) and each is not method]
    for other in others if deepest and not found else ():
        for call in calls_in(other):
            if isinstance(call.func, ast.Attribute) and call.func.attr == method.name:
                given = zip(parameters[1:], call.args, strict=False)
                by_index = _names_by_index(owner, other, deepest - 1)
                found |= {name for name, each in given if by_index & names_in(each)}
    for part in walk(method) if found else ():
        if isinstance(part, ast.Assign) and found & names_in(part.value):
            found |= {name for target in part.targets for name in names_in(target)}
        elif isinstance(part, ast.While) and found & names_in(part.test):
            counting = (each.target for each in walk(part) if isinstance(each, ast.AugAssign))
            found |= {name for target in counting for name in names_in(target)}
    return found


def _is_dataset(program: Program, definition: ast.ClassDef) -> bool:
    for base in definition.bases:
        for each in alternatives(program.value(base)):
            if isinstance(each, External) and each.name == "torch.utils.data.Dataset":
                return True
            if (
                isinstance(each, Defined)
                and isinstance(each.node, ast.ClassDef)
                and each.node is not definition
            ):
                return _is_dataset(program, each.node)
    return False


def method_of(definition: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """The method of this name that a class defines by itself."""
    return next(
        (each for each in definition.body if isinstance(each, ast.FunctionDef) and each.name == name), None
    )


def loops_over_something(
    program: Program, file: FileIndex
) -> Iterator[tuple[ast.For | ast.While | ast.comprehension, ast.expr, Sequence[ast.AST]]]:
    """The loops of a file, over what they go, and what they do with each element: also comprehensions, and
    loops that take the next element themselves: `for _ in range(n): x = next(batches)`."""
    for loop in file.nodes(ast.For):
        yield loop, loop.iter, loop.body
    for scope in file.scopes:
        if isinstance(scope, ast.ListComp | ast.GeneratorExp | ast.SetComp):
            yield scope.generators[0], scope.generators[0].iter, [scope.elt]
    for call in file.calls_of.get("next", ()):
        around = (each for each in ancestors_in_function(call) if isinstance(each, ast.For | ast.While))
        outer = next(around, None)
        begun = None if outer is None else _begun(program, call)
        if outer is not None and begun is not None and outer not in ancestors(begun):
            yield outer, begun, outer.body


def _begun(program: Program, call: ast.Call) -> ast.expr | None:
    """What gives the next element here: `iter(loader)` or a generator, or what has a method `next` itself."""
    if isinstance(call.func, ast.Attribute):
        return call.func.value if isinstance(program.value(call.func.value), Made) else None
    made = origins(program, call.args[0]) if call.args else ()
    begun = made[0] if len(made) == 1 else None
    if not isinstance(begun, ast.Call):
        return None
    if last_name(begun.func) == "iter":
        return begun.args[0] if begun.args else None
    function = getattr(program.value(begun.func), "node", None)
    return begun if function is not None and function in file_of(function).yields_of else None


def _only_looks(name: str) -> bool:
    """Whether a function of a library leaves a loader that it is given as it is: one that shows how far a
    loop is, or one of Python's own or of a library that knows nothing of ranks."""
    return (
        name in (*_LOOKERS, *ENGINE_RUNS)
        or is_of_a_library(name)
        or hasattr(builtins, name.partition(".")[0])
    )


def _passed_through(called: Defined, call: ast.Call) -> ast.expr | None:
    """What a generator of the program gives on, element by element: the argument of `log_every(loader, 10)`,
    or what it knows itself, as `self.loader`."""
    function = called.node
    over = _yielded_from(function) if isinstance(function, ast.FunctionDef) else None
    if over is None or isinstance(function, ast.ClassDef):
        return None
    arguments = bind_arguments(function, call, called.owner is not None) or {}
    return arguments.get(over.id, over) if isinstance(over, ast.Name) else over


def _yielded_from(function: ast.FunctionDef) -> ast.expr | None:
    """What a generator goes through and gives on, by a loop or `yield from`; None where that is several."""
    yields = file_of(function).yields_of.get(function, [])
    if len(yields) == 1 and isinstance(yields[0], ast.YieldFrom):
        return yields[0].value
    loops = {
        next((each for each in ancestors_in_function(node) if isinstance(each, ast.For | ast.While)), None)
        for node in yields
    }
    loop = loops.pop() if len(loops) == 1 else None
    return loop.iter if isinstance(loop, ast.For) else None


def _deals_all(program: Program, definition: ast.ClassDef, sampler: ast.expr) -> bool:
    """Whether a sampler of the program's own deals all that there is, on every rank: nothing in it cuts a
    part off, or draws some of the samples only."""
    bases = {program.qualified(each) for each in definition.bases}
    names = {last_name(each) for each in walk(definition) if isinstance(each, ast.expr)}
    return (
        bases <= {"torch.utils.data.Sampler", BATCH_SAMPLER, "object"}
        and names.isdisjoint(_DRAWING_SOME)
        and not any(isinstance(each, ast.While) for each in walk(definition))
        and Closure(program, sampler).is_cut_nowhere
    )


_DRAWING_SOME = frozenset({"choice", "choices", "multinomial", "sample", "randint", "num_samples"})


def left_to_the_script(loaders: Loaders) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The loaders without a part for each rank of a Lightning Trainer that leaves samplers to the script."""
    program = loaders.program
    trainers = [call for call, _ in program.calls("lightning.pytorch.Trainer")]
    if len(trainers) != 1 or not leaves_samplers_to_the_script(program, trainers[0]):
        return
    devices = argument_of(trainers[0], "devices")
    if devices is not None and program.value(devices) == Constant(1):
        return
    for loader in loaders.calls:
        dataset = loaders.given(loader, "dataset")
        if dataset is None or not loaders.is_of_lightning(loader):
            continue
        if loaders.samplers_of(loader) == frozenset() and Closure(program, dataset).is_the_same_everywhere:
            yield loader, trainers[0]


def made_in_place_of_the_trainers(loaders: Loaders) -> Iterator[tuple[ast.Call, ast.Call]]:
    """The loaders without a part for each rank that a class gives a Trainer of Hugging Face's in the place of
    its own, with where the Trainer is made: nothing shards what `get_train_dataloader` gives."""
    program = loaders.program
    for definition in derived_trainers(program):
        hook = method_of(definition, HOOK_OF_TRAINERS)
        trainers = program.evaluation.callers.constructions(definition)
        if hook is None or not trainers or any(map(_prepares, calls_in(hook))):
            continue
        given = [argument_of(each, "train_dataset", 3) for each in trainers]
        parts = [each for each in given if each is not None and Closure(program, each).may_differ]
        for back in () if parts else file_of(hook).returns_of.get(hook, ()):
            for loader in () if back.value is None else loaders.resolved(back.value) or ():
                dataset = loaders.given(loader, "dataset")
                whole = dataset is not None and not Closure(program, dataset).may_differ
                if whole and loaders.samplers_of(loader) == frozenset() and loaders.is_shuffled(loader):
                    yield loader, trainers[0]


def _prepares(call: ast.Call) -> bool:
    """Whether a call is `self.accelerator.prepare(loader)`, or another one that is called so."""
    return (last_name(call.func) or "").startswith("prepare")


def endless_cycles(loaders: Loaders) -> Iterator[tuple[ast.While, frozenset[ast.Call]]]:
    """The endless loops in which a generator goes through loaders: `while True: yield from loader`."""
    for file in (
        loaders.program.files if any("backward" in each.calls_of for each in loaders.program.files) else ()
    ):
        for each in (one for yields in file.yields_of.values() for one in yields):
            outer = list(ancestors_in_function(each))
            loop = next((one for one in outer if isinstance(one, ast.For)), None)
            endless = next((one for one in outer if isinstance(one, ast.While)), None)
            given = each.value if isinstance(each, ast.YieldFrom) else None if loop is None else loop.iter
            over = None if given is None else loaders.resolved(loaders.unwrapped(given))
            if endless is not None and isinstance(endless.test, ast.Constant) and over:
                yield endless, over - loaders.handed_over
