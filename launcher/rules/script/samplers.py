"""Whether every rank trains on its own part of the data, and all on all of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.closure import Closure
from launcher.rules.script.finding import found, note
from launcher.rules.script.loaders import WRAPPERS, Loaders, loaders_of
from launcher.rules.script.sampler_uses import goes_nowhere, is_only_asked, uses_of
from launcher.scripts.arguments import argument, is_open
from launcher.scripts.edits import without_keyword
from launcher.scripts.program import Program
from launcher.scripts.scopes import (
    Binding,
    FunctionNode,
    Scope,
    ancestors,
    file_of,
    parent_of,
    scope_of,
)
from launcher.scripts.values import RankKind, RankValue, WorldSize


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def training_data_is_split(program: Program) -> Iterator[Finding]:
    """A DataLoader without a distributed sampler, over which a data-parallel program trains.

    Every rank then trains on the whole dataset: N processes do the same work N times over. Only loaders that
    surely reach a loop with a backward pass count, over datasets that are surely the same on every rank;
    what was handed to Accelerate, Lightning, a Trainer or anything unknown is theirs to split.

    Bad: `for batch in DataLoader(dataset, shuffle=True): ddp(batch).backward()`
    Good: `for batch in DataLoader(dataset, sampler=DistributedSampler(dataset)): ...`

    Source: torch.utils.data documentation.
    """
    for loader, loop in _unsplit(program):
        yield found(
            data.NO_DISTRIBUTED_SAMPLER,
            loader,
            "no distributed sampler: every rank trains on the whole dataset, and N processes do the same "
            "work N times over",
            related=[note(loop.iter, "the loop that trains with it")],
        )


def _unsplit(program: Program) -> Iterator[tuple[ast.Call, ast.For]]:
    """The loaders that give every rank the same data, each with a loop that trains with it."""
    loaders = loaders_of(program)
    if not loaders.calls or not loaders.is_data_parallel:
        return
    seen = set[ast.Call]()
    for loop in loaders.training_loops:
        # Where one of several loaders has a sampler, the others are for runs of one process.
        if any(loaders.samplers_of(each) != frozenset() for each in loop.loaders):
            continue
        for loader in loop.loaders - seen:
            seen.add(loader)
            dataset = loaders.given(loader, "dataset")
            if dataset is None or not Closure(program, dataset).is_the_same_everywhere:
                continue
            if _is_of_several(program, loader, loop.node):
                yield loader, loop.node


def _is_of_several(program: Program, loader: ast.Call, loop: ast.For) -> bool:
    """Whether what makes the ranks train one model belongs to a loop: of several trainers of a program, some
    may be for one process. It stands in a file of the loop, or in a function that such a file calls."""
    files = {program.entry, file_of(loader), file_of(loop)}
    files |= {file_of(site) for site in _calls_of(program, scope_of(loop).function)}
    for call, _ in program.calls(*WRAPPERS):
        if file_of(call) in files:
            return True
        if any(file_of(site) in files for site in _calls_of(program, scope_of(call).function)):
            return True
    return False


def _calls_of(program: Program, function: Scope | None) -> list[ast.Call]:
    """Where a function is called, as far as that is known."""
    if function is None or not isinstance(function.node, FunctionNode):
        return []
    return [site.call for site in program.evaluation.callers.of(function.node) or ()]


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def samplers_stand_without_shuffle(program: Program) -> Iterator[Finding]:
    """`shuffle=True` in a DataLoader that has a sampler.

    DataLoader raises ValueError: "sampler option is mutually exclusive with shuffle". Where the sampler is
    None in a run of one process, only the distributed run does, on the cluster.

    Bad: `DataLoader(dataset, shuffle=True, sampler=sampler)`
    Good: `DataLoader(dataset, sampler=sampler)`; a DistributedSampler shuffles by itself.

    Source: torch/utils/data/dataloader.py.
    """
    loaders = loaders_of(program)
    for loader in loaders.calls:
        shuffle = loaders.given(loader, "shuffle")
        if not isinstance(shuffle, ast.Constant) or shuffle.value is not True:
            continue
        sampler = loaders.given(loader, "sampler")
        if sampler is None or not loaders.samplers_of(loader) or _depends_on(loader, sampler):
            continue
        yield found(
            data.NO_DISTRIBUTED_SAMPLER,
            loader,
            "shuffle=True beside a sampler: DataLoader raises ValueError, as the sampler alone decides the "
            "order",
            remedy="Leave out shuffle=True: a DistributedSampler shuffles by itself, and differently in each "
            "epoch where set_epoch is called.",
            fix=_without_shuffle(loader),
        )


def _without_shuffle(loader: ast.Call) -> Fix | None:
    edit = without_keyword(loader, "shuffle")
    return None if edit is None else Fix(True, (edit,))


def _depends_on(loader: ast.Call, sampler: ast.expr) -> bool:
    """Whether the loader is made only where a test asks for the sampler: `if sampler is None`."""
    written = ast.dump(sampler)
    return any(
        isinstance(each, ast.If | ast.IfExp)
        and any(ast.dump(node) == written for node in ast.walk(each.test) if isinstance(node, ast.expr))
        for each in ancestors(loader)
    )


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def samplers_are_used(program: Program) -> Iterator[Finding]:
    """A DistributedSampler that no DataLoader gets: the variable is never read but for set_epoch and len.

    The loader beside it then gives every rank the whole dataset, though the script looks right. One that a
    function gives back, or an object keeps, counts where that function also makes the loader of the same
    dataset by which the program trains, and nothing that gets the sampler draws from it.

    Bad: `sampler = DistributedSampler(dataset); loader = DataLoader(dataset, shuffle=True)`
    Good: `sampler = DistributedSampler(dataset); loader = DataLoader(dataset, sampler=sampler)`

    Source: torch.utils.data documentation.
    """
    loaders = loaders_of(program)
    for sampler in loaders.samplers:
        binding = _kept_in(sampler)
        if binding is None or not loaders.calls:
            continue
        if not all(is_only_asked(use) for use in uses_of(program, binding)) and not (
            _trains_beside(loaders, sampler) and goes_nowhere(program, sampler)
        ):
            continue
        if not any(_is_of(loader, sampler) for loader, _ in _unsplit(program)):
            yield found(
                data.NO_DISTRIBUTED_SAMPLER,
                sampler,
                f"`{binding.name}` is given to no DataLoader: without it every rank gets the whole dataset",
                remedy=f"Pass `sampler={binding.name}` to the DataLoader, without shuffle=True.",
            )


def _is_of(loader: ast.Call, sampler: ast.Call) -> bool:
    """Whether loader and sampler are made for the same dataset, as it is written."""
    one, other = argument(loader, "dataset", 0), argument(sampler, "dataset", 0)
    return one is not None and other is not None and ast.dump(one) == ast.dump(other)


def _trains_beside(loaders: Loaders, sampler: ast.Call) -> bool:
    """Whether the function that makes a sampler makes the loader of the same dataset, which has none, and by
    which the program trains."""
    return any(
        scope_of(loader) is scope_of(sampler)
        and _is_of(loader, sampler)
        and loaders.samplers_of(loader) == frozenset()
        for loop in loaders.training_loops
        for loader in loop.loaders
    )


def _kept_in(sampler: ast.Call) -> Binding | None:
    """The one variable of a function or module to which a sampler is assigned."""
    statement = parent_of(sampler)
    if isinstance(statement, ast.IfExp):
        statement = parent_of(statement)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,) = statement.targets
    if not isinstance(target, ast.Name):
        return None
    bindings = scope_of(statement).bindings.get(target.id, [])
    return next((each for each in bindings if each.node is statement), None)


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def samplers_count_all_ranks(program: Program) -> Iterator[Finding]:
    """A DistributedSampler whose `rank` is the rank on its host, among the processes of all hosts.

    On the second host the same samples are seen again, and those of the higher ranks never.

    Bad: `DistributedSampler(dataset, num_replicas=world_size, rank=local_rank)`
    Good: `DistributedSampler(dataset, num_replicas=world_size, rank=dist.get_rank())`, or neither.

    Source: torch.utils.data documentation.
    """
    for sampler in loaders_of(program).samplers:
        rank, replicas = argument(sampler, "rank", 2), argument(sampler, "num_replicas", 1)
        value = None if rank is None else program.value(rank)
        # The index that spawn gives is the global rank on one host, which is where spawn is used.
        if not isinstance(value, RankValue) or value.kind is not RankKind.LOCAL or value.source == "spawn":
            continue
        size = None if replicas is None else program.value(replicas)
        if size is None or (isinstance(size, WorldSize) and size.source in _OF_ALL_HOSTS):
            yield found(
                data.NO_DISTRIBUTED_SAMPLER,
                sampler,
                f"rank= is the rank on the host ({value.source}), counted among the ranks of all hosts: each "
                "host gets the samples of the first one, and the others are never seen",
                remedy="Pass `rank=dist.get_rank()`, or leave out rank and num_replicas: the process group "
                "knows both.",
            )


def _is_taken_off(program: Program, seed: ast.expr) -> bool:
    """Whether a rank is subtracted in what a seed is calculated from."""
    waiting, seen = [seed], set[ast.AST]()
    while waiting:
        for node in ast.walk(waiting.pop()):
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                if isinstance(program.value(node.right), RankValue):
                    return True
            elif isinstance(node, ast.Name | ast.Attribute):
                waiting += [each.value for each in program.evaluation.sources(node) if each.value is not None]
    return False


_OF_ALL_HOSTS = frozenset(
    {
        "WORLD_SIZE",
        "OMPI_COMM_WORLD_SIZE",
        "torch.distributed.get_world_size",
        "accelerate.Accelerator.num_processes",
        "accelerate.PartialState.num_processes",
        "lightning.fabric.Fabric.world_size",
        "lightning.pytorch.Trainer.world_size",
    }
)


@finds(Stage.SCRIPT, data.SAMPLER_SEED_DIFFERS)
def samplers_share_their_seed(program: Program) -> Iterator[Finding]:
    """A DistributedSampler whose seed is calculated from the rank.

    Each rank takes every N-th sample of its own permutation: samples overlap, and others are never seen in an
    epoch. Seeds of dropout and augmentation may and should differ; the sampler's must not. Where the rank is
    taken off (`torch.initial_seed() - rank`), it may have been put on before, and nothing is said.

    Bad: `DistributedSampler(dataset, seed=seed + dist.get_rank())`
    Good: `DistributedSampler(dataset, seed=seed)`

    Source: torch/utils/data/distributed.py: "This number should be identical across all processes".
    """
    for sampler in loaders_of(program).samplers:
        seed = argument(sampler, "seed", 4)
        value = None if seed is None or is_open(sampler) else program.value(seed)
        if seed is not None and isinstance(value, RankValue) and not _is_taken_off(program, seed):
            yield found(
                data.SAMPLER_SEED_DIFFERS,
                seed,
                f"the sampler's seed differs between the ranks (by {value.source}): each takes its part of "
                "another permutation, so that samples overlap and others are never seen",
            )
