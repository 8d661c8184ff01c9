"""Samplers: every rank trains on its own part of the data, all on all of it, in a new order each epoch."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.program.bindings import branch_arms
from launcher.program.dataflow import (
    all_arguments,
    argument_of,
    calls_that_made,
    constant_argument,
    goes_nowhere,
    has_star_arguments,
    is_only_asked,
    parts_of,
    uses_of,
)
from launcher.program.index import (
    SCOPE,
    Binding,
    FunctionNode,
    Scope,
    ancestors,
    ancestors_in_function,
    file_of,
    parent_of,
    scope_of,
)
from launcher.program.program import Program
from launcher.program.ranks.participants import Closure
from launcher.program.ranks.reachability import Reachability, runs_once
from launcher.program.ranks.training_loops import makes_ranks_agree, shares_its_result
from launcher.program.values import (
    INIT_PROCESS_GROUP,
    Constant,
    Either,
    Instance,
    RankKind,
    RankValue,
    WorldSize,
    alternatives,
    library_names,
)
from launcher.rules.script.data.loaders import LOADER, SAMPLER, LoaderLoop, Loaders, left_to_the_script
from launcher.rules.script.data.shards import follow_list, is_cut_by_rank, uses_of_target
from launcher.rules.script.findings import finding_at, insert_before, related_at, remove_keyword


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def training_data_is_split(program: Program) -> Iterator[Finding]:
    """A DataLoader without a distributed sampler, over which a data-parallel program trains.

    Every rank then trains on the whole dataset: N processes do the same work N times over. Only loaders that
    surely reach a loop with a backward pass count, over datasets that are surely the same on every rank;
    what was handed to Accelerate, Lightning, a Trainer or anything unknown is theirs to split, unless the
    Trainer is told not to (`use_distributed_sampler=False`). One that was forgotten beside a model that
    Accelerate prepares is found.

    Bad: `for batch in DataLoader(dataset, shuffle=True): ddp(batch).backward()`
    Good: `for batch in DataLoader(dataset, sampler=DistributedSampler(dataset)): ...`

    Source: torch.utils.data documentation.
    """
    for loader, loop in _unsplit(program):
        yield finding_at(
            data.NO_DISTRIBUTED_SAMPLER,
            loader,
            "no distributed sampler: every rank trains on the whole dataset, and N processes do the same "
            "work N times over",
            related=[related_at(loop.iter, "the loop that trains with it")],
        )
    for loader, trainer in left_to_the_script(program.analysis(Loaders)):
        yield finding_at(
            data.NO_DISTRIBUTED_SAMPLER,
            loader,
            "no distributed sampler, and the Trainer is told to insert none: every rank trains on all data",
            related=[related_at(trainer, "this trainer")],
        )


_PREPARING = ("accelerate.Accelerator.prepare", "lightning.fabric.Fabric.setup")
"""What wraps a model, and splits the loaders that it, or what stands beside it, is given."""

_WRAPPERS = (*library_names("model_wrappers"), *_PREPARING)


def _unsplit(program: Program) -> Iterator[tuple[ast.Call, LoaderLoop]]:
    """The loaders that give every rank the same data, each with a loop that trains with it."""
    loaders = program.analysis(Loaders)
    if not loaders.calls or not loaders.is_wrapped_by(_WRAPPERS):
        return
    if any(has_star_arguments(call) for call, _ in program.calls(*_PREPARING)):
        return
    seen = set[ast.Call]()
    for loop in loaders.training_loops:
        # Where one of several loaders has a sampler, the others are for runs of one process.
        if any(loaders.samplers_of(each) != frozenset() for each in loop.loaders):
            continue
        for loader in loop.loaders - seen:
            seen.add(loader)
            dataset, sampler = loaders.given(loader, "dataset"), loaders.given(loader, "sampler")
            if dataset is None or not Closure(program, dataset).is_the_same_everywhere:
                continue
            if sampler is not None and _draws_a_part(program, sampler):
                continue
            if _is_of_several(program, loader, loop.node):
                yield loader, loop


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
    for call, _ in program.calls(*_WRAPPERS):
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
    loaders = program.analysis(Loaders)
    for sampler in loaders.samplers:
        binding = _kept_in(sampler)
        if binding is None or not loaders.calls:
            continue
        if not all(is_only_asked(use) for use in uses_of(program, binding)) and not (
            _trains_beside(loaders, sampler) and goes_nowhere(program, sampler)
        ):
            continue
        if not any(_is_of(loader, sampler) for loader, _ in _unsplit(program)):
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
    """A DistributedSampler whose `rank` is the rank on its host, among the processes of all hosts.

    On the second host the same samples are seen again, and those of the higher ranks never. The number that
    `spawn` gives is such a rank where the process group is given another one, `rank * gpus + number`.

    Bad: `DistributedSampler(dataset, num_replicas=world_size, rank=local_rank)`
    Good: `DistributedSampler(dataset, num_replicas=world_size, rank=dist.get_rank())`, or neither.

    Source: torch.utils.data documentation.
    """
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
        if size is None or (isinstance(size, WorldSize) and size.source in _OF_ALL_HOSTS):
            yield finding_at(
                data.NO_DISTRIBUTED_SAMPLER,
                sampler,
                f"rank= is the rank on the host ({value.source}), counted among the ranks of all hosts: each "
                "host gets the samples of the first one, and the others are never seen",
                remedy="Pass `rank=dist.get_rank()`, or leave out rank and num_replicas: the process group "
                "knows both.",
            )


def _is_added_to(program: Program, rank: ast.expr, local: RankValue) -> bool:
    """Whether a rank is calculated from the one on the host: `args.rank = args.rank * gpus + gpu`."""
    made = [rank, *(each.value for each in program.evaluation.sources(rank))]
    sums = [part for each in made if each for part in ast.walk(each) if isinstance(part, ast.BinOp)]
    return any(program.value(part) == local for each in sums for part in (each.left, each.right))


_OF_ALL_HOSTS = frozenset(
    {
        *("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "torch.distributed.get_world_size"),
        *("accelerate.Accelerator.num_processes", "accelerate.PartialState.num_processes"),
        *("lightning.fabric.Fabric.world_size", "lightning.pytorch.Trainer.world_size"),
    }
)


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
    told = [each.node for each in _epoch_calls(loaders) if each.samplers] if loaders.samplers else []
    given += [(argument_of(call, "epoch", 0), "epoch") for call in told if isinstance(call, ast.Call)]
    given += [(each, "seed") for each in _set_seeds(loaders)]
    for seed, what in given:
        source = None if seed is None else source_of_difference(program, seed)
        if seed is not None and source is not None:
            yield finding_at(
                data.SAMPLER_SEED_DIFFERS,
                seed,
                f"the sampler's {what} differs between the ranks (by {source}): each takes its part of "
                "another permutation, so that samples overlap and others are never seen",
            )


def _set_seeds(loaders: Loaders) -> Iterator[ast.expr | None]:
    """What is set as the seed of a sampler that is there: `sampler.seed = 3 + rank`."""
    for file in loaders.program.files if loaders.samplers else ():
        for binding in file.set_attributes.get("seed", ()):
            owner = binding.node.value if isinstance(binding.node, ast.Attribute) else None
            if isinstance(owner, ast.expr) and _receivers(loaders, owner):
                yield binding.value


# Whether what is cut by rank was shuffled alike.


_IN_PLACE = frozenset({"random.shuffle", "numpy.random.shuffle"})
_GENERATORS = (
    "random.Random",
    "numpy.random.default_rng",
    "numpy.random.RandomState",
    "numpy.random.Generator",
)
_IN_PLACE_BY_GENERATOR = frozenset(f"{name}.shuffle" for name in _GENERATORS)
_REORDERED = frozenset({"numpy.random.permutation", "random.sample"})
_REORDERED_BY_GENERATOR = frozenset(
    f"{name}.{verb}" for name in _GENERATORS for verb in ("permutation", "sample")
)
_UNSEEDED = _IN_PLACE | _REORDERED | {"torch.randperm"}
_SHUFFLES = _IN_PLACE | _IN_PLACE_BY_GENERATOR | _REORDERED | _REORDERED_BY_GENERATOR | {"torch.randperm"}


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER, data.SAMPLER_SEED_DIFFERS)
def shuffles_before_a_cut_agree(program: Program) -> Iterator[Finding]:
    """A shuffle of a list that is then cut by rank, or a random_split, without a seed or by each rank's own.

    Each rank shuffles in its own way: the parts overlap, and some elements are in none. After such a
    random_split the training data of one rank holds validation samples of another. Without a seed, silent
    where anything in the program is called one.

    Bad: `random.shuffle(files); mine = files[rank::world_size]`
    Good: `random.Random(seed).shuffle(files); mine = files[rank::world_size]`

    Source: torch.utils.data documentation (random_split: its generator).
    """
    for call, name in program.calls(*_SHUFFLES):
        cut = _cut_after(program, call, name)
        if cut is None:
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
        elif name in _UNSEEDED and argument_of(call, "generator") is None and not _is_seeded(program):
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
        if source is not None or (generator is None and not _is_seeded(program)):
            yield finding_at(
                data.NO_DISTRIBUTED_SAMPLER if source is None else data.SAMPLER_SEED_DIFFERS,
                call,
                f"random_split {'without a common seed' if source is None else 'by a seed of each rank'}: "
                "each rank splits in another way, and trains on what others validate with",
                remedy="Pass `generator=torch.Generator().manual_seed(0)`.",
            )


def _cut_after(program: Program, call: ast.Call, name: str) -> ast.expr | None:
    """Where what a call shuffles is cut by rank."""
    begins: list[ast.expr] = [call]
    if name in _IN_PLACE | _IN_PLACE_BY_GENERATOR:
        begins = [*uses_of_target(call.args[0])] if call.args else []
    return next(
        (end for each in begins for end in follow_list(program, each) if is_cut_by_rank(program, end)), None
    )


def _source_of_seeds(program: Program, call: ast.Call, name: str) -> str | None:
    """By what the seeds of a shuffle differ between the ranks; None where one does not, or there is none."""
    seeds = list(_seeds_of(program, call, name))
    sources = [None if each is None else source_of_difference(program, each) for each in seeds]
    return sources[0] if sources and None not in sources else None


def _seeds_of(program: Program, call: ast.Call, name: str) -> Iterator[ast.expr | None]:
    """What seeds the numbers by which a call shuffles: its generator's seeds, or those of its module."""
    generator = argument_of(call, "generator")
    if generator is None and name.startswith(_GENERATORS) and isinstance(call.func, ast.Attribute):
        generator = call.func.value
    if generator is None:
        module = name.rpartition(".")[0]
        seeding = "torch.manual_seed" if module == "torch" else f"{module}.seed"
        yield from (argument_of(each, "seed", 0) for each, _ in program.calls(seeding))
        return
    for made in alternatives(program.value(generator)):
        if not isinstance(made, Instance) or SCOPE not in made.call.__dict__:
            yield None
        elif made.name == "torch.Generator":
            for each, _ in program.calls("torch.Generator.manual_seed"):
                assert isinstance(each.func, ast.Attribute)
                if program.value(each.func.value) == made:
                    yield argument_of(each, "seed", 0)
        else:
            yield argument_of(made.call, "seed", 0)


def _is_seeded(program: Program) -> bool:
    """Whether anything that a program calls or sets has to do with a seed."""
    return any(
        "seed" in name.lower()
        for file in program.files
        for names in (file.calls_of, file.names, file.attributes, file.set_attributes)
        for name in names
    )


# What each process has of its own, so that what is calculated from it differs between the ranks.


_OWN = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "time.perf_counter",
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "os.getpid",
        "os.urandom",
        "uuid.uuid1",
        "uuid.uuid4",
        "secrets.randbits",
        "secrets.randbelow",
        "torch.seed",
        "torch.random.seed",
        "torch.Generator.seed",
        "socket.gethostname",
        "platform.node",
    }
)
"""Calls that each process answers in its own way."""

_DRAWN = frozenset(
    f"{module}.{name}"
    for module in ("random", "numpy.random")
    for name in ("randint", "randrange", "random", "getrandbits")
)
"""Calls that do so unless the program gives them a seed."""


def source_of_difference(program: Program, node: ast.expr) -> str | None:
    """By what an expression surely differs between the ranks: a rank, or what each process has of its own.

    None where they agree on a part of it, or a rank is taken off again.
    """
    value = program.value(node)
    parts = list(parts_of(program, node))
    calls = [each for each in parts if isinstance(each, ast.Call)]
    taken_off = (
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Sub)
        and isinstance(program.value(each.right), RankValue)
        for each in parts
    )
    if any(map(makes_ranks_agree, calls)) or any(taken_off) or _is_agreed_on(parts):
        return None
    scopes = {scope_of(each) for each in parts if SCOPE in each.__dict__}
    if any(shares_its_result(program, each) for each in scopes):
        return None
    if isinstance(value, RankValue):
        return value.source
    added = (
        program.value(each)
        for each in parts
        if isinstance(each, ast.Name | ast.Attribute | ast.Call)
        and isinstance(parent_of(each), ast.AugAssign)
    )
    drawn = [_source_of_drawing(program, each) for each in calls]
    chosen = [program.value(each.slice) for each in parts if isinstance(each, ast.Subscript)]
    ranks = [each.source for each in (*chosen, *added) if isinstance(each, RankValue)]
    ranks += [each for each in drawn if each is not None]
    own = _OWN if _is_seeded(program) else _OWN | _DRAWN
    return next(
        iter([*ranks, *(name for each in calls if (name := program.qualified(each.func)) in own)]), None
    )


def _source_of_drawing(program: Program, call: ast.Call) -> str | None:
    """By what the seed of the random numbers differs that a call of a library draws, or asks for."""
    name = program.qualified(call.func) or ""
    module, _, last = name.rpartition(".")
    if name.startswith("random.SystemRandom."):
        return name
    if name.startswith(_GENERATORS) and last in _DRAWING:
        seeds = [*_seeds_of(program, call, name)]
        sources = [None if each is None else source_of_difference(program, each) for each in seeds]
        return next(filter(None, sources), None) if None not in seeds else None
    if module not in _SEEDED_BY or last in ("seed", "manual_seed"):
        return None
    if last not in (
        "initial_seed",
        "randint",
        "randperm",
        "rand",
        *(each.rpartition(".")[2] for each in _DRAWN),
    ):
        return None
    seeds = [argument_of(each, "seed", 0) for each, _ in program.calls(_SEEDED_BY[module])]
    sources = [None if each is None else source_of_difference(program, each) for each in seeds]
    return sources[0] if sources and None not in sources else None


_DRAWING = frozenset({"integers", *(each.rpartition(".")[2] for each in _DRAWN)})
_SEEDED_BY = {"random": "random.seed", "numpy.random": "numpy.random.seed", "torch": "torch.manual_seed"}
"""What seeds the random numbers of a module for the whole process."""


def _is_agreed_on(parts: list[ast.AST]) -> bool:
    """Whether the ranks agree on one of these variables: `dist.broadcast(seed, 0)`."""
    scopes = {(each.id, scope_of(each)) for each in parts if isinstance(each, ast.Name)}
    return any(
        isinstance(given, ast.Name) and (given.id, scope_of(given)) in scopes
        for file in {scope.file for _, scope in scopes}
        for call in file.calls
        if makes_ranks_agree(call)
        for one in all_arguments(call)
        for given in ast.walk(one)
    )


# Whether a sampler learns which epoch it is.


@finds(Stage.SCRIPT, data.SET_EPOCH_NEVER_CALLED)
def samplers_know_the_epoch(program: Program) -> Iterator[Finding]:
    """A DistributedSampler that shuffles, over which a program trains for several epochs without `set_epoch`.

    The sampler shuffles by its seed and the number of the epoch. That stays 0, and every epoch repeats one
    order, which costs accuracy without any error. Found as well: `set_epoch` on another sampler, such as that
    of the validation, once before the epochs or with a literal, which is the same epoch each time, where no
    sampler is told the epoch; what stands in a class or function that nobody names is not called. Loaders
    that Accelerate, Lightning or a Trainer got are told by them. Samplers that are made anew with a seed that
    counts need no telling.

    Bad: `for epoch in range(90): train(DataLoader(dataset, sampler=sampler))`
    Good: `for epoch in range(90): sampler.set_epoch(epoch); train(...)`

    Source: torch.utils.data documentation, DistributedSampler.
    """
    loaders = program.analysis(Loaders)
    epoch_calls: list[_EpochCall] | None = None
    reported = set[ast.Call]()
    for sampler, epochs in _shuffling(loaders):
        if sampler in reported:
            continue
        if epoch_calls is None:
            epoch_calls = list(_epoch_calls(loaders))
        about = [each for each in epoch_calls if each.samplers is None or sampler in each.samplers]
        if any(not each.is_constant for each in about):
            continue
        if about and any(not each.is_constant for each in epoch_calls):
            continue  # Who tells one sampler the epoch means another, of the validation, to stay as it is.
        if not epochs:
            continue
        reported.add(sampler)
        sampler_note = related_at(sampler, "the sampler")
        if about:
            yield finding_at(
                data.SET_EPOCH_NEVER_CALLED,
                about[0].node,
                "set_epoch gets the same number in each epoch, so that each repeats the same order",
                related=[sampler_note],
            )
        elif epoch_calls:
            yield finding_at(
                data.SET_EPOCH_NEVER_CALLED,
                epoch_calls[0].node,
                "set_epoch is called on another sampler than that of the training data, which repeats the "
                "same order in every epoch",
                related=[sampler_note],
            )
        else:
            epoch = epochs[0]
            yield finding_at(
                data.SET_EPOCH_NEVER_CALLED,
                epoch.iter if isinstance(epoch, ast.For) else epoch.test,
                "set_epoch is never called on the sampler: every epoch repeats the same order",
                related=[sampler_note],
                fix=_set_at_the_head(epoch, sampler),
            )


def _set_at_the_head(epoch: ast.For | ast.While, sampler: ast.Call) -> Fix | None:
    """`sampler.set_epoch(epoch)` as the first statement of an epoch, where the sampler has a name there."""
    if not isinstance(epoch, ast.For) or not isinstance(epoch.target, ast.Name) or epoch.target.id == "_":
        return None
    name = _name_of(sampler, epoch)
    if name is None:
        return None
    edit = insert_before(epoch.body[0], f"{name}.set_epoch({epoch.target.id})")
    return None if edit is None else Fix(True, (edit,))


def _name_of(sampler: ast.Call, place: ast.For) -> str | None:
    """The one variable that surely is a sampler in a place."""
    statement = parent_of(sampler)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    (target,) = statement.targets
    if not isinstance(target, ast.Name) or branch_arms(statement) - branch_arms(place):
        return None
    holder = scope_of(place).holder_of(target.id)
    if holder is not scope_of(statement) or len(holder.bindings[target.id]) != 1:
        return None
    if holder is scope_of(place) and place.lineno < statement.lineno:
        return None
    return target.id


def _shuffling(loaders: Loaders) -> Iterator[tuple[ast.Call, list[ast.For | ast.While]]]:
    """The distributed samplers that surely shuffle, with the loops that begin them again."""
    if not loaders.samplers:
        return
    begun: list[tuple[list[ast.For | ast.While], frozenset[ast.Call]]] = []
    begun += [([loop], over) for loop, over in _cycles(loaders)]
    begun += [([*loaders.epoch_loops(each.node)], each.loaders) for each in loaders.training_loops]
    for epochs, over in begun:
        for loader in over:
            for sampler in loaders.samplers_of(loader) or ():
                shuffle = argument_of(sampler, "shuffle", 3)
                shuffles = shuffle is None or loaders.program.value(shuffle) == Constant(True)
                if shuffles and not has_star_arguments(sampler) and not _is_seeded_anew(loaders, sampler):
                    yield sampler, epochs


def _cycles(loaders: Loaders) -> Iterator[tuple[ast.While, frozenset[ast.Call]]]:
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


def _is_seeded_anew(loaders: Loaders, sampler: ast.Call) -> bool:
    """Whether the seed of a sampler counts, as the variable of a loop or by `+=`."""
    seed = argument_of(sampler, "seed", 4)
    return seed is not None and any(
        isinstance(part, ast.For | ast.comprehension | ast.AugAssign)
        for part in parts_of(loaders.program, seed)
    )


@frozen
class _EpochCall:
    """A call of set_epoch: on which samplers (None: unknown which), and whether always with one number."""

    node: ast.expr
    samplers: frozenset[ast.Call] | None
    is_constant: bool


def _epoch_calls(loaders: Loaders) -> Iterator[_EpochCall]:
    program = loaders.program
    for file in program.files:
        for attribute in file.attributes.get("set_epoch", ()):
            call = parent_of(attribute)
            if program.analysis(Reachability).is_named_nowhere(attribute):
                continue
            if isinstance(call, ast.Call) and call.func is attribute:
                epoch = argument_of(call, "epoch", 0)
                constant = constant_argument(program, epoch) is not None or runs_once(program, call)
                yield _EpochCall(call, _receivers(loaders, attribute.value), constant)
            else:
                yield _EpochCall(attribute, _receivers(loaders, attribute.value), False)
        for binding in file.set_attributes.get("epoch", ()):
            owner = binding.node.value if isinstance(binding.node, ast.Attribute) else None
            if isinstance(owner, ast.expr) and _receivers(loaders, owner):
                yield _EpochCall(owner, _receivers(loaders, owner), False)


def _receivers(loaders: Loaders, node: ast.expr) -> frozenset[ast.Call] | None:
    """The samplers that an expression may be: itself, or `loader.sampler` and its like."""
    if isinstance(node, ast.Attribute) and node.attr in ("sampler", "batch_sampler", "dataset"):
        samplers = _receivers(loaders, node.value)
        batched = node.attr == "sampler" and any(
            loaders.given(each, "batch_sampler") for each in loaders.resolved(node.value) or ()
        )
        if samplers is not None:  # Beside a batch sampler the loader's own deals in order.
            return frozenset() if batched or node.attr == "dataset" else samplers
    found = frozenset[ast.Call]()
    for each in alternatives(loaders.program.value(node)):
        if each == Constant(None):
            continue
        one = calls_that_made(each, SAMPLER)
        if one is None and isinstance(each, Instance) and each.name == LOADER:
            loader = calls_that_made(each, LOADER)
            one = None
            for call in loader or ():
                one = loaders.samplers_of(call)
        if one is None:
            return None
        found |= one
    return found
