"""Samplers: every rank trains on its own part of the data, all on all of it, in a new order each epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    calls_that_may_make,
    goes_nowhere,
    has_star_arguments,
    is_only_asked,
    origins,
    parts_of,
    uses_of,
)
from launcher.program.differences.sources import (
    GENERATORS,
    is_seeded,
    may_be_seeded,
    ranks_on_the_way,
    seeds_of,
    source_of_difference,
)
from launcher.program.index import (
    SCOPE,
    Binding,
    FunctionNode,
    Scope,
    ancestors,
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.model_averaging import reductions_of_gradients
from launcher.program.ranks.participants import Closure, Participants
from launcher.program.ranks.reachability import Reachability, never_runs
from launcher.program.ranks.training_loops import calls_beside, calls_in
from launcher.program.records import REPLACING
from launcher.program.surroundings.loader_classes import SAMPLER
from launcher.program.surroundings.options import DefaultRun, truth_by_default
from launcher.program.surroundings.seeds import SEEDED_BY
from launcher.program.values import (
    INIT_PROCESS_GROUP,
    Constant,
    Defined,
    Either,
    Instance,
    Made,
    RankKind,
    RankValue,
    WorldSize,
    alternatives,
    is_size_of_all,
    library_names,
)
from launcher.rules.script.data.by_libraries import (
    LoaderOwner,
    LoaderOwners,
    leaves_samplers_to_the_script,
    trainers_of_several,
    trainers_of_transformers,
)
from launcher.rules.script.data.epochs import epoch_calls, receivers
from launcher.rules.script.data.lists import class_around, follow_list, uses_of_target
from launcher.rules.script.data.loaders import (
    PREPARING,
    LoaderLoop,
    Loaders,
    left_to_the_script,
    made_in_place_of_the_trainers,
    method_of,
    subscript_by_index,
)
from launcher.rules.script.data.shards import BY_NODE, is_cut_by_rank
from launcher.rules.script.default_values import default_constant
from launcher.rules.script.findings import finding_at, related_at, remove_keyword


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def training_data_is_split(program: Program) -> Iterator[Finding]:
    """A DataLoader without a distributed sampler, over which a data-parallel program trains.

    Every rank then trains on the whole dataset: N processes do the same work N times over. Only loaders that
    surely reach a loop with a backward pass count, over datasets that are surely the same on every rank;
    what was handed to Accelerate, Lightning, a Trainer or anything unknown is theirs to split, unless the
    Trainer is told not to (`use_distributed_sampler=False`). A warning where nobody knows the dataset, which
    is shuffled and told nothing of ranks. One that was forgotten beside a model that
    Accelerate prepares is found.

    Bad: `for batch in DataLoader(dataset, shuffle=True): ddp(batch).backward()`
    Good: `for batch in DataLoader(dataset, sampler=DistributedSampler(dataset)): ...`

    Source: torch.utils.data documentation.
    """
    run = program.analysis(DefaultRun)
    for loader, loop, is_sure in _unsplit(program):
        if not is_sure and any(_is_of(loader, each) for each in program.analysis(Loaders).samplers):
            continue  # The sampler beside it is found, where nothing gets it.
        given = program.analysis(Loaders).given(loader, "sampler")
        left = [] if given is None else calls_that_may_make(program, given, SAMPLER)
        yield finding_at(
            data.NO_DISTRIBUTED_SAMPLER,
            loader,
            "no distributed sampler: every rank trains on the whole dataset, and N processes do the same "
            "work N times over",
            severity=None if is_sure and not any(map(run.is_left_to_options, left)) else Severity.WARNING,
            related=[
                related_at(loop.iter, "the loop that trains with it"),
                *(related_at(each, "no run comes here by its defaults") for each in left[:1]),
            ],
        )
    for loader, trainer in left_to_the_script(program.analysis(Loaders)):
        yield finding_at(
            data.NO_DISTRIBUTED_SAMPLER,
            loader,
            "no distributed sampler, and the Trainer is told to insert none: every rank trains on all data",
            related=[related_at(trainer, "this trainer")],
        )
    for loader, trainer in made_in_place_of_the_trainers(program.analysis(Loaders)):
        yield finding_at(
            data.NO_DISTRIBUTED_SAMPLER,
            loader,
            "no distributed sampler, and the Trainer deals nothing of a loader that it is given here: "
            "every rank trains on all data",
            severity=Severity.WARNING,  # The Trainer may be one process's.
            remedy="Give back `self.accelerator.prepare(loader)`, as the Trainer's own method does.",
            related=[related_at(trainer, "this trainer")],
        )


_WRAPPERS = (*library_names("model_wrappers"), *PREPARING)


def _unsplit(program: Program) -> Iterator[tuple[ast.Call, LoaderLoop, bool]]:
    """The loaders that give every rank the same data, each with a loop that trains with it, and whether it is
    known what the dataset is: another one that is shuffled anew is most likely whole on every rank."""
    loaders = program.analysis(Loaders)
    if not loaders.calls or not (loaders.is_one_model or program.analysis(reductions_of_gradients)):
        return
    if any(has_star_arguments(call) for call, _ in program.calls(*PREPARING)):
        return
    seen, reported = set[ast.Call](), set[ast.Call]()
    for loop in loaders.training_loops:
        # Where one of several loaders has a sampler, the others are for runs of one process.
        if any(loaders.samplers_of(each) != frozenset() for each in loop.loaders):
            continue
        for loader in sorted(loop.loaders - seen, key=lambda each: (file_of(each).path, each.lineno)):
            if loop.loaders & reported:
                break  # Of several, as by a function for training and validation, one shows it.
            seen.add(loader)
            dataset, sampler = loaders.given(loader, "dataset"), loaders.given(loader, "sampler")
            made = None if dataset is None else Closure(program, dataset)
            if made is None or made.may_differ or not (made.is_known or loaders.is_shuffled(loader)):
                continue
            if sampler is not None and _draws_a_part(program, sampler):
                continue
            if _is_of_several(program, loader, loop.node):
                reported.add(loader)
                yield loader, loop, made.is_known


def _draws_a_part(program: Program, sampler: ast.expr) -> bool:
    """Whether a sampler of one process is given indices, or a number of them, that are a rank's own."""
    return any(
        Closure(program, given).may_differ
        for each in alternatives(program.value(sampler))
        if isinstance(each, Instance) and SCOPE in each.call.__dict__
        for given in all_arguments(each.call)
    )


def _is_of_several(program: Program, loader: ast.Call, loop: ast.AST) -> bool:
    """Whether what makes the ranks train one model belongs to a loop: of several trainers of a program, some
    may be for one process. It stands in a file of the loop, or in a function that such a file calls."""
    files = {program.entry, file_of(loader), file_of(loop)}
    files |= {file_of(site) for site in _calls_of(program, scope_of(loop).function)}
    for call in (
        *(call for call, _ in program.calls(*_WRAPPERS)),
        *program.analysis(reductions_of_gradients),
    ):
        if file_of(call) in files:
            return True
        sites = _calls_of(program, scope_of(call).function)
        if any(file_of(each) in files and not isinstance(program.value(each.func), Either) for each in sites):
            return True
    return False


def _calls_of(program: Program, function: Scope | None) -> list[ast.Call]:
    """Where a function is called, as far as that is known."""
    if function is None or not isinstance(function.node, FunctionNode):
        return []
    return [site.call for site in program.evaluation.callers.call_sites(function.node) or ()]


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def samplers_stand_without_shuffle(program: Program) -> Iterator[Finding]:
    """`shuffle=True` in a DataLoader that has a sampler.

    DataLoader raises ValueError: "sampler option is mutually exclusive with shuffle". Where the sampler is
    None in a run of one process, only the distributed run does, on the cluster.

    Bad: `DataLoader(dataset, shuffle=True, sampler=sampler)`
    Good: `DataLoader(dataset, sampler=sampler)`; a DistributedSampler shuffles by itself.

    Source: torch/utils/data/dataloader.py.
    """
    loaders = program.analysis(Loaders)
    for loader in loaders.calls:
        shuffle = loaders.given(loader, "shuffle")
        if not isinstance(shuffle, ast.Constant) or shuffle.value is not True:
            continue
        sampler = loaders.given(loader, "sampler")
        if sampler is None or not loaders.samplers_of(loader) or _depends_on(loader, sampler):
            continue
        yield finding_at(
            data.NO_DISTRIBUTED_SAMPLER,
            loader,
            "shuffle=True beside a sampler: DataLoader raises ValueError, as the sampler alone decides the "
            "order",
            remedy="Leave out shuffle=True: a DistributedSampler shuffles by itself, and differently in each "
            "epoch where set_epoch is called.",
            fix=_without_shuffle(loader),
        )


def _without_shuffle(loader: ast.Call) -> Fix | None:
    edit = remove_keyword(loader, "shuffle")
    return None if edit is None else Fix(True, (edit,))


def _depends_on(loader: ast.Call, sampler: ast.expr) -> bool:
    """Whether the loader is made only where a test asks for the sampler: `if sampler is None`."""
    written = ast.dump(sampler)
    return any(
        isinstance(each, ast.If | ast.IfExp)
        and any(ast.dump(node) == written for node in walk(each.test) if isinstance(node, ast.expr))
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
    loaders = program.analysis(Loaders)
    for sampler in loaders.samplers:
        binding = _kept_in(sampler)
        if binding is None or not loaders.calls:
            continue
        if not all(is_only_asked(use) for use in uses_of(program, binding)) and not (
            _trains_beside(loaders, sampler) and goes_nowhere(program, sampler)
        ):
            continue
        if not any(_is_of(loader, sampler) for loader, _, is_sure in _unsplit(program) if is_sure):
            yield finding_at(
                data.NO_DISTRIBUTED_SAMPLER,
                sampler,
                f"`{binding.name}` is given to no DataLoader: without it every rank gets the whole dataset",
                remedy=f"Pass `sampler={binding.name}` to the DataLoader, without shuffle=True.",
            )


def _is_of(loader: ast.Call, sampler: ast.Call) -> bool:
    """Whether loader and sampler are made for the same dataset, as it is written."""
    one, other = argument_of(loader, "dataset", 0), argument_of(sampler, "dataset", 0)
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
    """A DistributedSampler whose `rank` is the rank on its host, among the processes of all hosts; or one
    number on every rank, or whose `num_replicas` is 1, where the program trains on several.

    On the second host the same samples are seen again, and those of the higher ranks never. The number that
    `spawn` gives is such a rank where the process group is given another one, `rank * gpus + number`. Where
    all have one number, they train on the same part, or on all of it.

    Bad: `DistributedSampler(dataset, num_replicas=world_size, rank=local_rank)`
    Good: `DistributedSampler(dataset, num_replicas=world_size, rank=dist.get_rank())`, or neither.

    Source: torch.utils.data documentation.
    """
    yield from _parts_that_are_the_same(program)
    joined = [argument_of(call, "rank", 4) for call, _ in program.calls(INIT_PROCESS_GROUP)]
    for sampler in program.analysis(Loaders).samplers:
        rank, replicas = argument_of(sampler, "rank", 2), argument_of(sampler, "num_replicas", 1)
        value = None if rank is None else program.value(rank)
        if not isinstance(value, RankValue) or value.kind is not RankKind.LOCAL:
            continue
        # The index that spawn gives is the global rank on one host, for which most scripts spawn.
        if value.source == "spawn" and not any(_is_added_to(program, each, value) for each in joined if each):
            continue
        size = None if replicas is None else program.value(replicas)
        if size is None or is_size_of_all(size):
            yield finding_at(
                data.NO_DISTRIBUTED_SAMPLER,
                sampler,
                f"rank= is the rank on the host ({value.source}), counted among the ranks of all hosts: each "
                "host gets the samples of the first one, and the others are never seen",
                remedy="Pass `rank=dist.get_rank()`, or leave out rank and num_replicas: the process group "
                "knows both.",
            )


def _parts_that_are_the_same(program: Program) -> Iterator[Finding]:
    """The samplers by which a data-parallel program trains on one part of the data on all ranks."""
    loaders, who = program.analysis(Loaders), program.analysis(Participants)
    if not loaders.samplers or not loaders.is_data_parallel:
        return
    reported = set[ast.Call]()
    for loop in loaders.training_loops:
        for sampler in (each for loader in loop.loaders for each in loaders.samplers_of(loader) or ()):
            told = [argument_of(sampler, "num_replicas", 1), argument_of(sampler, "rank", 2)]
            replicas, rank = [None if each is None else _number_on_all(program, each) for each in told]
            alike = "num_replicas is 1" if replicas == Constant(1) else None
            if alike is None and rank is not None and isinstance(rank.value, int):
                alike = f"rank is {rank.value}"
            if alike and sampler not in reported and who.ranks_running(sampler) in (True, None):
                reported.add(sampler)
                yield finding_at(
                    data.NO_DISTRIBUTED_SAMPLER,
                    sampler,
                    f"the sampler's {alike} on every rank: all train on the same samples, and N processes do "
                    "the same work N times over",
                    remedy="Leave out rank and num_replicas: the process group knows both.",
                    related=[related_at(loop.iter, "the loop that trains with it")],
                )


def _number_on_all(program: Program, node: ast.expr) -> Constant | None:
    """What an expression is on all ranks by the defaults, and is not told by what starts them."""
    told = any(
        isinstance(each, ast.Attribute | ast.Name) and last_name(each) in ("environ", "getenv")
        for each in parts_of(program, node)
    )
    known = program.value(node)
    if isinstance(known, Constant):
        return known
    return None if told or isinstance(known, RankValue | WorldSize) else default_constant(program, node)


def _is_added_to(program: Program, rank: ast.expr, local: RankValue) -> bool:
    """Whether a rank is calculated from the one on the host: `args.rank = args.rank * gpus + gpu`."""
    made = [rank, *(each.value for each in program.evaluation.sources(rank))]
    sums = [part for each in made if each for part in walk(each) if isinstance(part, ast.BinOp)]
    return any(program.value(part) == local for each in sums for part in (each.left, each.right))


@finds(Stage.SCRIPT, data.SAMPLER_SEED_DIFFERS)
def samplers_share_their_seed(program: Program) -> Iterator[Finding]:
    """A DistributedSampler whose seed, or the epoch that it is told and adds to it, is calculated from the
    rank, a clock, or what else each process has of its own, also by way of the seed of random numbers.

    Each rank takes every N-th sample of its own permutation: samples overlap, and others are never seen in an
    epoch. Seeds of dropout and augmentation may and should differ; the sampler's must not. Where the rank is
    taken off (`torch.initial_seed() - rank`), it may have been put on before, and nothing is said; nor where
    a seed was broadcast.

    Bad: `DistributedSampler(dataset, seed=seed + dist.get_rank())`
    Good: `DistributedSampler(dataset, seed=seed)`

    Source: torch/utils/data/distributed.py: "This number should be identical across all processes".
    """
    loaders = program.analysis(Loaders)
    given = [(argument_of(sampler, "seed", 4), "seed") for sampler in loaders.samplers]
    told = [each.node for each in epoch_calls(loaders) if each.samplers] if loaders.samplers else []
    given += [(argument_of(call, "epoch", 0), "epoch") for call in told if isinstance(call, ast.Call)]
    given += [(each, "seed") for each in _set_seeds(loaders)]
    run = program.analysis(DefaultRun)
    for seed, what in given:
        if seed is None or _is_changed_elsewhere(program, seed):
            continue
        source = source_of_difference(program, seed, leaves_out=partial(_is_off, program))
        ways = () if source is not None else ranks_on_the_way(program, seed)
        source = source or next((name for way, name in ways if not run.leaves_out(way)), None)
        if source is not None:
            yield finding_at(
                data.SAMPLER_SEED_DIFFERS,
                seed,
                f"the sampler's {what} differs between the ranks (by {source}): each takes its part of "
                "another permutation, so that samples overlap and others are never seen",
            )


def _is_off(program: Program, node: ast.AST) -> bool:
    """Whether no process comes to something unless an option asks for it, or at all."""
    if never_runs(program, node, partial(truth_by_default, program)):
        return True
    return program.analysis(Reachability).is_named_nowhere(node)


def _is_changed_elsewhere(program: Program, seed: ast.expr) -> bool:
    """Whether only a copy of a record has another seed: `own = replace(cfg, seed=cfg.seed + rank)`."""
    if not isinstance(seed, ast.Attribute):
        return False
    given = [each.node for each in program.evaluation.sources(seed)]
    copies = [call for each in given if isinstance(each, ast.keyword) and (call := parent_of(each))]
    made = [each for each in copies if isinstance(each, ast.Call) and last_name(each.func) in REPLACING]
    return bool(made) and not set(made) & set(origins(program, seed.value))


def _set_seeds(loaders: Loaders) -> Iterator[ast.expr | None]:
    """What is set as the seed of a sampler that is there: `sampler.seed = 3 + rank`."""
    for file in loaders.program.files if loaders.samplers else ():
        for binding in file.set_attributes.get("seed", ()):
            owner = binding.node.value if isinstance(binding.node, ast.Attribute) else None
            if isinstance(owner, ast.expr) and receivers(loaders, owner):
                yield binding.value


# Whether what is cut by rank was shuffled alike.


_IN_PLACE = frozenset({"random.shuffle", "numpy.random.shuffle"})
_IN_PLACE_BY_GENERATOR = frozenset(f"{name}.shuffle" for name in GENERATORS)
_REORDERED = frozenset({"numpy.random.permutation", "random.sample"})
_REORDERED_BY_GENERATOR = frozenset(
    f"{name}.{verb}" for name in GENERATORS for verb in ("permutation", "sample")
)
_UNSEEDED = _IN_PLACE | _REORDERED | {"torch.randperm"}
_SPLIT = "sklearn.model_selection.train_test_split"
_DRAWS = frozenset({"numpy.random.choice", "random.choices", "torch.multinomial", _SPLIT})
"""What draws from a list; the draws of a sample itself do not stay below an index."""

_SHUFFLES = _IN_PLACE | _IN_PLACE_BY_GENERATOR | _REORDERED | _REORDERED_BY_GENERATOR | {"torch.randperm"}


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER, data.SAMPLER_SEED_DIFFERS)
def shuffles_before_a_cut_agree(program: Program) -> Iterator[Finding]:
    """A shuffle of a list that is then cut by rank, or a random_split, without a seed or by each rank's own.

    Each rank shuffles in its own way: the parts overlap, and some elements are in none. After such a
    random_split the training data of one rank holds validation samples of another. The same holds for
    `shuffle` and `train_test_split` of a dataset of Hugging Face's, of which a sampler, Accelerate or a
    Trainer deals the parts later, and for what a Dataset draws or shuffles for all of its indices, of which a
    sampler gives each rank some. Without a seed, silent where anything may have set one.

    Bad: `random.shuffle(files); mine = files[rank::world_size]`
    Good: `random.Random(seed).shuffle(files); mine = files[rank::world_size]`

    Source: torch.utils.data documentation (random_split: its generator); datasets/arrow_dataset.py.
    """
    yield from _datasets_in_other_orders(program)
    for call, name in program.calls(*_SHUFFLES, *_DRAWS):
        cut = _cut_after(program, call, name)
        if cut is None:
            yield from _orders_below_samplers(program, call, name)
            continue
        if name in _DRAWS:
            continue
        source = _source_of_seeds(program, call, name)
        if source is not None:
            yield finding_at(
                data.SAMPLER_SEED_DIFFERS,
                call,
                f"{name} by a seed that differs between the ranks (by {source}): each cuts its part out of "
                "another order: parts overlap and some elements are in none",
                related=[related_at(cut, "cut by rank here")],
            )
        elif name in _UNSEEDED and argument_of(call, "generator") is None and not is_seeded(program):
            yield finding_at(
                data.NO_DISTRIBUTED_SAMPLER,
                call,
                f"{name} without a common seed: each rank cuts its part out of another order: "
                "parts overlap and some elements are in none",
                remedy="Shuffle with a seed that all ranks share: `random.Random(0).shuffle("
                f"{ast.unparse(call.args[0]) if call.args else '...'})`.",
                related=[related_at(cut, "cut by rank here")],
            )
    loaders = program.analysis(Loaders)
    if not loaders.samplers and not loaders.is_data_parallel:
        return
    for call, name in program.calls("torch.utils.data.random_split"):
        generator = argument_of(call, "generator", 2)
        if has_star_arguments(call) or not loaders.calls:
            continue
        source = None if generator is None else _source_of_seeds(program, call, name)
        if source is not None or (generator is None and not is_seeded(program)):
            yield finding_at(
                data.NO_DISTRIBUTED_SAMPLER if source is None else data.SAMPLER_SEED_DIFFERS,
                call,
                f"random_split {'without a common seed' if source is None else 'by a seed of each rank'}: "
                "each rank splits in another way, and trains on what others validate with",
                remedy="Pass `generator=torch.Generator().manual_seed(0)`.",
            )


def _orders_below_samplers(program: Program, call: ast.Call, name: str) -> Iterator[Finding]:
    """What each rank shuffles or draws in its own way, and then reads by the indices of a sampler."""
    ends = (end for begin in _begins(program, call, name) for end in follow_list(program, begin))
    kept = next(filter(None, (sampled_use(program, each) for each in ends)), None)
    if kept is None or _is_off(program, call):
        return
    read, owner = kept
    module = "numpy.random" if name == _SPLIT else name.rpartition(".")[0]
    if module not in SEEDED_BY or not _draws_by_module(program, call):
        source, seed = _source_of_seeds(program, call, name), None
        if source is None:
            return
    else:
        source, seed = _source_of_seeds_before(program, call, module, owner)
        if source is None and may_be_seeded(program, module):
            return
    how = (
        "without a common seed" if source is None else f"by a seed that differs between the ranks ({source})"
    )
    yield finding_at(
        data.SAMPLER_SEED_DIFFERS,
        call,
        f"{name} {how}: an index that a sampler gives out means another sample on each rank, so that samples "
        "are read twice and others never",
        remedy="Draw with a seed that all ranks share, such as `random.Random(0)`, "
        "`numpy.random.default_rng(0)` or `torch.Generator().manual_seed(0)`.",
        related=[
            related_at(read, "read by a sampler's index here"),
            *([] if seed is None else [related_at(seed, "the seed at that time")]),
        ],
    )


def _draws_by_module(program: Program, call: ast.Call) -> bool:
    """Whether a call draws by the numbers of its module, not by a generator or a seed that it is given."""
    given = [argument_of(call, each) for each in ("generator", "random_state")]
    shuffle = argument_of(call, "shuffle")
    alike = shuffle is not None and program.value(shuffle) != Constant(True)
    return not alike and all(
        each is None or Constant(None) in alternatives(program.value(each)) for each in given
    )


def sampled_use(program: Program, end: ast.expr) -> tuple[ast.expr, ast.ClassDef | None] | None:
    """Where a list is read by the indices that a sampler, or a library in its place, gives each rank.

    That is in a Dataset of the program, which is given with it, or as the indices of a Subset.
    """
    outer = parent_of(end)
    dealt = [each for each, _ in program.analysis(dealt_datasets)]
    made = [value for each in dealt for value in alternatives(program.value(each))]
    if isinstance(outer, ast.Subscript) and outer.value is end and isinstance(end, ast.Attribute):
        owner = class_around(end)
        read = subscript_by_index(program, outer, owner)
        if read is not None and any(isinstance(each, Made) and each.definition is owner for each in made):
            return read, owner
    if isinstance(outer, ast.Call) and end in outer.args[:2]:
        subsets = [each.call for each in made if isinstance(each, Instance) and each.name.endswith(".Subset")]
        if outer in subsets or (end is outer.args[0] and end in dealt):
            return end, None
    return None


def _source_of_seeds_before(
    program: Program, call: ast.Call, module: str, owner: ast.ClassDef | None
) -> tuple[str | None, ast.expr | None]:
    """By what the seed differs that was set last before a call draws, or before the object of its class is
    made, and that seed; where none is set in these functions, by what all seeds of the program do."""
    setting_up = None if owner is None else method_of(owner, "__init__")
    sites = [] if setting_up is None else program.evaluation.callers.call_sites(setting_up) or []
    for place in (call, *(site.call for site in sites)):
        seeding = [
            (each, seed)
            for each in calls_beside(place)
            if each.lineno < place.lineno
            for seed in _seed_set_by(program, each, module)
        ]
        if seeding:
            seed = max(seeding, key=lambda each: each[0].lineno)[1]
            return source_of_difference(program, seed), seed
    seeds = [argument_of(each, "seed", 0) for each, _ in program.calls(SEEDED_BY[module])]
    return _one_source(program, seeds), None


def _seed_set_by(program: Program, call: ast.Call, module: str) -> Iterator[ast.expr]:
    """The seed that a call sets for the numbers of a module, itself or in a function of the program."""
    if program.qualified(call.func) == SEEDED_BY[module]:
        yield from filter(None, [argument_of(call, "seed", 0)])
    called = program.value(call.func)
    if isinstance(called, Defined) and isinstance(called.node, ast.FunctionDef):
        given = bind_arguments(called.node, call, called.owner is not None) or {}
        for each in calls_in(called.node):
            if program.qualified(each.func) == SEEDED_BY[module]:
                seed = argument_of(each, "seed", 0)
                if seed is not None:
                    yield given.get(seed.id, seed) if isinstance(seed, ast.Name) else seed


_LOADED = ("datasets.load_dataset", "datasets.load_from_disk")
_REORDERING = ("shuffle", "train_test_split")


def _datasets_in_other_orders(program: Program) -> Iterator[Finding]:
    """The datasets of Hugging Face's that each rank puts into an order of its own before it gets its part."""
    if next(program.calls(*_LOADED), None) is None:
        return
    seen = set[ast.AST]()
    trainers = trainers_of_transformers(program)
    for dataset, dealing in program.analysis(dealt_datasets):
        by_node = program.qualified(dealing.func) == BY_NODE
        by_trainer = dealing in trainers
        for call in parts_of(program, dataset):
            if not isinstance(call, ast.Call) or last_name(call.func) not in _REORDERING or call in seen:
                continue
            seen.add(call)
            if not _is_whole(program, call, by_node):
                continue
            seed = argument_of(call, "seed", 0 if last_name(call.func) == "shuffle" else None)
            source = None if seed is None else source_of_difference(program, seed)
            bare = seed is None and not has_star_arguments(call) and not argument_of(call, "generator")
            if source is not None or (bare and not by_node and not is_seeded(program)):
                how = (
                    f"by a seed that differs between the ranks (by {source})" if source else "without a seed"
                )
                yield finding_at(
                    data.SAMPLER_SEED_DIFFERS if source else data.NO_DISTRIBUTED_SAMPLER,
                    call,
                    f"{last_name(call.func)} {how}: each rank gets its part out of another order: parts "
                    "overlap and some samples are in none",
                    remedy="Give it a seed that all ranks share: `seed=0`.",
                    # A Trainer may be one process's, where the program does not say more.
                    severity=Severity.WARNING if by_trainer and not source else None,
                    related=[related_at(dealing, "dealt to the ranks here")],
                )


def _is_whole(program: Program, reordering: ast.Call, streamed: bool) -> bool:
    """Whether what is shuffled is all of a dataset that was loaded, and no part of this rank's."""
    made = [*parts_of(program, reordering.func)]
    names = {program.qualified(each.func) for each in made if isinstance(each, ast.Call)}
    cut = any(isinstance(each, ast.Attribute) and each.attr == "shard" for each in made)
    loaded = [each for each in made if isinstance(each, ast.Call) and program.qualified(each.func) in _LOADED]
    streams = any(argument_of(each, "streaming") for each in loaded)
    return bool(loaded) and not cut and BY_NODE not in names and (streamed or not streams)


def dealt_datasets(program: Program) -> list[tuple[ast.expr, ast.Call]]:
    """The datasets of which each rank gets a part by its number, with what deals it."""
    loaders, owner_of = program.analysis(Loaders), program.analysis(LoaderOwners).owner_of
    owners = {LoaderOwner.ACCELERATE, LoaderOwner.FABRIC}
    if any(not leaves_samplers_to_the_script(program, each) for each, _ in trainers_of_several(program)):
        owners.add(LoaderOwner.LIGHTNING)
    given = [
        (loaders.given(each, "dataset"), each)
        for each in loaders.calls
        if owner_of(each) in owners or loaders.samplers_of(each)
    ]
    given += [(argument_of(each, "dataset", 0), each) for each in loaders.samplers]
    given += [(argument_of(each, "train_dataset", 3), each) for each in trainers_of_transformers(program)]
    for name, argument, position in _DEALING_CALLS:
        given += [(argument_of(each, argument, position), each) for each, _ in program.calls(name)]
    for call in (each for file in program.files for each in file.calls_of.get("shard", ())):
        index = argument_of(call, "index", 1)
        if index is not None and isinstance(program.value(index), RankValue):
            given.append((getattr(call.func, "value", None), call))
    return [(each, dealing) for each, dealing in given if each is not None]


_DEALING_CALLS = (
    (BY_NODE, "dataset", 0),
    ("ignite.distributed.auto_dataloader", "dataset", 0),
    ("deepspeed.initialize", "training_data", 3),
)
"""Calls of libraries that deal a dataset to the ranks, with the argument that it is."""


def _cut_after(program: Program, call: ast.Call, name: str) -> ast.expr | None:
    """Where what a call shuffles is cut by rank."""
    ends = (end for each in _begins(program, call, name) for end in follow_list(program, each))
    return next((end for end in ends if is_cut_by_rank(program, end)), None)


def _begins(program: Program, call: ast.Call, name: str) -> list[ast.expr]:
    """Where the list stands that a call shuffles or draws."""
    if name in _IN_PLACE | _IN_PLACE_BY_GENERATOR:
        sources = program.evaluation.sources
        made = {each for given in call.args[:1] for each in sources(given)}
        uses = [use for given in call.args[:1] for use in uses_of_target(program, given)]
        return [
            each for each in uses if not isinstance(each, ast.Name) or not made or made & {*sources(each)}
        ]
    outer = parent_of(call)
    taken = outer.targets if isinstance(outer, ast.Assign) else []
    parts = [part for each in taken if isinstance(each, ast.Tuple) for part in each.elts]
    return [use for each in parts for use in uses_of_target(program, each)] or [call]


def _source_of_seeds(program: Program, call: ast.Call, name: str) -> str | None:
    """By what the seeds of a shuffle differ between the ranks; None where one does not, or there is none."""
    return _one_source(program, list(seeds_of(program, call, name)))


def _one_source(program: Program, seeds: list[ast.expr | None]) -> str | None:
    """By what all of these seeds differ between the ranks; None where one does not, or there is none."""
    sources = [None if each is None else source_of_difference(program, each) for each in seeds]
    return sources[0] if sources and None not in sources else None
