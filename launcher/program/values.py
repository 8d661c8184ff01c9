"""What an expression can be known to be, and which names of libraries stand for ranks and world sizes.

What is not known is UNKNOWN, and no rule speaks of it. Libraries offer one thing under several names:
`canonical_name` gives `torch.distributed.barrier`, however it was imported. Ranks and sizes come from calls
and attributes of libraries and from the variables of launchers, which are tables: `LIBRARY_TABLES`.
"""

from __future__ import annotations

import ast
import copy
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from launcher.frozen import frozen
from launcher.program.index import (
    PARENT,
    SCOPE,
    Binding,
    FileIndex,
    FunctionNode,
    ancestors,
    file_of,
    function_of_parameter,
    is_attribute_of_self,
    last_name,
    scope_of,
)
from launcher.program.objects.nodes import walk


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


@frozen
class RankValue:
    """A number that differs between the processes; `source` is where it comes from, such as `RANK`."""

    kind: RankKind
    source: str


@frozen
class WorldSize:
    """The number of processes, of all or of those on a host."""

    source: str


@frozen
class Constant:
    """A literal."""

    value: bool | int | float | str | None


@frozen
class External:
    """A module, class, function or member of a library, by its one dotted name."""

    name: str


@frozen
class Instance:
    """What a call of `name`, a class or function of a library, gives: by `call`."""

    name: str
    call: ast.Call
    item: int | None = None


@frozen
class ModuleOf:
    """A module of the program."""

    file: FileIndex


@frozen
class Defined:
    """A function or class of the program; `owner` is the object's class where it is a bound method."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    owner: ast.ClassDef | None = None


@frozen
class Made:
    """An object of a class of the program."""

    definition: ast.ClassDef


@frozen
class Several:
    """A tuple or list that is written out."""

    node: ast.Tuple | ast.List


@frozen
class Dictionary:
    """A dictionary that is written out, or made by a call with its entries as keywords."""

    node: ast.Dict | ast.Call


@frozen
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


def function_of(value: Value) -> ast.FunctionDef | None:
    """The function of the program that a value is."""
    return value.node if isinstance(value, Defined) and isinstance(value.node, ast.FunctionDef) else None


# Tables and lists as they are written, or as calls and comprehensions make them of others that are.


Expression = TypeVar("Expression", bound=ast.expr)
Pair = tuple[str, ast.expr]
Evaluated = Callable[[ast.expr], Value]
"""What an expression is."""


def like(node: ast.expr, made: Expression) -> Expression:
    """An expression that is made for another one, in its scope and place."""
    made.__dict__.update({key: node.__dict__.get(key) for key in (PARENT, SCOPE)})
    return ast.copy_location(made, node)


def applied(partial: ast.Call, node: ast.Call) -> ast.Call:
    """The call of a function that a call of its partial application stands for, in its place."""
    given = {each.arg for each in node.keywords}
    keywords = [each for each in partial.keywords if each.arg not in given]
    call = ast.Call(partial.args[0], [*partial.args[1:], *node.args], [*keywords, *node.keywords])
    call.__dict__.update({**node.__dict__, **call.__dict__})
    return call


def entries_of(table: ast.Dict | ast.Call) -> list[tuple[ast.expr | None, ast.expr]]:
    """The keys and values of a table, in their order; without a key where a whole table is put in."""
    if isinstance(table, ast.Dict):
        return [*zip(table.keys, table.values, strict=True)]
    found: list[tuple[ast.expr | None, ast.expr]] = [(None, each) for each in table.args]
    for each in table.keywords:
        found.append((None if each.arg is None else like(each.value, ast.Constant(each.arg)), each.value))
    return found


def with_names_replaced(node: Any, given: Mapping[str, ast.expr]) -> Any:
    """A copy of an expression in its place, in which others stand for some names, such as `field.name`."""
    if isinstance(node, list):
        return [with_names_replaced(each, given) for each in node]
    if given and isinstance(node, ast.Name | ast.Attribute) and (written := ast.unparse(node)) in given:
        return given[written]
    if not isinstance(node, ast.AST) or isinstance(node, ast.expr_context | ast.operator):
        return node
    made = copy.copy(node)
    for name, part in ast.iter_fields(node):
        setattr(made, name, with_names_replaced(part, given))
    return made


_MOST_ELEMENTS = 64
"""A list of more elements is not written out: it holds data."""


def pairs_of(value: Value, evaluated: Evaluated, is_whole: bool = True, depth: int = 5) -> list[Pair] | None:
    """The keys and values of a table, or of a list of pairs; None where not all of them are known.

    Those that are known where it need not be whole.
    """
    if isinstance(value, Dictionary):
        entries = entries_of(value.node)
    elif isinstance(value, Several):
        parts = [evaluated(each) for each in value.node.elts]
        listed = [each.node.elts for each in parts if isinstance(each, Several)]
        entries = [(each[0], each[1]) for each in listed if len(each) == 2]
        if len(entries) < len(parts) and is_whole:
            return None
    else:
        return None
    found: dict[str, ast.expr] = {}
    for key, item in entries:
        if key is None:
            inner = pairs_of(evaluated(item), evaluated, is_whole, depth - 1) if depth else None
            if inner is None and is_whole:
                return None
            found.update(inner or ())
        elif isinstance(name := evaluated(key), Constant):
            found[str(name.value)] = item
        elif is_whole:
            return None
    return [*found.items()]


def elements_of(value: Value, evaluated: Evaluated, node: ast.expr) -> list[ast.expr] | None:
    """What a loop over a value goes through; None where that is not written out."""
    if isinstance(value, Several):
        found = value.node.elts
    elif isinstance(value, Dictionary):
        pairs = pairs_of(value, evaluated)
        found = [like(item, ast.Constant(key)) for key, item in pairs or ()]
    else:
        return None
    return found if 0 < len(found) <= _MOST_ELEMENTS else None


def element_at(listed: Several, place: int) -> ast.expr | None:
    """What stands at a place of a list, also counted from its end; None where a star hides which it is."""
    elements = listed.node.elts
    before = elements[: place + 1] if place >= 0 else elements[place:]
    is_there = -len(elements) <= place < len(elements)
    return elements[place] if is_there and not any(isinstance(each, ast.Starred) for each in before) else None


def names_given(target: ast.expr, element: ast.expr, evaluated: Evaluated) -> dict[str, ast.expr] | None:
    """What a loop's variables are for one element."""
    if isinstance(target, ast.Name):
        return {target.id: element}
    if not isinstance(target, ast.Tuple | ast.List):
        return None
    whole = evaluated(element)
    if not isinstance(whole, Several) or len(whole.node.elts) != len(target.elts):
        return None
    found: dict[str, ast.expr] = {}
    for part, given in zip(target.elts, whole.node.elts, strict=True):
        inner = names_given(part, given, evaluated)
        if inner is None:
            return None
        found |= inner
    return found


def spread(call: ast.Call, evaluated: Evaluated) -> ast.Call:
    """A call with the elements of written lists and tables in the place of `*list` and `**table`."""
    if not any(isinstance(each, ast.Starred) for each in call.args) and all(
        each.arg for each in call.keywords
    ):
        return call
    given: list[ast.expr] = []
    for each in call.args:
        inner = elements_of(evaluated(each.value), evaluated, call) if isinstance(each, ast.Starred) else None
        given += [each] if inner is None else inner
    named: list[ast.keyword] = []
    for option in call.keywords:
        pairs = None if option.arg else pairs_of(evaluated(option.value), evaluated)
        named += [option] if pairs is None else [ast.keyword(name, value) for name, value in pairs]
    return like(call, ast.Call(call.func, given, named))


_PARSING = frozenset(
    {"tyro.cli", "draccus.parse", "pyrallis.parse", "simple_parsing.parse", "chz.entrypoint"}
)


def name_of_table(table: ast.Dict) -> str:
    """The last name of the variable or attribute that holds a table; nothing where it is handed on."""
    holder = table.__dict__[PARENT]
    target = holder.targets[0] if isinstance(holder, ast.Assign) else getattr(holder, "target", None)
    return (last_name(target) if isinstance(target, ast.Name | ast.Attribute) else None) or ""


def object_parsed(made: Instance, evaluated: Evaluated) -> Value:
    """The object that a parser of the command line makes of a class that it is given; all else as it is."""
    given: Sequence[ast.expr] = made.call.args[:1] if made.name in _PARSING else ()
    if made.name == "transformers.HfArgumentParser.parse_args_into_dataclasses" and made.item is not None:
        parser = evaluated(made.call.func.value) if isinstance(made.call.func, ast.Attribute) else UNKNOWN
        classes = parser.call.args[:1] if isinstance(parser, Instance) else []
        listed = evaluated(classes[0]) if classes else UNKNOWN
        classes = listed.node.elts if isinstance(listed, Several) else classes
        given = classes[made.item : made.item + 1]
    kind = evaluated(given[0]) if given else UNKNOWN
    return Made(kind.node) if isinstance(kind, Defined) and isinstance(kind.node, ast.ClassDef) else made


class WrittenTables:
    """Tables and lists that are made of written ones: `{**a} | b`, `{k: f(v) for k, v in table.items()}`,
    `zip`, `map`, `dict.fromkeys`, `asdict`, the words of a text.

    Each is made once for the same parts, so that what is asked twice is the same.
    """

    def __init__(self, fields: Callable[[ast.ClassDef], Iterable[str]]) -> None:
        """`fields` names the fields of a dataclass or its like."""
        self._fields = fields
        self._made: dict[tuple[ast.AST, ...], Value] = {}
        self._rounds: dict[ast.expr, dict[str, ast.expr]] = {}

    def set_in_rounds(self, tables: Iterable[Value], key: str, evaluated: Evaluated) -> list[Value]:
        """What `table[name] = value` sets below a key, in loops over what is written out."""
        return [
            evaluated(made[key])
            for table in tables
            if isinstance(table, Dictionary)
            for entry in file_of(table.node).set_items.get("", ())
            if isinstance(entry.node, ast.Subscript) and evaluated(entry.node.value) == table
            if entry.value is not None
            and key in (made := self.rounds_of(entry.node, entry.node.slice, entry.value, evaluated))
        ]

    def rounds_of(
        self, entry: ast.expr, key: ast.expr, value: ast.expr, evaluated: Evaluated
    ) -> dict[str, ast.expr]:
        """What an entry with the loop's variable in its key is in each round, by the key."""
        if entry not in self._rounds:
            found = self._rounds[entry] = {}
            names = {each.id for each in walk(key) if isinstance(each, ast.Name)}
            for loop in (each for each in ancestors(entry) if isinstance(each, ast.For)):
                if names.isdisjoint(each.id for each in walk(loop.target) if isinstance(each, ast.Name)):
                    continue
                for each in elements_of(evaluated(loop.iter), evaluated, loop.iter) or ():
                    given = names_given(loop.target, each, evaluated) or {}
                    name = evaluated(with_names_replaced(key, given))
                    if isinstance(name, Constant):
                        found[str(name.value)] = with_names_replaced(value, given)
                break
        return self._rounds[entry]

    def of_union(self, node: ast.BinOp, left: Value, right: Value) -> Value:
        """`a | b` of tables, `a + b` of lists."""
        if isinstance(node.op, ast.BitOr) and isinstance(left, Dictionary) and isinstance(right, Dictionary):
            return self._table(node, [(None, left.node), (None, right.node)], left.node, right.node)
        if isinstance(node.op, ast.Add) and isinstance(left, Several) and isinstance(right, Several):
            return self._list(node, [*left.node.elts, *right.node.elts], left.node, right.node)
        return UNKNOWN

    def of_slice(self, node: ast.Subscript, owner: Value, evaluated: Evaluated) -> Value:
        """`rows[1:]` of a list."""
        part = node.slice
        if not isinstance(owner, Several) or not isinstance(part, ast.Slice) or part.step is not None:
            return UNKNOWN
        if any(isinstance(each, ast.Starred) for each in owner.node.elts):
            return UNKNOWN
        ends = [Constant(None) if each is None else evaluated(each) for each in (part.lower, part.upper)]
        known = [each.value for each in ends if isinstance(each, Constant)]
        if len(known) < 2 or not all(each is None or isinstance(each, int) for each in known):
            return UNKNOWN
        return self._list(node, owner.node.elts[slice(*known)], owner.node)  # type: ignore[arg-type]

    def of_comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp, evaluated: Evaluated
    ) -> Value:
        """Where it goes through one written list or table, and each of its conditions is known."""
        loop = node.generators[0]
        if len(node.generators) > 1:
            return UNKNOWN
        over = evaluated(loop.iter)
        elements = elements_of(over, evaluated, loop.iter) or []
        rounds = [names_given(loop.target, each, evaluated) for each in elements]
        given = [each for each in rounds if each is not None]
        if not given or len(given) < len(rounds) or not isinstance(over, Several | Dictionary):
            return UNKNOWN
        for condition in loop.ifs:
            tests = [evaluated(with_names_replaced(condition, each)) for each in given]
            if not all(isinstance(each, Constant) for each in tests):
                return UNKNOWN
            given = [each for each, test in zip(given, tests, strict=True) if getattr(test, "value", None)]
        if isinstance(node, ast.DictComp):
            entries = [
                (with_names_replaced(node.key, each), with_names_replaced(node.value, each)) for each in given
            ]
            return self._table(node, entries, over.node)
        return self._list(node, [with_names_replaced(node.elt, each) for each in given], over.node)

    def of_call(self, name: str, node: ast.Call, evaluated: Evaluated) -> Value:
        """What a function of Python's own makes of written tables and lists."""
        if name not in _MAKERS:
            return UNKNOWN
        values = [evaluated(each) for each in node.args]
        lists = [elements_of(each, evaluated, node) for each in values]
        known = [each for each in lists if each is not None]
        first = values[0] if values else UNKNOWN
        if name in _OF_OBJECTS and len(values) == 1:
            return self.of_object(node, node.args[0], first)
        if not known or len(known) < len(lists):
            if name == "dict.fromkeys" and lists and lists[0] is not None and isinstance(first, Several):
                return self._table(node, [(each, node.args[1]) for each in lists[0]], first.node)
            if name == "map" and len(node.args) == 2 and lists[1] is not None:
                calls = [like(node, ast.Call(node.args[0], [each], [])) for each in lists[1]]
                return self._list(node, calls, *_nodes(values[1:]))
            return UNKNOWN
        nodes = _nodes(values)
        if name == "enumerate":
            begin = values[1] if len(values) > 1 else Constant(0)
            first_number = begin.value if isinstance(begin, Constant) and isinstance(begin.value, int) else 0
            counted = [
                like(node, ast.Constant(each)) for each in range(first_number, first_number + len(known[0]))
            ]
            rows = [like(node, ast.Tuple([*row], ast.Load())) for row in zip(counted, known[0], strict=True)]
            return self._list(node, rows, *nodes)
        if name == "zip":
            rows = [like(node, ast.Tuple([*row], ast.Load())) for row in zip(*known, strict=False)]
            return self._list(node, rows, *nodes)
        if name == "dict.fromkeys" and len(known) == 2:
            return self._table(node, [(each, node.args[1]) for each in known[0]], *nodes)
        if name in PROGRESS_BARS:
            return first
        if name == "itertools.chain":
            return self._list(node, [each for elements in known for each in elements], *nodes)
        if name in ("list", "tuple", "iter", "reversed") and len(known) == 1:
            return self._list(node, known[0][:: -1 if name == "reversed" else 1], *nodes)
        return UNKNOWN

    def of_method(self, node: ast.Call, owner: Value, evaluated: Evaluated) -> Value:
        """`table.items()`, `record._asdict()`."""
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        if isinstance(owner, Dictionary) and name in ("items", "values", "keys") and not node.args:
            pairs = pairs_of(owner, evaluated)
            if not pairs:
                return UNKNOWN
            keys = [like(node, ast.Constant(key)) for key, _ in pairs]
            rows = zip(keys, (item for _, item in pairs), strict=True)
            made: Mapping[str, list[ast.expr]] = {
                "keys": [*keys],
                "values": [item for _, item in pairs],
                "items": [like(node, ast.Tuple([*row], ast.Load())) for row in rows],
            }
            return self._list(node, made[name], owner.node)
        if name == "copy" and isinstance(owner, Dictionary) and not node.args:
            return self._table(node, [(None, node.func.value)], owner.node)
        if name in ("_asdict", "model_dump", "dict") and isinstance(owner, Made) and not node.args:
            return self.of_object(node, node.func.value, owner)
        return UNKNOWN

    def of_record(self, called: Value, node: ast.Call) -> Value:
        """What a call of `namedtuple("Setup", "rank world")` makes, by its fields."""
        made = (
            called.call if isinstance(called, Instance) and called.name == "collections.namedtuple" else None
        )
        given = made.args[1] if made is not None and len(made.args) > 1 else None
        fields = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
        written = " ".join(str(each.value) for each in fields if isinstance(each, ast.Constant))
        names = written.replace(",", " ").split()
        if made is None or not names or any(isinstance(each, ast.Starred) for each in node.args):
            return UNKNOWN
        pairs = [*zip(names, node.args, strict=False), *((each.arg, each.value) for each in node.keywords)]
        entries = [(None if name is None else like(node, ast.Constant(name)), value) for name, value in pairs]
        return self._table(node, [*entries], made)

    def of_object(self, node: ast.expr, owner: ast.expr, value: Value) -> Value:
        """An object's attributes by their names."""
        if isinstance(value, Dictionary):
            return value
        names = [*self._fields(value.definition)] if isinstance(value, Made) else []
        if not names:
            return UNKNOWN
        assert isinstance(value, Made)
        attributes = [like(node, ast.Attribute(owner, name, ast.Load())) for name in names]
        keys = [like(node, ast.Constant(name)) for name in names]
        return self._table(node, [*zip(keys, attributes, strict=True)], value.definition)

    def of_tables(self, node: ast.expr, tables: Sequence[ast.expr]) -> Value:
        """Tables that are put together in the place of an expression; of two entries the last counts."""
        return self._table(node, [(None, each) for each in tables])

    def of_words(self, node: ast.expr, found: Sequence[str]) -> Value:
        """The words of a text, as a list."""
        words = [like(node, ast.Constant(each)) for each in found]
        return self._list(node, [*words]) if len(words) <= _MOST_ELEMENTS else UNKNOWN

    def _table(
        self, node: ast.expr, entries: list[tuple[ast.expr | None, ast.expr]], *parts: ast.AST
    ) -> Value:
        keys, values = [key for key, _ in entries], [value for _, value in entries]
        return self._made.setdefault((node, *parts), Dictionary(like(node, ast.Dict(keys, values))))

    def _list(self, node: ast.expr, elements: Sequence[ast.expr], *parts: ast.AST) -> Value:
        return self._made.setdefault((node, *parts), Several(like(node, ast.Tuple([*elements], ast.Load()))))


_OF_OBJECTS = frozenset({"vars", "dataclasses.asdict", "attr.asdict", "attrs.asdict"})

METHODS_OF_WRITTEN = frozenset({"copy", "items", "keys", "values", "_asdict", "model_dump", "dict"})
"""The last names of all that `of_method` knows."""


def _nodes(values: Iterable[Value]) -> list[ast.AST]:
    return [each.node for each in values if isinstance(each, Several | Dictionary)]


LAST_RANK = -1
"""Stands for the highest rank, where ranks are counted from 0."""

# What the names of libraries mean. Who adds one writes a table in `libraries/`, of which
# `tools/generate/library_tables.py`, where the keys are explained, makes `libraries.json`.


LIBRARY_TABLES: Mapping[str, Any] = json.loads(Path(__file__).with_name("libraries.json").read_text("utf-8"))
"""Names, and tables from names to what they mean, by the keys of the tables in `libraries/`."""


def library_names(key: str) -> frozenset[str]:
    """The names that the tables of all libraries have below a key, such as `joining_calls`."""
    return frozenset(LIBRARY_TABLES[key])


PROGRESS_BARS = library_names("progress_bars")
"""What gives the elements of what it is given, one after the other, and shows how far that is."""

_MAKERS = (
    _OF_OBJECTS
    | PROGRESS_BARS
    | {"zip", "enumerate", "map", "dict.fromkeys", "list", "tuple", "iter", "reversed", "itertools.chain"}
)
"""All functions that `of_call` knows: of others the arguments are not looked at."""

HOST_SIZES = library_names("host_sizes")


def is_size_of_all(value: Value) -> bool:
    """Whether a number is that of the processes of all hosts, and not of one."""
    return isinstance(value, WorldSize) and value.source not in HOST_SIZES


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
    if isinstance(operator, ast.Div) and (is_path(left) or is_path(right)):
        return left if is_path(left) else right
    ranks = [each for each in (left, right) if isinstance(each, RankValue)]
    if ranks:
        return RankValue(RankKind.DERIVED, ranks[0].source)
    if Nothing.ITSELF in (left, right):
        return Nothing.ITSELF
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


# Models that something is asked of, and are the same models after it.


SAME_MODEL = frozenset(
    f"torch.nn.Module.{name}" for name in ("to", "cuda", "cpu", "train", "eval", "half", "bfloat16", "float")
)
"""Methods of a model that give it back."""

CHOSEN_FROM = ("torch.optim", "torchvision.datasets", "torchvision.models")
"""Modules of which an option may name any class: what is done with one is done with all."""


def model_within(wrapper: Instance, attribute: str) -> ast.expr | None:
    """What a wrapper holds, where its `module` is read."""
    if attribute not in (f"{DDP}.module", f"{FSDP}.module", "torch.nn.parallel.DataParallel.module"):
        return None
    given = [*wrapper.call.args[:1], *(each.value for each in wrapper.call.keywords if each.arg == "module")]
    return given[0] if given else None


def is_set_by_method(store: Binding) -> bool:
    """Whether what has an attribute set is the `self` or `cls` of a method, and no object that it made."""
    function, node = scope_of(store.node).function, store.node
    if function is None or not isinstance(node, ast.Attribute) or not isinstance(function.node, FunctionNode):
        return False
    return store.name.split(".")[-2] in ("self", "cls") and is_attribute_of_self(node, function.node)


def is_in_function_of(environment: Environment, node: ast.expr) -> bool:
    """Whether a node stands in the function whose parameters the environment holds."""
    function = function_of_parameter(next(iter(environment)))
    scope = scope_of(node).function if node.__dict__.get(SCOPE) else None  # Of a literal that was made.
    while scope is not None and scope.node is not function:
        scope = None if scope.parent is None else scope.parent.function
    return scope is not None
