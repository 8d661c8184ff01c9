"""Whether the parts into which a program cuts its data fit together, and are equally many."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.closure import Closure
from launcher.rules.script.cuts import has_a_longer_last_block, is_cut_by_rank, is_uneven_block, is_uneven_cut
from launcher.rules.script.finding import found, note
from launcher.rules.script.loaders import loaders_of
from launcher.scripts.arguments import argument, is_open
from launcher.scripts.program import Program
from launcher.scripts.scopes import file_of, scope_of
from launcher.scripts.values import Constant

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
    loaders = loaders_of(program)
    if not loaders.calls or not loaders.is_data_parallel or _may_be_evened(program):
        return
    reported = set[ast.AST]()
    for loop in loaders.training_loops:
        if _may_end_early(loop.node):
            continue
        for loader in loop.loaders:
            dataset = loaders.given(loader, "dataset")
            dropped = argument(loader, "drop_last", 8)
            if dataset is None or is_open(loader) or (dropped is not None and not _is_off(program, dropped)):
                continue
            for cut, what in _uneven_cuts(program, Closure(program, dataset)):
                if cut not in reported:
                    reported.add(cut)
                    yield found(
                        data.UNEVEN_BATCHES,
                        cut,
                        f"{what}: unless their number divides by the ranks, some ranks train on a batch that "
                        "the others do not have, and wait for them",
                        severity=Severity.WARNING,
                        related=[note(loop.node.iter, "the loop that trains to the end of it")],
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
                    yield found(
                        data.NO_DISTRIBUTED_SAMPLER,
                        call,
                        f"{name} without a common seed: each rank cuts its part out of another order: "
                        "parts overlap and some elements are in none",
                        remedy=f"Shuffle with a seed that all ranks share: `random.Random(0).shuffle("
                        f"{shuffled.id})`.",
                        related=[note(use, "cut by rank here")],
                    )
                    break
    loaders = loaders_of(program)
    if not loaders.samplers and not loaders.is_data_parallel:
        return
    for call, _ in program.calls("torch.utils.data.random_split"):
        if argument(call, "generator", 2) is None and not is_open(call) and loaders.calls:
            yield found(
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
