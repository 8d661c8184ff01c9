"""What an expression of a program can be known to be.

What is not known is UNKNOWN, and no rule speaks of it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from launcher.scripts.index import FileIndex


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
    | Either
    | Nothing
)


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
