"""Which classes, of whatever library or of the program, are torch's under another name, and take what these
take: its DataLoader, its DistributedSampler, and what wraps a model."""

from __future__ import annotations

import ast
from collections.abc import Callable

from launcher.program.index import FunctionNode, is_property, last_name
from launcher.program.objects.nodes import walk
from launcher.program.values import DDP, FSDP, Defined, External, Value, alternatives

LOADER = "torch.utils.data.DataLoader"
SAMPLER = "torch.utils.data.DistributedSampler"

_SHARED_BY_ITSELF = frozenset({"use_ddp", "distributed", "num_replicas", "world_size", "rank", "num_shards"})
"""Arguments by which a library's loader is told to give each rank its part."""


def name_of_object(name: str, call: ast.Call) -> str:
    """The name of the class of which a library's call makes an object: torch's for what is one of torch's.

    A class of any library that is called `...DataLoader` and is told a batch size is a DataLoader, unless it
    shares the data among the ranks by itself; one that is called DistributedSampler is one.
    """
    last = name.rpartition(".")[2]
    if last == "DistributedSampler":
        return SAMPLER
    given = {each.arg for each in call.keywords}
    if last.endswith("DataLoader") and "batch_size" in given and given.isdisjoint(_SHARED_BY_ITSELF):
        return LOADER
    return name


def class_extended(definition: ast.AST, value: Callable[[ast.expr], Value]) -> External | None:
    """The class of torch that one of the program only extends: it hands all that it is made of on, and has no
    methods of its own that others call.

    Such as a loader whose workers live on from epoch to epoch, or which reads ahead in a thread. One that
    makes its sampler itself, or has methods of its own, is judged as the class that it is.
    """
    if not isinstance(definition, ast.ClassDef):
        return None
    bases = [value(each) for each in definition.bases if last_name(each) != definition.name]
    found = {_extended(each) for each in (alternatives(bases[0]) if bases else ())}
    known = found.pop() if len(found) == 1 else None
    if known is None or any(isinstance(each, Defined) for each in bases):
        return None
    methods = [each for each in definition.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    if known == SAMPLER and any(each.name == "__iter__" for each in methods):
        return None  # It may count the epochs itself.
    return External(known) if all(map(_is_inner, methods)) else None


def _extended(base: Value) -> str | None:
    if not isinstance(base, External):
        return None
    last = base.name.rpartition(".")[2]
    loads = SAMPLER if last == "DistributedSampler" else LOADER if last.endswith("DataLoader") else None
    return base.name if base.name in (DDP, FSDP) else loads


def _is_inner(method: FunctionNode) -> bool:
    """Whether a method is one that loops and Python call, or that hands on all that it is given."""
    assert not isinstance(method, ast.Lambda)
    if method.name != "__init__":
        return method.name.startswith("_") or method.name == "reset" or is_property(method)
    given = [each for each in walk(method) if isinstance(each, ast.keyword)]
    calls = [each for each in walk(method) if isinstance(each, ast.Call)]
    above = [each for each in calls if last_name(each.func) == "__init__"]
    return any(map(_hands_on, above)) and _CHOSEN.isdisjoint(each.arg for each in given)


def _hands_on(call: ast.Call) -> bool:
    """Whether a call gives on what its function got by `*` or `**`."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    )


_CHOSEN = frozenset({"sampler", "batch_sampler", "shuffle", "num_workers"})
"""The arguments of a loader that no class may choose for who makes it, to be as good as torch's."""
