"""Defects of loaders and samplers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tools.benchmarks.seeding.site import Site
from tools.benchmarks.seeding.whole import WRAPPERS, Places, Whole, is_method, kind

_SAMPLER = ("torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler")
_LOADER = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_NOT_FOR_TRAINING = re.compile(r"val|test|eval", re.IGNORECASE)


def _placed(whole: Whole, names: tuple[str, ...]) -> Iterator[tuple[Site, ast.Call]]:
    for site in whole.sites:
        for call in site.calls_of(*names):
            if whole.reaches(site, call) and not site.under_rank(call):
                yield site, call


def _for_training(whole: Whole) -> Iterator[tuple[Site, ast.Call, ast.Call]]:
    """The loaders of a training with the DistributedSampler that they get, in one function."""
    if not WRAPPERS.search(whole.text):
        return
    for site, loader in _placed(whole, _LOADER):
        given = site.keyword(loader, "sampler")
        statement = site.statement(loader)
        if _NOT_FOR_TRAINING.search(site.source(statement)) or given is None or site.is_open(loader):
            continue
        if isinstance(given, ast.Name):
            samplers = [
                call
                for call in site.calls_of(*_SAMPLER)
                if isinstance(parent := site.parents[call], ast.Assign)
                and any(isinstance(each, ast.Name) and each.id == given.id for each in parent.targets)
                and site.function(call) is site.function(loader)
            ]
        else:
            samplers = [call for call in site.calls_of(*_SAMPLER) if call is given]
        if len(samplers) == 1:
            yield site, loader, samplers[0]


@kind("set_epoch removed", "DATA004")
def epoch_never_set(whole: Whole) -> Places:
    """set_epoch of the training's sampler removed."""
    calls = [
        (site, call, where) for site, call, where in whole.called(ast.AST) if is_method(call, "set_epoch")
    ]
    if not WRAPPERS.search(whole.text) or not any(_shuffles(*each) for each in _for_training(whole)):
        return
    for site, call, statement in calls:
        receiver = ast.unparse(call.func).removesuffix(".set_epoch")
        if not isinstance(statement, ast.Expr) or _NOT_FOR_TRAINING.search(receiver) or receiver == "loader":
            continue
        others = [(where, each) for where, each, _ in calls if each is not call]
        same = any(not _NOT_FOR_TRAINING.search(ast.unparse(each.func)) for _, each in others)
        loop, function = _head_of_loop(site, call), site.function(call)
        if same or not whole.reaches(site, call) or not (loop or function):
            continue
        lines = {line for where, each in others if where is site for line in site.lines_of(each)}
        # The head of the loop over the epochs: around the call, or around the call of its function.
        for each in site.calls if not loop and function else ():
            if site.source(each.func).rpartition(".")[2] == function.name:
                lines |= set(_head_of_loop(site, each))
        yield site, site.replaced([(site.span(statement), "pass")]), lines | set(loop)


def _shuffles(site: Site, _: ast.Call, sampler: ast.Call) -> bool:
    """Whether a sampler surely shuffles: without that its epochs are alike, and need no number."""
    shuffle = site.keyword(sampler, "shuffle")
    return shuffle is None or (isinstance(shuffle, ast.Constant) and shuffle.value is True)


def _head_of_loop(site: Site, node: ast.AST) -> range:
    loop = next((each for each in site.around(node) if isinstance(each, ast.For | ast.While)), None)
    return range(loop.lineno, loop.body[0].lineno) if loop else range(0)


@kind("sampler dropped", "DATA003")
def sampler_dropped(whole: Whole) -> Places:
    """The sampler no longer given to the training's loader."""
    if _draws_its_data(whole):
        return
    for site, loader, sampler in _for_training(whole):
        text = site.with_argument(loader, "sampler", None)
        if text is None:
            continue
        by = text.count("\n") - site.text.count("\n")
        lines = {line + min(by, 0) for line in site.lines_of(loader)} | set(site.lines_of(loader))
        yield site, text, lines | set(site.lines_of(sampler))


def _draws_its_data(whole: Whole) -> bool:
    """Whether a data set of the program is made up of random numbers: each rank has its own all the same."""
    return any(
        isinstance(node, ast.ClassDef)
        and any("Dataset" in ast.unparse(base) for base in node.bases)
        and re.search(r"\b(rand|randn|randint)\(", site.source(node))
        for site in whole.sites
        for node in ast.walk(site.tree)
    )


@kind("shuffle beside a sampler", "DATA003")
def shuffled_beside_sampler(whole: Whole) -> Places:
    """shuffle=True beside the sampler."""
    for site, loader, _ in _for_training(whole):
        text = site.with_argument(loader, "shuffle", "True")
        yield site, text, site.lines_of(loader)


@kind("prefetch_factor without workers", "DATA005")
def workerless_prefetch(whole: Whole) -> Places:
    """prefetch_factor, and no workers."""
    for site, loader in _placed(whole, _LOADER):
        given = next((each for each in loader.keywords if each.arg == "num_workers"), None)
        if site.is_open(loader) or given is None or site.keyword(loader, "prefetch_factor") is not None:
            continue
        if site.keyword(loader, "persistent_workers") is not None:
            continue
        text = site.replaced([(site.span(given), "num_workers=0, prefetch_factor=2")])
        yield site, text, site.lines_of(loader)


@kind("sampler's seed by rank", "DATA008")
def seed_by_rank(whole: Whole) -> Places:
    """A sampler whose seed is another on each rank."""
    for site, sampler in _placed(whole, _SAMPLER):
        dist = site.alias("torch.distributed")
        shuffle = site.keyword(sampler, "shuffle")
        new = f"{dist}.get_rank()" if dist else 'int(os.environ["RANK"])'
        if (dist is None and site.alias("os") != "os") or (
            isinstance(shuffle, ast.Constant) and not shuffle.value
        ):
            continue
        text = site.with_argument(sampler, "seed", new)
        yield site, text, site.lines_of(sampler)


@kind("sampler by LOCAL_RANK", "DATA003", "DIST007")
def sampler_by_local_rank(whole: Whole) -> Places:
    """A sampler that takes the rank on its host for the rank of all."""
    if re.search(r"\bspawn\(|submitit", whole.text):
        return
    for site, sampler in _placed(whole, _SAMPLER):
        if len(sampler.args) > 2 or site.alias("os") != "os":
            continue
        text = site.with_argument(sampler, "rank", 'int(os.environ["LOCAL_RANK"])')
        yield site, text, site.lines_of(sampler)


@kind("split without a seed", "DATA003")
def unseeded_split(whole: Whole) -> Places:
    """The dataset of a sampler split by chance, with no seed in the program."""
    if re.search("seed", whole.text, re.IGNORECASE):
        return
    for site, loader, sampler in _for_training(whole):
        dataset = sampler.args[0] if sampler.args else site.keyword(sampler, "dataset")
        if isinstance(dataset, ast.Name) and site.alias("torch"):
            statement = site.statement(sampler)
            call = f"{site.alias('torch')}.utils.data.random_split({dataset.id}, [0.9, 0.1])"
            where = statement if statement.lineno < loader.lineno else site.statement(loader)
            text = site.with_before(where, [f"{dataset.id}, held_out = {call}"])
            yield site, text, {where.lineno}


@kind("download on every rank", "DATA009")
def downloaded_by_all(whole: Whole) -> Places:
    """A data set of torchvision that every rank downloads."""
    if "init_process_group" not in whole.text:
        return
    for site in whole.sites:
        for call in site.calls:
            if not site.dotted(call.func).startswith("torchvision.datasets.") or site.is_open(call):
                continue
            given = site.keyword(call, "download")
            if isinstance(given, ast.Constant) and given.value is True:
                continue
            if not re.search(r"MNIST|CIFAR|SVHN|STL10|Food101", site.dotted(call.func)):
                continue
            if whole.on_every_rank(site, call):
                text = site.with_argument(call, "download", "True")
                yield site, text, site.lines_of(call)
