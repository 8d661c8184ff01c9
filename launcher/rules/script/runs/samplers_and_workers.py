"""The loaders and samplers that a rank of a job makes, as it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import SCALARS, CallMade, Object, Symbol
from launcher.program.execution.ranks import RankRun
from launcher.program.execution.written_trees import place_of
from launcher.program.index import ancestors, last_name
from launcher.program.objects.nodes import walk
from launcher.rules.script.data.workers.worker_resources import too_many_workers
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import TRAINING, RankRuns, loops_around, settings_of

LOADER = "torch.utils.data.DataLoader"
_SAMPLER = "torch.utils.data.DistributedSampler"
_DATASETS = ("torchvision.datasets.", "torchaudio.datasets.", "torchtext.datasets.", "datasets.load_")
_OF_DATASETS = tuple(f"torch.utils.data.{each}()" for each in ("Subset", "ConcatDataset", "random_split"))
_OF_RANKS = re.compile(r"rank|shard|world|replica|get_worker_info|num_nodes", re.IGNORECASE)
"""What a dataset names that deals ranks their parts itself."""
_EPOCHS = re.compile(r"epoch|prepare|resume|state", re.IGNORECASE)
"""What functions are called of which nobody knows whether they tell a sampler the epoch."""


@finds(Stage.SCRIPT, data.TOO_MANY_WORKERS)
def loaders_leave_cpus_to_others(runs: RankRuns) -> Iterator[Finding]:
    """A DataLoader with more workers than the host has vCPUs for each process, by all that goes into it.

    Each process starts as many, and they take time and memory from each other and from the training.

    Bad: `num_workers=config["workers"]` with 32 in config.json, on 96 vCPUs and 8 processes. Good: 11.
    Source: torch.utils.data documentation; EC2's vCPUs of the instance type.
    """
    facts = instance_facts(runs.subject.job.resources.instance_type)
    if facts is None or runs.first is None or not runs.trains:
        return
    processes = max(runs.processes, _processes_of_lightning(runs.first, facts.accelerators))
    cpus = max(1, facts.vcpus // processes)
    for event in runs.first.calls(LOADER):
        workers = event.argument("num_workers", 5)
        if isinstance(workers, int) and workers > cpus and event.is_sure:
            related = settings_of(runs.first, [event.node])
            yield too_many_workers(event.node, workers, processes, facts, related)
            return


def _processes_of_lightning(run: RankRun, accelerators: int) -> int:
    """The processes that Lightning's trainer starts on a host: one for each device that it is to use."""
    for event in run.calls("lightning.pytorch.Trainer"):
        for asked in (event.argument("devices"), event.argument("gpus")):
            if isinstance(asked, int) and asked > 0:
                return int(asked)
            if asked in (-1, "-1", "auto"):
                return accelerators
    return 1


@finds(Stage.SCRIPT, data.SET_EPOCH_NEVER_CALLED)
def ranks_tell_samplers_the_epoch(runs: RankRuns) -> Iterator[Finding]:
    """A sampler that shuffles, a loop over epochs, and no rank that calls set_epoch in this job.

    Every epoch then has the same order. Silent where a library has a part in it, and where a function that
    nobody knows may tell the sampler.

    Bad: a hook that calls `set_epoch` and is registered nowhere. Good: the same among the hooks of the run.
    Source: torch.utils.data.distributed.DistributedSampler.
    """
    first = runs.first
    if first is None or runs.by_libraries or not runs.trains or runs.may_call(_EPOCHS):
        return
    if next(runs.calls("*.set_epoch"), None) is not None:
        return
    most = 0 if _begins_loaders_anew(runs) else 1
    trained = next((each for each in first.calls(*TRAINING) if loops_around(each) > most), None)
    sampler = next((each for each in first.calls(_SAMPLER) if _shuffles(each)), None)
    if trained is None or sampler is None or loops_around(sampler):
        return
    yield finding_at(
        data.SET_EPOCH_NEVER_CALLED,
        sampler.node,
        "no rank calls set_epoch on this sampler in this job: every epoch repeats the same order",
        related=[related_at(trained.node, "trained here")],
    )


def _begins_loaders_anew(runs: RankRuns) -> bool:
    """Whether a program goes on with a loader from its beginning as often as it ends, in whatever loop."""
    tries = [each for file in runs.program.files for each in file.nodes(ast.Try)]
    handlers = [each for one in tries for each in one.handlers]
    return any(
        isinstance(inner, ast.Call) and last_name(inner.func) == "iter"
        for each in handlers
        if each.type is not None and "StopIteration" in ast.unparse(each.type)
        for one in each.body
        for inner in walk(one)
    )


@finds(Stage.SCRIPT, data.NO_DISTRIBUTED_SAMPLER)
def loaders_deal_ranks_their_part(runs: RankRuns) -> Iterator[Finding]:
    """A loader that shuffles one dataset of all ranks, and no sampler that deals them its parts in this job.

    Every rank then trains on the whole of it. Silent where a library has a part in it, where the datasets of
    two ranks are not alike or nobody knows what they are, and where a class of the program's own asks for
    ranks itself. A warning where the ranks make no group, which another rule says.

    Bad: `DataLoader(CIFAR10(root), shuffle=True)` in each of 16 processes. Good: `DataLoader(CIFAR10(root),
    sampler=DistributedSampler(...))`. Source: torch.utils.data documentation.
    """
    first, neighbour = runs.first, runs.neighbour
    if first is None or neighbour is None or runs.by_libraries or not runs.trains:
        return
    theirs = {each.node: each for each in neighbour.calls(LOADER)}
    for event in first.calls(LOADER):
        other = theirs.get(event.node)
        sampler, batches = (event.argument(*each) for each in (("sampler", 3), ("batch_sampler", 4)))
        drawn = sampler.made_by if isinstance(sampler, Symbol) else None
        is_of_all = drawn is not None and drawn.name == _OF_ALL and drawn.is_sure
        if other is None or not event.is_sure or batches is not None or not (sampler is None or is_of_all):
            continue
        if not (is_of_all or event.argument("shuffle", 2) is True) or not _is_one_dataset(event, other):
            continue
        if _is_cut_by_rank(event):
            continue
        trained = next((each for each in first.calls(*TRAINING) if loops_around(each)), None)
        yield finding_at(
            data.NO_DISTRIBUTED_SAMPLER,
            event.node,
            f"no sampler deals parts in this job: each of the {runs.world_size} ranks trains on all of it",
            severity=None if first.group is not None else Severity.WARNING,
            related=[] if trained is None else [related_at(trained.node, "trained here")],
        )
        return


def _is_cut_by_rank(loader: CallMade) -> bool:
    """Whether the class that makes a loader gives each rank its part of the batches as it goes over them."""
    around = (each for each in ancestors(loader.node) if isinstance(each, ast.ClassDef))
    methods = (each for one in around for each in one.body if isinstance(each, ast.FunctionDef))
    return any(each.name == "__iter__" and _OF_RANKS.search(ast.unparse(each)) for each in methods)


_OF_ALL = "torch.utils.data.RandomSampler"
"""What draws from the whole dataset, on whichever rank."""
_DRAWS = re.compile(r"(?P<by>numpy\.random|random)\.(shuffle|choices?|permutation|sample)|torch\.randperm")
"""What puts into an order, or chooses, by a generator that each process has of its own."""
_SEEDS_OF_ALL = ("seed_everything", "set_seed", "manual_seed_all", "seed_all")


@finds(Stage.SCRIPT, data.SAMPLER_SEED_DIFFERS)
def ranks_deal_one_order(runs: RankRuns) -> Iterator[Finding]:
    """A dataset that each rank puts into an order of its own before a sampler deals the places in it.

    The parts of the ranks are parts of different lists: some samples are in several, others in none. Silent
    where the generator has got one seed on all ranks, or nobody knows which.

    Bad: `random.shuffle(self.files)` in the constructor of a dataset with a DistributedSampler. Good: the
    same behind `random.seed(0)`. Source: torch.utils.data.distributed.DistributedSampler.
    """
    first, neighbour = runs.first, runs.neighbour
    if first is None or neighbour is None or not runs.trains:
        return
    dealt = {node for each in first.calls(LOADER) if _is_dealt(each) for node in _constructors_of(each)}
    theirs = {each.node for each in neighbour.events}
    for place, event in enumerate(first.events if dealt else ()):
        drawn = _DRAWS.fullmatch(event.name)
        if drawn is None or event.node not in theirs:
            continue
        if dealt.isdisjoint(outer for call in (event.node, *event.callers) for outer in ancestors(call)):
            continue
        seeds = [_seed_of(each, drawn["by"] or "torch") for each in first.events[:place]]
        others = [_seed_of(each, drawn["by"] or "torch") for each in neighbour.events]
        mine = [each for each in seeds if each is not None]
        if mine and (not isinstance(mine[-1], int) or mine[-1] in others):
            continue
        yield finding_at(
            data.SAMPLER_SEED_DIFFERS,
            event.node,
            "each rank orders the dataset by chance for itself, and the sampler deals parts of different "
            "lists: samples overlap, and others are never seen",
            remedy="Give the generator one seed on all ranks before (`random.Random(0)`), or sort the list "
            "and leave the order to the sampler.",
        )
        return


def _is_dealt(loader: CallMade) -> bool:
    """Whether a loader's sampler deals each rank its part, by what it is called."""
    given = [loader.argument(*each) for each in (("sampler", 3), ("batch_sampler", 4))]
    names = (each.kind.node.name if isinstance(each, Object) else getattr(each, "name", "") for each in given)
    return any("Distributed" in str(each) for each in names)


def classes_of_dataset(loader: CallMade) -> list[ast.ClassDef]:
    """The classes of a loader's dataset that are the program's own."""
    given = loader.argument("dataset", 0)
    places = [place_of(each.node) for each in given.kind.line()] if isinstance(given, Object) else []
    return [each for each in places if isinstance(each, ast.ClassDef)]


def _constructors_of(loader: CallMade) -> Iterator[ast.AST]:
    """The methods by which a loader's dataset is made, of its classes that are the program's own."""
    for each in classes_of_dataset(loader):
        yield from (one for one in each.body if getattr(one, "name", "") in ("__init__", "__post_init__"))


def _seed_of(event: CallMade, library: str) -> object:
    """The seed that a call gives the generator of a library; None of another call."""
    whole, last = event.name, event.name.rpartition(".")[2]
    own = {"numpy.random": "numpy.random.seed", "random": "random.seed", "torch": "torch.manual_seed"}
    if whole != own[library] and last not in _SEEDS_OF_ALL:
        return None
    return event.args[0] if event.args else Symbol()


def _is_one_dataset(one: CallMade, other: CallMade) -> bool:
    """Whether two ranks give their loaders the same dataset, of which it is known what it is."""
    mine, theirs = one.argument("dataset", 0), other.argument("dataset", 0)
    return _is_whole(mine) and _shown(mine) == _shown(theirs)


def _is_whole(dataset: Any) -> bool:
    if isinstance(dataset, Object):
        base = dataset.kind.library_base() or ""
        return "Iterable" not in base and not any(
            _OF_RANKS.search(ast.unparse(each.node)) for each in dataset.kind.line()
        )
    if not isinstance(dataset, Symbol):
        return isinstance(dataset, list | tuple) and bool(dataset) and all(map(_is_whole, dataset))
    made = dataset.made_by
    if made is not None and dataset.name.startswith(_OF_DATASETS):
        others = (*made.args[1:], *made.keywords.values())
        return bool(made.args) and _is_whole(made.args[0]) and not any(map(_is_open, others))
    if made is not None and dataset.name == "torch.utils.data.TensorDataset()":
        return bool(made.args) and all(map(_is_made_of_what_is_known, made.args))
    return dataset.name.startswith(_DATASETS)


def _is_made_of_what_is_known(value: Any, depth: int = 6) -> bool:
    """Whether a tensor is made by torch or numpy alone, of what is known."""
    if not isinstance(value, Symbol):
        return isinstance(value, SCALARS) or (
            isinstance(value, list | tuple) and all(_is_made_of_what_is_known(each, depth) for each in value)
        )
    made = value.made_by
    if made is None or not depth or not value.name.startswith(("torch.", "numpy.")):
        return False
    owners = [each for each in (made.owner,) if getattr(each, "made_by", None) is not None]
    parts = (*made.args, *made.keywords.values(), *owners)
    return all(_is_made_of_what_is_known(each, depth - 1) for each in parts)


def _is_open(value: Any) -> bool:
    """Whether nobody knows what a value is, which may be a rank's own part of the indices."""
    return isinstance(value, Symbol) and not value.name


def _shown(value: Any, depth: int = 4) -> object:
    """What a value is made of, to be compared with another rank's."""
    if isinstance(value, Object):
        parts = [(name, _shown(each, depth - 1)) for name, each in value.attributes.items()] if depth else []
        return value.kind.node, tuple(parts)
    if isinstance(value, Symbol):
        made = value.made_by
        args = () if made is None or not depth else (*made.args, *made.keywords.values())
        return value.name, tuple(_shown(each, depth - 1) for each in args)
    if isinstance(value, list | tuple):
        return tuple(_shown(each, depth - 1) for each in value) if depth else ()
    if isinstance(value, range):
        return value.start, value.stop, value.step
    return value if isinstance(value, SCALARS) else type(value)


def _shuffles(sampler: CallMade) -> bool:
    return sampler.argument("shuffle", 3) in (None, True) and sampler.is_sure


LOADER_RUN_RULES = (
    loaders_leave_cpus_to_others,
    ranks_tell_samplers_the_epoch,
    loaders_deal_ranks_their_part,
    ranks_deal_one_order,
)
