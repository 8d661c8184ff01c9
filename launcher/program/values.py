"""What an expression can be known to be, and which names of libraries stand for ranks and world sizes.

What is not known is UNKNOWN, and no rule speaks of it. Libraries offer one thing under several names:
`canonical_name` gives `torch.distributed.barrier`, however it was imported. Ranks and sizes come from calls
and attributes of libraries and from the variables of launchers, which are tables: `LIBRARY_TABLES`.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

from launcher.program.index import FileIndex


class RankKind(Enum):
    """Among which processes a rank counts."""

    GLOBAL = "global"
    LOCAL = "local"
    """On one host."""
    NODE = "node"
    """The host's own number."""
    COORDINATE = "coordinate"
    """In one dimension of a mesh, or in a group."""
    DERIVED = "derived"
    """Calculated from a rank: it differs between ranks, and is none itself."""


@dataclass(frozen=True, slots=True)
class RankValue:
    """A number that differs between the processes; `source` is where it comes from, such as `RANK`."""

    kind: RankKind
    source: str


@dataclass(frozen=True, slots=True)
class WorldSize:
    """The number of processes, of all or of those on a host."""

    source: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class External:
    """A module, class, function or member of a library, by its one dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Instance:
    """What a call of `name`, a class or function of a library, gives: by `call`."""

    name: str
    call: ast.Call
    item: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleOf:
    """A module of the program."""

    file: FileIndex


@dataclass(frozen=True, slots=True)
class Defined:
    """A function or class of the program; `owner` is the object's class where it is a bound method."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    owner: ast.ClassDef | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """An object of a class of the program."""

    definition: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple or list that is written out."""

    node: ast.Tuple | ast.List


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A dictionary that is written out, or made by a call with its entries as keywords."""

    node: ast.Dict | ast.Call


@dataclass(frozen=True, slots=True)
class Either:
    """One of several things, depending on what runs before."""

    values: tuple[Value, ...]


class Nothing(Enum):
    """What says nothing of an expression."""

    UNKNOWN = "unknown"
    ITSELF = "itself"
    """A value that is calculated from itself: whatever its other sources say."""


UNKNOWN = Nothing.UNKNOWN

Value = (
    RankValue
    | WorldSize
    | Constant
    | External
    | Instance
    | ModuleOf
    | Defined
    | Made
    | Several
    | Dictionary
    | Either
    | Nothing
)

Environment = Mapping[ast.AST, Value]
"""What parameters are in one call, by the nodes of the parameters."""


def joined(values: Iterable[Value]) -> Value:
    """What an expression is that may have any of these values.

    A rank stays one beside literals, which stand for a run that is not distributed; None and other literals
    beside an object are its absence. Unknown beside anything is unknown, but that an object stays one of
    those that it may be.
    """
    found = [each for each in values if each is not Nothing.ITSELF]
    if len(found) > 1:
        found = list(dict.fromkeys(found))
    if not found:
        return UNKNOWN
    if len(found) == 1:
        return found[0]
    if UNKNOWN in found:
        objects = [part for each in found for part in alternatives(each) if isinstance(part, Instance)]
        return Either((*dict.fromkeys(objects), UNKNOWN)) if objects else UNKNOWN
    telling = [each for each in found if not isinstance(each, Constant)]
    if not telling:
        return UNKNOWN
    ranks = [each for each in telling if isinstance(each, RankValue)]
    if ranks:
        if len(ranks) < len(telling):
            return UNKNOWN
        # Where one is calculated from another, `rank = rank * n + gpu`, it is still what it was.
        kinds = {each.kind for each in ranks} - {RankKind.DERIVED} or {RankKind.DERIVED}
        ranks.sort(key=lambda each: each.kind is RankKind.DERIVED)
        return ranks[0] if len(kinds) == 1 else RankValue(RankKind.DERIVED, ranks[0].source)
    if all(isinstance(each, WorldSize) for each in telling):
        return telling[0]
    if len(telling) == 1:
        only = telling[0]
        # A literal other than None beside an object: which of the two it is, decides what is right.
        absent = all(each == Constant(None) for each in found if isinstance(each, Constant))
        return only if absent else Either((only, UNKNOWN))
    flat = [part for each in telling for part in (each.values if isinstance(each, Either) else (each,))]
    return Either(tuple(dict.fromkeys(flat)))


def alternatives(value: Value) -> tuple[Value, ...]:
    """All that a value may be."""
    return value.values if isinstance(value, Either) else (value,)


LAST_RANK = -1
"""Stands for the highest rank, where ranks are counted from 0."""

# What the names of libraries mean. Who adds one writes a table in `libraries/`, of which
# `tools/generate/library_tables.py`, where the keys are explained, makes `libraries.json`.


LIBRARY_TABLES: Mapping[str, Any] = json.loads(Path(__file__).with_name("libraries.json").read_text("utf-8"))
"""Names, and tables from names to what they mean, by the keys of the tables in `libraries/`."""


def library_names(key: str) -> frozenset[str]:
    """The names that the tables of all libraries have below a key, such as `joining_calls`."""
    return frozenset(LIBRARY_TABLES[key])


HOST_SIZES = library_names("host_sizes")


def _place_on_host(operator: ast.operator, rank: Value, size: Value) -> Value | None:
    """The number of a rank's host and its place there: `rank // gpus`, `rank % gpus`."""
    if not isinstance(rank, RankValue) or rank.kind is not RankKind.GLOBAL:
        return None
    if not isinstance(size, WorldSize) or size.source not in HOST_SIZES:
        return None
    if isinstance(operator, ast.FloorDiv):
        return RankValue(RankKind.NODE, rank.source)
    return RankValue(RankKind.LOCAL, rank.source) if isinstance(operator, ast.Mod) else None


PATH = "pathlib.Path"
"""The class of paths; what is put together of them, or is a parent of one, is one as well."""


def class_of_result(made: Instance) -> str:
    """The class of what a function gives, or of one part of it; that of an object otherwise."""
    name = made.name if made.item is None else f"{made.name}[{made.item}]"
    found: str = LIBRARY_TABLES["results"].get(name, made.name)
    return found


def is_path(value: Value) -> bool:
    """Whether something surely is a path of pathlib."""
    return all(
        isinstance(each, Instance) and each.item is None and class_of_result(each) == PATH
        for each in alternatives(value)
    )


def calculated_from(operator: ast.operator, left: Value, right: Value) -> Value:
    """What is calculated from two values."""
    placed = _place_on_host(operator, left, right)
    if placed is not None:
        return placed
    ranks = [each for each in (left, right) if isinstance(each, RankValue)]
    if ranks:
        return RankValue(RankKind.DERIVED, ranks[0].source)
    if Nothing.ITSELF in (left, right):
        return Nothing.ITSELF
    if isinstance(operator, ast.Div) and (is_path(left) or is_path(right)):
        return left if is_path(left) else right
    sizes = [each for each in (left, right) if isinstance(each, WorldSize)]
    if sizes and all(isinstance(each, WorldSize | Constant) for each in (left, right)):
        return sizes[0]
    return UNKNOWN


def _rank_or_size(kind: str, source: str) -> Value:
    return WorldSize(source) if kind == "world" else RankValue(RankKind(kind), source)


def _ranks_in(key: str) -> dict[str, Value]:
    return {name: _rank_or_size(kind, name) for name, kind in LIBRARY_TABLES[key].items()}


def _one_rank_in(key: str) -> dict[str, tuple[RankKind, int]]:
    table = LIBRARY_TABLES[key]
    return {
        name: (RankKind.GLOBAL, LAST_RANK) if kind == "last" else (RankKind(kind), 0)
        for name, kind in table.items()
    }


RANK_ATTRIBUTES = _ranks_in("rank_attributes")
"""The ranks and sizes that are read, not called."""

RANKS = _ranks_in("ranks") | RANK_ATTRIBUTES
"""The calls and attributes that are a rank or a world size."""

RANK_VARIABLES = _ranks_in("variables")
"""The environment variables of torchrun, mpirun, SLURM, Horovod and SageMaker, and what they hold."""

MAIN_PROCESS_TESTS = _one_rank_in("one_rank_tests")
"""What is true on one rank alone: which."""

MAIN_PROCESS_DECORATORS = _one_rank_in("one_rank_decorators")
"""The decorators of functions that run on one rank alone: which."""

_ALIASES: Mapping[str, str] = LIBRARY_TABLES["aliases"]
"""Prefixes of dotted names, and the prefix that stands for all of them here."""

_ALIASED_LIBRARIES = frozenset(name.partition(".")[0] for name in _ALIASES)


@lru_cache(maxsize=8192)
def canonical_name(name: str) -> str:
    """The one name of a thing of a library; any other name as it is."""
    if name.partition(".")[0] not in _ALIASED_LIBRARIES:
        return name
    for _ in range(4):  # So often at most does one renaming lead to another.
        for length in range(name.count(".") + 1, 0, -1):
            prefix = ".".join(name.split(".")[:length])
            short = _ALIASES.get(prefix)
            if short is not None and short != prefix:
                name = short + name[len(prefix) :]
                break
        else:
            return name
    return name


# How a program becomes distributed, and what wraps its models: by library.


INIT_PROCESS_GROUP = "torch.distributed.init_process_group"
DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
FULLY_SHARD = "torch.distributed.fsdp.fully_shard"


def is_import_of(name: str, key: str) -> bool:
    """Whether an imported name is, or lies in, one of those that the tables have below a key."""
    return any(name == each or name.startswith(f"{each}.") for each in LIBRARY_TABLES[key])
