"""Whether the parts into which a program cuts its data by rank fit together, and are equally many."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import all_arguments, argument_of, has_star_arguments, origins
from launcher.program.guards import Guard, Guards
from launcher.program.index import BindingKind, file_of, parent_of, scope_of
from launcher.program.program import Program
from launcher.program.values import (
    LAST_RANK,
    Constant,
    Defined,
    External,
    Made,
    RankValue,
    WorldSize,
    alternatives,
)
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.loaders import Loaders

_EVENING = ("drop", "trunc", "pad", "repeat", "cycle", "equal", "even", "minimum", "smallest")
"""Words in identifiers where a dataset may see to equal numbers itself: they only silence the rule."""


@finds(Stage.SCRIPT, data.UNEVEN_BATCHES)
def shards_are_equally_many(program: Program) -> Iterator[Finding]:
    """A dataset of every N-th element from the rank on, or of one block of unequal ones, over which a
    data-parallel program trains to its end.

    Unless the number of elements divides by the number of ranks, some ranks have one more: they go on to a
    batch that the others do not have, and wait for them until the timeout. A warning, as the number may
    divide; where elements are files, the batches differ even then. Not found where the loop may end by
    itself, the rest is cut off, or Join is used.

    Bad: `for path in self.paths[rank::world_size]: yield from read(path)` in an IterableDataset
    Good: a DistributedSampler; or `count = len(paths) // world_size * world_size`, and `paths[:count]` cut.

    Source: torch.distributed.algorithms.Join documentation.
    """
    loaders = program.analysis(Loaders)
    if not loaders.calls or not loaders.is_data_parallel or _may_be_evened(program):
        return
    reported = set[ast.AST]()
    for loop in loaders.training_loops:
        if _may_end_early(loop.node):
            continue
        for loader in loop.loaders:
            dataset = loaders.given(loader, "dataset")
            dropped = argument_of(loader, "drop_last", 8)
            if (
                dataset is None
                or has_star_arguments(loader)
                or (dropped is not None and not _is_off(program, dropped))
            ):
                continue
            for cut, what in _uneven_cuts(program, Closure(program, dataset)):
                if cut not in reported:
                    reported.add(cut)
                    yield finding_at(
                        data.UNEVEN_BATCHES,
                        cut,
                        f"{what}: unless their number divides by the ranks, some ranks train on a batch that "
                        "the others do not have, and wait for them",
                        severity=Severity.WARNING,
                        related=[related_at(loop.node.iter, "the loop that trains to the end of it")],
                    )


def _is_off(program: Program, node: ast.expr) -> bool:
    return program.value(node) == Constant(False)


def _uneven_cuts(program: Program, closure: Closure) -> Iterator[tuple[ast.expr, str]]:
    evened, cut_off = _sees_to_it(closure), _divides_without_rest(closure)
    for part in () if evened else closure.parts:
        for node in ast.walk(part):
            if not isinstance(node, ast.expr):
                continue
            if has_a_longer_last_block(program, node):
                yield node, "the last rank takes the rest of the elements besides its block"
            elif not cut_off and is_uneven_cut(program, node):
                yield node, "every N-th element from the rank on"
            elif not cut_off and is_uneven_block(program, node):
                yield node, "one block of the elements for each rank, not all equally long"


def _may_end_early(loop: ast.For) -> bool:
    """Whether a loop may end before its data does, by a count that all ranks share."""
    return any(isinstance(node, ast.Break | ast.Return | ast.Raise) for node in ast.walk(loop))


def _sees_to_it(closure: Closure) -> bool:
    """Whether the dataset may cut off the rest, or begin again, by its words."""
    words = {word for each in closure.identifiers() for word in each.lower().split("_")}
    if "min" in words or any(word.startswith(_EVENING) for word in words):
        return True
    return any(isinstance(node, ast.While) for part in closure.parts for node in ast.walk(part))


def _divides_without_rest(closure: Closure) -> bool:
    """Whether the dataset may be cut to a number that divides."""
    return any(isinstance(node, ast.FloorDiv) for part in closure.parts for node in ast.walk(part))


def _may_be_evened(program: Program) -> bool:
    """Whether the ranks may agree on the number of batches: by Join, or the least of all ranks."""
    return any(
        name in names
        for file in program.files
        for name in ("Join", "MIN", "join_hook")
        for names in (file.names, file.attributes)
    )


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def shuffles_before_a_cut_agree(program: Program) -> Iterator[Finding]:
    """An unseeded shuffle of a list that is then cut by rank, or an unseeded random_split.

    Each rank shuffles by a seed of its own: the parts overlap, and some elements are in none. After an
    unseeded random_split the training data of one rank holds validation samples of another. Silent where
    anything in the program is called a seed.

    Bad: `random.shuffle(files); mine = files[rank::world_size]`
    Good: `random.Random(seed).shuffle(files); mine = files[rank::world_size]`

    Source: torch.utils.data documentation (random_split: its generator).
    """
    if _is_seeded(program):
        return
    for call, name in program.calls("random.shuffle", "numpy.random.shuffle"):
        shuffled = call.args[0] if call.args else None
        if isinstance(shuffled, ast.Name):
            holder = scope_of(call).holder_of(shuffled.id)
            for use in file_of(call).names.get(shuffled.id, ()):
                if scope_of(use).holder_of(shuffled.id) is holder and is_cut_by_rank(program, use):
                    yield finding_at(
                        data.NO_DISTRIBUTED_SAMPLER,
                        call,
                        f"{name} without a common seed: each rank cuts its part out of another order: "
                        "parts overlap and some elements are in none",
                        remedy=f"Shuffle with a seed that all ranks share: `random.Random(0).shuffle("
                        f"{shuffled.id})`.",
                        related=[related_at(use, "cut by rank here")],
                    )
                    break
    loaders = program.analysis(Loaders)
    if not loaders.samplers and not loaders.is_data_parallel:
        return
    for call, _ in program.calls("torch.utils.data.random_split"):
        if argument_of(call, "generator", 2) is None and not has_star_arguments(call) and loaders.calls:
            yield finding_at(
                data.NO_DISTRIBUTED_SAMPLER,
                call,
                "random_split without a common seed: each rank splits in another way, and trains on what "
                "others validate with",
                remedy="Pass `generator=torch.Generator().manual_seed(0)`.",
            )


def _is_seeded(program: Program) -> bool:
    """Whether anything that a program calls or sets has to do with a seed."""
    return any(
        "seed" in name.lower()
        for file in program.files
        for names in (file.calls_of, file.names, file.attributes, file.set_attributes)
        for name in names
    )


# Where a program cuts a list by rank: `files[rank::world_size]` and its like.


_PARTS = frozenset({"numpy.array_split", "torch.tensor_split", "torch.chunk"})
"""What makes so many parts, of lengths that differ where the whole does not divide."""

_ROUNDS_UP = frozenset({"math.ceil", "numpy.ceil"})
_ROUNDS = frozenset({"int", "round"})


def is_cut_by_rank(program: Program, node: ast.expr) -> bool:
    """Whether a list is cut where it stands: by a stride, in blocks, or by islice."""
    parent = parent_of(node)
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.slice, ast.Slice):
        bounds = (parent.slice.lower, parent.slice.upper, parent.slice.step)
        return any(each is not None and _is_rank(program, each) for each in bounds)
    if isinstance(parent, ast.Call) and parent.args[:1] == [node]:
        called = program.value(parent.func)
        return called == External("itertools.islice") and any(
            _is_rank(program, each) for each in parent.args[1:]
        )
    return False


def is_uneven_cut(program: Program, node: ast.AST) -> bool:
    """Whether an expression takes every N-th element, beginning with the rank: counts differ by one."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        cut = node.slice
        return (
            cut.lower is not None
            and cut.step is not None
            and cut.upper is None
            and _is_rank(program, cut.lower)
            and isinstance(program.value(cut.step), WorldSize)
        )
    if isinstance(node, ast.Call) and len(node.args) == 4:
        _, first, stop, step = node.args
        return (
            program.value(node.func) == External("itertools.islice")
            and isinstance(stop, ast.Constant)
            and stop.value is None
            and _is_rank(program, first)
            and isinstance(program.value(step), WorldSize)
        )
    return _keeps_its_turn(program, node)


def is_uneven_block(program: Program, node: ast.AST) -> bool:
    """Whether an expression takes this rank's block of a list cut into as many as there are ranks, not all
    equally long: `np.array_split(x, n)[rank]`, or `x[rank * size:(rank + 1) * size]` with a rounded-up size.
    """
    if not isinstance(node, ast.Subscript):
        return False
    if _is_rank(program, node.slice) and isinstance(node.value, ast.Call) and len(node.value.args) == 2:
        parts = node.value
        split = isinstance(program.value(parts.func), External) and program.qualified(parts.func) in _PARTS
        return split and isinstance(program.value(parts.args[1]), WorldSize)
    if not isinstance(node.slice, ast.Slice) or node.slice.lower is None or node.slice.step is not None:
        return False
    size = _size_of_blocks(program, node.slice.lower)
    return size is not None and all(_is_rounded_up(program, each) for each in origins(program, size))


def has_a_longer_last_block(program: Program, node: ast.AST) -> bool:
    """Whether this rank's block of a list is longer on the last rank, which takes the rest:
    `x[rank * size:len(x) if rank == world_size - 1 else (rank + 1) * size]`.
    """
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Slice):
        return False
    lower, upper = node.slice.lower, node.slice.upper
    if lower is None or upper is None or _size_of_blocks(program, lower) is None:
        return False
    made = [upper] if isinstance(upper, ast.IfExp) else _assigned(program, upper)
    return bool(made) and all(
        isinstance(each, ast.IfExp) and _is_for_the_last(program, each) for each in made
    )


def _assigned(program: Program, node: ast.expr) -> list[ast.expr | None]:
    """What a name was set to; a choice stays whole."""
    return [each.value for each in program.evaluation.sources(node)]


def _is_for_the_last(program: Program, choice: ast.IfExp) -> bool:
    """Whether a choice is the whole length, or None, on the last rank alone."""
    truth = program.analysis(Guards).truth(choice.test)
    if not isinstance(truth, Guard) or truth.members != frozenset({LAST_RANK}):
        return False
    last = choice.orelse if truth.outside else choice.body
    whole = isinstance(last, ast.Call) and program.value(last.func) == External("len")
    return whole or program.value(last) == Constant(None)


def _size_of_blocks(program: Program, start: ast.expr) -> ast.expr | None:
    """The size of blocks of which this rank's begins here: that of `rank * size`."""
    for made in [start, *(each for each in _assigned(program, start) if each is not None)]:
        if isinstance(made, ast.BinOp) and isinstance(made.op, ast.Mult):
            for one, other in ((made.left, made.right), (made.right, made.left)):
                if _is_rank(program, one):
                    return other
    return None


def _is_rounded_up(program: Program, size: ast.expr | None) -> bool:
    """Whether a size is a length divided by the number of ranks and rounded up."""
    while isinstance(size, ast.Call) and size.args:
        name = program.qualified(size.func)
        inner = size.args[0]
        if name in _ROUNDS_UP:
            return (
                isinstance(inner, ast.BinOp)
                and isinstance(inner.op, ast.Div)
                and isinstance(program.value(inner.right), WorldSize)
            )
        if name not in _ROUNDS:
            return False
        size = inner
    return False


def _keeps_its_turn(program: Program, node: ast.AST) -> bool:
    """`i % world_size == rank`, of what is numbered."""
    if not isinstance(node, ast.Compare) or len(node.ops) != 1:
        return False
    if not isinstance(node.ops[0], ast.Eq | ast.NotEq):
        return False
    sides = (node.left, node.comparators[0])
    divided = [each for each in sides if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mod)]
    return (
        len(divided) == 1
        and isinstance(program.value(divided[0].right), WorldSize)
        and any(_is_rank(program, each) for each in sides if each is not divided[0])
    )


def _is_rank(program: Program, node: ast.expr) -> bool:
    return isinstance(program.value(node), RankValue)


# All that a program says of how a value is made: for rules that must not speak of what they do not know.


_MOST = 200
"""So many expressions, functions and classes are looked into."""

_SPLITTING = (
    "rank",
    "world",
    "shard",
    "replica",
    "num_processes",
    "process_index",
    "process_count",
    "split_dataset",
    "num_hosts",
    "local_examples",
    "sampler",
    "stream",
)
"""Parts of identifiers where data may differ between the ranks already: they only silence a rule."""

_DRAWING = frozenset({"rand", "randn", "randint", "random_sample", "normal", "uniform"})
"""What makes data up, as each rank does by itself."""

PLAIN_DATASETS = (
    "torchvision.datasets.",
    "torchaudio.datasets.",
    "torch.utils.data.TensorDataset",
    "torch.utils.data.Subset",
    "torch.utils.data.ConcatDataset",
    "torch.utils.data.random_split",
    "datasets.load_dataset",
    "datasets.load_from_disk",
)
"""Datasets of libraries that hold the same samples on every rank."""


class Closure:
    """The expressions, functions and classes of the program from which a value is made.

    `is_known` is False where the value, or what it holds on to, comes from where nobody sees. Arguments of
    the program's own functions and classes count only by the identifiers with which they are made.
    """

    def __init__(self, program: Program, node: ast.expr) -> None:
        """Follow the value to its sources."""
        self.program = program
        self.parts: list[ast.AST] = []
        self.is_known = True
        self._seen: set[ast.AST] = set()
        self._waiting: list[tuple[ast.AST, bool]] = [(node, True)]
        while self._waiting and self.is_known:
            part, must = self._waiting.pop()
            if part not in self._seen:
                self._seen.add(part)
                self.parts.append(part)
                known = self._follow(part, must)
                self.is_known = (known or not must) and len(self.parts) <= _MOST

    def _follow(self, part: ast.AST, must: bool) -> bool:
        """Put what a part is made of on the list; False where that is not known."""
        if isinstance(part, ast.Name | ast.Attribute):
            return self._source(part, must)
        if isinstance(part, ast.Call):
            return self._called(part, must)
        if isinstance(part, ast.Subscript):
            self._waiting.append((part.value, must))
            return True
        if isinstance(part, ast.IfExp):
            self._waiting += [(part.body, must), (part.orelse, must)]
            return True
        if isinstance(part, ast.FunctionDef | ast.ClassDef):
            self._inside(part)
            return True
        return isinstance(part, ast.Constant | ast.List | ast.Tuple)

    def _source(self, name: ast.Name | ast.Attribute, must: bool) -> bool:
        bindings = self.program.evaluation.sources(name)
        value = self.program.value(name)
        self._waiting += [(each.definition, must) for each in alternatives(value) if isinstance(each, Made)]
        known = bool(bindings) or isinstance(value, Made)
        for binding in bindings:
            if binding.kind is BindingKind.PARAMETER:
                known = self._parameter(binding.node, must) and known
            elif binding.kind is BindingKind.DEFINED:
                self._waiting.append((binding.node, must))
            elif binding.value is not None:
                self._waiting.append((binding.value, must))
                known = known and binding.kind is BindingKind.ASSIGNED
            else:
                known = False
        return known

    def _parameter(self, parameter: ast.AST, must: bool) -> bool:
        sites = self.program.evaluation.callers.call_sites_giving(parameter)
        if not sites or not isinstance(parameter, ast.arg):
            return False
        known = True
        for site in sites:
            given = site.given(parameter)
            if given is None:
                known = False
            else:
                self._waiting.append((given, must))
        return known

    def _called(self, call: ast.Call, must: bool) -> bool:
        arguments = all_arguments(call)
        known = True
        for each in alternatives(self.program.value(call.func)):
            if isinstance(each, Defined):
                self._waiting.append((each.node, must))
                self._waiting += [(given, False) for given in arguments]
            elif isinstance(each, External) and each.name.startswith(PLAIN_DATASETS):
                self._waiting += [(given, False) for given in arguments]
            else:
                self._waiting += [(given, False) for given in arguments]
                known = False
        return known

    def _inside(self, part: ast.FunctionDef | ast.ClassDef) -> None:
        """What the statements of a function or class call of the program's own."""
        for node in ast.walk(part):
            if isinstance(node, ast.Call):
                for each in alternatives(self.program.value(node.func)):
                    if isinstance(each, Defined):
                        self._waiting.append((each.node, False))

    def identifiers(self) -> Iterator[str]:
        """Every name, attribute, keyword and text in it."""
        for part in self.parts:
            for node in ast.walk(part):
                if isinstance(node, ast.Name):
                    yield node.id
                elif isinstance(node, ast.Attribute):
                    yield node.attr
                elif isinstance(node, ast.arg | ast.keyword) and node.arg:
                    yield node.arg
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value

    @property
    def is_the_same_everywhere(self) -> bool:
        """Whether all of it is known, and nothing in it can differ between the ranks."""
        return self.is_known and not any(
            each in _DRAWING or any(part in each.lower() for part in _SPLITTING)
            for each in self.identifiers()
        )
