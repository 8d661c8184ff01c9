"""Whether the parts into which a program cuts its data by rank fit together, and are equally many."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of, has_star_arguments, origins
from launcher.program.index import ancestors, last_name, parent_of
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.guards import Guards
from launcher.program.ranks.participants import Closure
from launcher.program.ranks.reachability import Reachability, surely_runs
from launcher.program.ranks.truths import Guard
from launcher.program.surroundings.options import DefaultRun
from launcher.program.values import (
    LAST_RANK,
    Constant,
    External,
    Made,
    RankValue,
    WorldSize,
    alternatives,
)
from launcher.rules.script.data.by_libraries import (
    trainers_of_several,
    trains_to_the_end,
)
from launcher.rules.script.data.loaders import Loaders, method_of, names_in
from launcher.rules.script.data.skipped_batches import made_of_own, may_be_evened, tells_own
from launcher.rules.script.findings import finding_at, related_at

_EVENING = ("fullsync", "drop", "trunc", "pad", "repeat", "cycle", "equal", "minimum", "smallest")
_EVEN = frozenset({"even", "evened", "evenly", "min"})
"""Words in identifiers, and how others begin, where a dataset may see to equal numbers itself: they only
silence the rule."""


@finds(Stage.SCRIPT, data.UNEVEN_BATCHES)
def shards_are_equally_many(program: Program) -> Iterator[Finding]:
    """A dataset or own sampler of every N-th element from the rank on, of one block of unequal ones, or of
    what a library's dataset gives each rank by `shard` or split_dataset_by_node, over which a data-parallel
    program trains to its end. So too the shards of a WebDataset that are split among the ranks, where nothing
    makes their batches equally many, as `with_epoch` and `resampled` do.

    Unless the number of elements divides by the number of ranks, some ranks have one more: they go on to a
    batch that the others do not have, and wait for them until the timeout. A warning, as the number may
    divide; where elements are files, the batches differ even then. Not found where the loop may end by
    itself, the rest is cut off (of samples, not of files of many), or Join is used. The loop may also go
    through a list or a generator without any loader, or be that of Lightning's Trainer or Ignite's engine,
    and the cut may be one that a library makes (`split_between_processes`, `sharding_filter`).

    Bad: `for path in self.paths[rank::world_size]: yield from read(path)` in an IterableDataset
    Good: a DistributedSampler; or `count = len(paths) // world_size * world_size`, and `paths[:count]` cut.

    Source: torch.distributed.algorithms.Join documentation.
    """
    loaders = program.analysis(Loaders)
    if may_be_evened(program):
        return
    if loaders.is_data_parallel:
        yield from _split_web_datasets(program)
    ways = chain(_cuts_behind_loaders(loaders), _cuts_behind_loops(loaders), _cuts_behind_trainers(loaders))
    reported = set[ast.AST]()
    for cut, what, place in ways:
        if cut not in reported:
            reported.add(cut)
            yield finding_at(
                data.UNEVEN_BATCHES,
                cut,
                f"{what}: unless their number divides by the ranks, some ranks train on a batch that "
                "the others do not have, and wait for them",
                severity=Severity.WARNING,
                related=[related_at(place, "the loop that trains to the end of it")],
            )


_Cut = tuple[ast.expr, str, ast.expr]
"""Where data are cut into unequal parts, how, and where the program trains to the end of them."""


def _cuts_behind_loaders(loaders: Loaders) -> Iterator[_Cut]:
    """The cuts of what loaders hand out to a loop that trains."""
    for loop in loaders.training_loops if loaders.is_data_parallel else ():
        if loop.ends_with_data and not _may_end_early(loaders.program, loop.node):
            for loader in loop.loaders:
                yield from ((cut, what, loop.iter) for cut, what in _cuts_of_loader(loaders, loader))


def _cuts_of_loader(loaders: Loaders, loader: ast.Call) -> Iterator[tuple[ast.expr, str]]:
    program = loaders.program
    made = loaders.given(loader, "batch_sampler") or loaders.given(loader, "dataset")
    dropped = argument_of(loader, "drop_last", 8)
    if made is not None and not has_star_arguments(loader):
        closure = Closure(program, made)
        drops = dropped is not None and not _is_off(program, dropped) and not _reads_many(closure)
        yield from _uneven_cuts(program, closure, drops)
        yield from _cuts_of_samplers(loaders, loader, dropped)


def _cuts_behind_loops(loaders: Loaders) -> Iterator[_Cut]:
    """The cuts of what a loop that trains goes through without any loader: a list, or a generator."""
    program = loaders.program
    if not loaders.is_one_model:
        return
    for file in program.files:
        for loop in file.nodes(ast.For):
            if (
                loaders.trains(loop.body)
                and not _may_end_early(program, loop)
                and not _is_bounded(program, loop.iter)
                and not loaders.looped_over(loop.iter)
            ):
                closure = Closure(program, loaders.unwrapped(loop.iter))
                yield from ((cut, what, loop.iter) for cut, what in _uneven_cuts(program, closure, False))


def _cuts_behind_trainers(loaders: Loaders) -> Iterator[_Cut]:
    """The cuts of streams that a Trainer of Lightning goes through to their end: it gives ranks no part of
    what it can not index."""
    program = loaders.program
    trainers = [each for each, _ in trainers_of_several(program)] if loaders.calls else []
    if not trainers or not all(map(trains_to_the_end, trainers)):
        return
    for loader in loaders.calls:
        dataset = loaders.given(loader, "dataset")
        made = () if dataset is None else alternatives(program.value(dataset))
        streams = [isinstance(each, Made) and not method_of(each.definition, "__getitem__") for each in made]
        if made and all(streams) and loaders.is_of_lightning(loader):
            yield from ((cut, what, trainers[0]) for cut, what in _cuts_of_loader(loaders, loader))


def _split_web_datasets(program: Program) -> Iterator[Finding]:
    """Where the shards of a WebDataset are split among the ranks, which all train to the end of their own."""
    splits = [
        use
        for file in program.files
        for use in (*file.attributes.get(_SPLIT, ()), *file.names.get(_SPLIT, ()))
        if (program.qualified(use) or "").startswith("webdataset.")
        and not program.analysis(Reachability).is_named_nowhere(use)
    ]
    if not splits or any(word in file.text for file in program.files for word in _EVENING_WEB_SHARDS):
        return
    backward = (call for file in program.files for call in file.calls_of.get("backward", ()))
    around = (
        next((each for each in ancestors(call) if isinstance(each, ast.For)), None) for call in backward
    )
    trained = [each for each in around if each is not None]
    if trained and not any(_may_end_early(program, each) or _is_counted(each.iter) for each in trained):
        yield finding_at(
            data.UNEVEN_BATCHES,
            splits[0],
            "each rank trains on its own shards to their end: with other numbers of samples in them, some "
            "ranks have a batch that the others do not have, and wait for them",
            remedy="Give all ranks one number of batches: `resampled=True` and `.with_epoch(batches)`.",
            severity=Severity.WARNING,
            related=[related_at(trained[0].iter, "the loop that trains to the end of it")],
        )


_SPLIT = "split_by_node"
_EVENING_WEB_SHARDS = ("with_epoch", "resampled", "ResampledShards", "ddp_equalize", ".repeat(", ".slice(")


def _is_counted(over: ast.expr) -> bool:
    """Whether a loop goes by a number, that of another iterable too."""
    called = {last_name(each.func) for each in walk(over) if isinstance(each, ast.Call)}
    return not called.isdisjoint({"range", "islice", "zip", "trange"})


def _is_bounded(program: Program, over: ast.expr) -> bool:
    """Whether what a loop goes through may be as long as something else: of `zip`, or the first so many."""
    calls = [each for each in walk(over) if isinstance(each, ast.Call)]
    firsts = [each for each in calls if last_name(each.func) == "islice" and not is_uneven_cut(program, each)]
    return bool(firsts) or any(last_name(each.func) == "zip" for each in calls)


def _cuts_of_samplers(
    loaders: Loaders, loader: ast.Call, dropped: ast.expr | None
) -> Iterator[tuple[ast.expr, str]]:
    """The cut of unequal parts by each sampler of the program's own that a loader has in a run without
    options, which nothing in it fills up or cuts off."""
    program, given = loaders.program, loaders.given(loader, "sampler")
    drops = dropped is not None and not _is_off(program, dropped)
    made = () if given is None or drops else alternatives(program.value(given))
    for definition in (each.definition for each in made if isinstance(each, Made)):
        calls = program.evaluation.callers.constructions(definition)
        chosen = any(surely_runs(program, each, known=program.analysis(DefaultRun).truth) for each in calls)
        bases = {program.qualified(each) for each in definition.bases}
        if (len(made) > 1 and not chosen) or not bases <= {"torch.utils.data.Sampler", "object"}:
            continue
        closure = Closure(program, definition)
        if not any(_may_even(program, node) for part in closure.parts for node in walk(part)):
            own = [each for each in _uneven_cuts(program, closure, False) if not _is_for_the_length(each[0])]
            yield from own[:1]


def _is_for_the_length(node: ast.AST) -> bool:
    return any(isinstance(each, ast.FunctionDef) and each.name == "__len__" for each in ancestors(node))


_FILLING = frozenset({"ceil", "cat", "concatenate", "concat", "tile", "resize", "extend", "hstack", "cycle"})
_OF_ALL = ("total_size", "num_samples_total")


def _may_even(program: Program, node: ast.AST) -> bool:
    """Whether an expression of a sampler may fill up its indices, or cut off or refuse a rest."""
    if isinstance(node, ast.Attribute | ast.Name):
        return last_name(node) in _FILLING or last_name(node) in _OF_ALL
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return not _keeps_its_turn(program, parent_of(node) or node)
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Mult | ast.FloorDiv | ast.Div)
        and any(isinstance(program.value(each), WorldSize) for each in (node.left, node.right))
    )


def _reads_many(closure: Closure) -> bool:
    """Whether each element is a file of many samples, so that full batches alone are not equally many."""
    if any(isinstance(part, ast.Call) and last_name(part.func) == "ConcatDataset" for part in closure.parts):
        return True
    return any(
        isinstance(loop, ast.For)
        and any(
            isinstance(inner, ast.YieldFrom)
            or (isinstance(inner, ast.For) and any(isinstance(each, ast.Yield) for each in walk(inner)))
            for statement in loop.body
            for inner in walk(statement)
        )
        for part in closure.parts
        for loop in walk(part)
    )


def _is_off(program: Program, node: ast.expr) -> bool:
    return program.value(node) == Constant(False)


def _uneven_cuts(program: Program, closure: Closure, drops: bool) -> Iterator[tuple[ast.expr, str]]:
    """The cuts of unequal parts; where a rest is dropped those that may differ by more than it."""
    evened, many = _sees_to_it(closure), _reads_many(closure)
    cut_off = drops or _divides_without_rest(closure)
    for part in () if evened else closure.parts:
        for node in walk(part):
            if not isinstance(node, ast.expr):
                continue
            if not drops and has_a_longer_last_block(program, node):
                yield node, "the last rank takes the rest of the elements besides its block"
            elif not cut_off and is_uneven_cut(program, node):
                yield node, "every N-th element from the rank on"
            elif not cut_off and _is_dealt_by_a_library(program, node):
                yield node, "what a library deals out to the ranks in turn"
            elif not cut_off and _is_share_of_rank(program, node):
                yield node, "this rank's share of a dataset, which may be longer by an element than another's"
            elif not cut_off and is_uneven_block(program, node):
                yield node, "one block of the elements for each rank, not all equally long"
            elif _filters_a_part(program, node):
                yield node, "what each rank keeps of its own part of the elements"
            elif isinstance(node, ast.Yield | ast.YieldFrom) and _is_given_by_content(program, node):
                yield node, "how many each rank gives is told by what its own part of the elements is"
            elif many and isinstance(node, ast.Subscript) and is_cut_by_rank(program, node.value):
                yield node, "files for each rank, which need not hold equally many samples"


def _is_dealt_by_a_library(program: Program, node: ast.expr) -> bool:
    """Whether a library gives each rank its part of what a call is given, as many to each but for one: a pipe
    that a DataLoader shards by rank, or what Accelerate splits and is not told to pad."""
    if not isinstance(node, ast.Call):
        return False
    if last_name(node.func) in _SHARDING_PIPES:
        return True
    if program.qualified(node.func) in _SPLITTING:
        padding = argument_of(node, "apply_padding", 1)
        return padding is None or program.value(padding) == Constant(False)
    return False


_SHARDING_PIPES = ("sharding_filter", "ShardingFilter")
"""By their own names, as pipes are chained by methods (torch/utils/data/datapipes/iter/grouping.py)."""

_SPLITTING = tuple(f"accelerate.{each}.split_between_processes" for each in ("Accelerator", "PartialState"))


def _is_share_of_rank(program: Program, node: ast.expr) -> bool:
    """`split_dataset_by_node(dataset, rank, world_size)`, or `dataset.shard(world_size, rank)`."""
    if not isinstance(node, ast.Call):
        return False
    by_node = program.qualified(node.func) == BY_NODE
    if not by_node and not (isinstance(node.func, ast.Attribute) and node.func.attr == "shard"):
        return False
    size = argument_of(node, "world_size", 2) if by_node else argument_of(node, "num_shards", 0)
    rank = argument_of(node, "rank", 1) if by_node else argument_of(node, "index", 1)
    if size is None or rank is None:
        return False
    return isinstance(program.value(size), WorldSize) and _is_rank(program, rank)


BY_NODE = "datasets.distributed.split_dataset_by_node"
"""What gives each rank its part of a dataset of Hugging Face's, map-style or streamed."""


def _filters_a_part(program: Program, node: ast.expr) -> bool:
    """Whether an expression leaves out some elements of a part that was cut by rank, by what they are."""
    part: ast.expr | None = None
    if isinstance(node, ast.ListComp | ast.GeneratorExp) and node.generators[0].ifs:
        part = node.generators[0].iter
    elif isinstance(node, ast.Call) and len(node.args) == 2 and program.qualified(node.func) == "filter":
        part = node.args[1]
    made = () if part is None else origins(program, part)
    return bool(made) and all(_is_part_of_a_rank(program, each) for each in made)


def _is_given_by_content(program: Program, given: ast.expr) -> bool:
    """Whether a loop over a rank's part of the elements gives something or not by what they are.

    As where batches are filled up to a number of tokens: `if longest * len(batch) > budget: yield batch`.
    """
    around = list(ancestors(given))
    for loop in around:
        if isinstance(loop, ast.For) and any(
            _is_part_of_a_rank(program, each) for each in origins(program, loop.iter)
        ):
            own = made_of_own(program, loop, names_in(loop.target))
            tests = [each.test for each in around[: around.index(loop)] if isinstance(each, ast.If)]
            return any(tells_own(program, each, own) for each in tests)
    return False


def _is_part_of_a_rank(program: Program, node: ast.expr | None) -> bool:
    if isinstance(node, ast.Subscript):
        return is_cut_by_rank(program, node.value)
    if isinstance(node, ast.Call) and program.qualified(node.func) == "range":
        return any(_is_rank(program, each) for each in node.args)
    if isinstance(node, ast.ListComp):  # Such as what is read of each file of the part.
        made = origins(program, node.generators[0].iter)
        return bool(made) and all(_is_part_of_a_rank(program, each) for each in made)
    return False


def _may_end_early(program: Program, loop: ast.AST) -> bool:
    """Whether a loop may end before its data does, by a count that all ranks share."""
    if isinstance(loop, ast.Call):  # A run of a library's engine.
        return any(
            name in file.calls_of for file in program.files for name in ("terminate", "terminate_epoch")
        )
    return any(isinstance(node, ast.Break | ast.Return | ast.Raise) for node in walk(loop))


def _sees_to_it(closure: Closure) -> bool:
    """Whether the dataset may cut off the rest, or begin again, by its words."""
    nodes = {node for part in closure.parts for node in walk(part)}
    words = {word for each in closure.identifiers() if each != "min" for word in each.lower().split("_")}
    if words & _EVEN or any(word.startswith(_EVENING) for word in words):
        return True
    if any(isinstance(node, ast.While) for node in nodes):
        return True
    # `min(len(paths), (rank + 1) * size)` only keeps the end of a block within the whole.
    clipping = {
        node.func
        for node in nodes
        if isinstance(node, ast.Call)
        and last_name(node.func) == "min"
        and (any(_is_rank(closure.program, each) for each in node.args) or _clips_a_value(node))
    }
    return any(isinstance(node, ast.Name) and node.id == "min" and node not in clipping for node in nodes)


def _clips_a_value(call: ast.Call) -> bool:
    """Whether a call keeps what another one gives below a number, and no length: `min(ord(letter), 255)`."""
    given = [each for each in call.args if not isinstance(each, ast.Constant)]
    made = given[0] if len(given) == 1 and len(call.args) == 2 else None
    return isinstance(made, ast.Call) and last_name(made.func) not in ("len", "sum", "int", "min", "max")


def _divides_without_rest(closure: Closure) -> bool:
    """Whether the dataset may be cut to a number that divides: `n // ranks * ranks`, `n - n % ranks`."""
    made = (node for part in closure.parts for node in walk(part) if isinstance(node, ast.BinOp))
    return any(
        (isinstance(node.op, ast.FloorDiv) and not _divides_upwards(closure.program, node))
        or (
            isinstance(node.op, ast.Sub)
            and isinstance(node.right, ast.BinOp)
            and isinstance(node.right.op, ast.Mod)
        )
        for node in made
    )


def _divides_upwards(program: Program, node: ast.BinOp) -> bool:
    """`(count + world_size - 1) // world_size`, or `-count // world_size` with another minus before it."""
    if isinstance(node.left, ast.UnaryOp) and isinstance(node.left.op, ast.USub):
        return isinstance(parent_of(node), ast.UnaryOp)
    added = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Add | ast.Sub)
    return added and any(
        isinstance(each, ast.expr) and isinstance(program.value(each), WorldSize) for each in walk(node.left)
    )


# Where a program cuts a list by rank: `files[rank::world_size]` and its like.


_PARTS = frozenset({"numpy.array_split", "torch.tensor_split", "torch.chunk"})
"""What makes so many parts, of lengths that differ where the whole does not divide."""

_ROUNDS_UP = frozenset({"math.ceil", "numpy.ceil"})
_ROUNDS = frozenset({"int", "round"})


def is_cut_by_rank(program: Program, node: ast.expr) -> bool:
    """Whether a list is cut where it stands: by a stride, in blocks, by turns, or by islice."""
    parent = parent_of(node)
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.slice, ast.Slice):
        bounds = (parent.slice.lower, parent.slice.upper, parent.slice.step)
        return any(each is not None and _is_rank(program, each) for each in bounds)
    if (
        isinstance(parent, ast.Call)
        and parent.args[:1] == [node]
        and program.qualified(parent.func) in _PARTS
    ):
        part = parent_of(parent)
        return isinstance(part, ast.Subscript) and _is_rank(program, part.slice)
    if isinstance(parent, ast.comprehension) and parent.iter is node:
        return any(_keeps_its_turn(program, each) for each in parent.ifs)
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
    if isinstance(node, ast.Call) and len(node.args) == 3 and program.qualified(node.func) == "range":
        first, stop, step = node.args
        strided = _is_rank(program, first) and isinstance(program.value(step), WorldSize)
        return strided and not isinstance(program.value(stop), Constant)
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
    if isinstance(node, ast.Call) and len(node.args) == 2 and program.qualified(node.func) == "range":
        start, ends = node.args[0], origins(program, node.args[1])
        size = _size_of_blocks(program, start)
        bounded = all(isinstance(each, ast.Call) and last_name(each.func) == "min" for each in ends)
        sizes = () if size is None or not bounded else origins(program, size)
        return bool(sizes) and all(_is_rounded_up(program, each) for each in sizes)
    if not isinstance(node, ast.Subscript):
        return False
    if _is_rank(program, node.slice) and isinstance(node.value, ast.Call) and node.value.args:
        parts = node.value
        split = isinstance(program.value(parts.func), External) and program.qualified(parts.func) in _PARTS
        split = len(parts.args) == 2 if split else last_name(parts.func) == "tensor_split"
        return split and isinstance(program.value(parts.args[-1]), WorldSize)
    if not isinstance(node.slice, ast.Slice) or node.slice.lower is None or node.slice.step is not None:
        return False
    size = _size_of_blocks(program, node.slice.lower)
    return size is not None and all(_is_rounded_up(program, each) for each in origins(program, size))


def has_a_longer_last_block(program: Program, node: ast.AST) -> bool:
    """Whether this rank's block of a list is longer on the last rank, which takes the rest:
    `x[rank * size:len(x) if rank == world_size - 1 else (rank + 1) * size]`, or a range of its indices.
    """
    lower: ast.expr | None = None
    upper: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        lower, upper = node.slice.lower, node.slice.upper
    elif isinstance(node, ast.Call) and len(node.args) == 2 and program.qualified(node.func) == "range":
        lower, upper = node.args
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
    """Whether a choice is the whole length, or None, on the last rank alone, not the end of its block."""
    truth = program.analysis(Guards).truth(choice.test)
    if not isinstance(truth, Guard) or truth.members != frozenset({LAST_RANK}):
        return False
    last = choice.orelse if truth.outside else choice.body
    whole = [
        isinstance(each, ast.Call) and program.qualified(each.func) == "len"
        for each in origins(program, last)
    ]
    return all(whole) or program.value(last) == Constant(None)


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
    if isinstance(size, ast.UnaryOp):
        size = size.operand
    if isinstance(size, ast.BinOp) and isinstance(size.op, ast.FloorDiv):
        by_ranks = isinstance(program.value(size.right), WorldSize)
        return by_ranks and _divides_upwards(program, size)
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
