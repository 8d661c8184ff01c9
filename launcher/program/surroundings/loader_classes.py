"""Which classes, of whatever library or of the program, are torch's DataLoader and DistributedSampler under
another name, and take what these take."""

from __future__ import annotations

import ast
from collections.abc import Callable

from launcher.program.values import Defined, External, Value, alternatives

LOADER = "torch.utils.data.DataLoader"
SAMPLER = "torch.utils.data.DistributedSampler"

_SHARED_BY_ITSELF = frozenset({"use_ddp", "distributed", "num_replicas", "world_size", "rank", "num_shards"})
"""Arguments by which a library's loader is told to give each rank its part."""

_DEEPEST = 4
"""So many classes above one another are looked at."""


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


def class_of_torch(
    definition: ast.ClassDef, value: Callable[[ast.expr], Value], depth: int = _DEEPEST
) -> str | None:
    """Of which of the two a class of the program is, that only changes how batches are given out.

    Such as one whose workers live on from epoch to epoch, or which reads ahead in a thread. One that makes
    its sampler itself, or has methods of its own, is judged as the class that it is.
    """
    own = [each for each in definition.body if isinstance(each, ast.FunctionDef)]
    if not depth or not all(_is_inner(each) for each in own):
        return None
    found = {_base(each, value, depth) for base in definition.bases for each in alternatives(value(base))}
    name = found.pop() if len(found) == 1 else None
    if name == SAMPLER and any(each.name in ("__iter__", "__init__") for each in own):
        return None
    return name


def _base(base: Value, value: Callable[[ast.expr], Value], depth: int) -> str | None:
    if isinstance(base, External):
        last = base.name.rpartition(".")[2]
        return SAMPLER if last == "DistributedSampler" else LOADER if last.endswith("DataLoader") else None
    if isinstance(base, Defined) and isinstance(base.node, ast.ClassDef):
        return class_of_torch(base.node, value, depth - 1)
    return None


def _is_inner(method: ast.FunctionDef) -> bool:
    """Whether a method is one that loops and Python call, or that hands on all that it is given."""
    if method.name != "__init__":
        return method.name.startswith("_") or method.name == "reset"
    if method.args.vararg is None or method.args.kwarg is None or len(method.args.args) != 1:
        return False
    made = [each for each in ast.walk(method) if isinstance(each, ast.keyword)]
    return not any(each.arg in ("sampler", "batch_sampler", "shuffle", "num_workers") for each in made)
