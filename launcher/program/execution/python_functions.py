"""What Python's own functions give, to a program that is run on its syntax tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launcher.program.execution.expressions import chosen
from launcher.program.execution.objects import (
    MOST_ITEMS,
    SCALARS,
    STARS,
    Class,
    DottedEntries,
    Module,
    Native,
    Object,
    OpenedFile,
    ProcessEnded,
    Raised,
    RecordEntries,
    RunScope,
    Super,
    Symbol,
    Turns,
    is_known,
    is_of_numpy,
    text_of,
)
from launcher.program.execution.process import Process

Model = Callable[..., Any]
_TYPES: dict[str, type] = {
    **{each.__name__: each for each in (str, int, float, bool, list, tuple, dict, set, bytes, frozenset)}
}


def python_names(run: Process) -> dict[str, object]:
    """What Python has of its own names."""
    named: dict[str, Model] = {
        "print": lambda *_, **__: None,
        "len": lambda value: _length(run, value),
        "range": lambda *ends: range(*ends) if all(isinstance(each, int) for each in ends) else Symbol(),
        "enumerate": lambda value, start=0: _enumerated(run, value, start),
        "zip": lambda *values, **_: _zipped(run, values),
        "map": lambda function, *values: _mapped(run, function, values),
        "filter": lambda function, values: _filtered(run, function, values),
        "list": lambda *value: _collected(run, list, value),
        "tuple": lambda *value: _collected(run, tuple, value),
        "set": lambda *value: _collected(run, set, value),
        "frozenset": lambda *value: _collected(run, frozenset, value),
        "dict": lambda *value, **entries: dictionary_of(value, entries),
        "iter": lambda value, *_: _iterated(run, value),
        "next": lambda value, *default: _next(run, value, default),
        "reversed": lambda value: value[::-1] if isinstance(value, list | tuple) else value,
        "sorted": lambda value, key=None, reverse=False: sorted_items(run, value, key, reverse),
        "int": lambda value=0, *_: _number(run, int, value),
        "float": lambda value=0.0: _number(run, float, value),
        "str": lambda value="", *_, **__: text_of(run.written(value)),
        "divmod": lambda one, other: (
            divmod(one, other) if isinstance(one, int) and isinstance(other, int) and other else Symbol()
        ),
        "bool": lambda value=False: _truth(run, value),
        "repr": text_of,
        "abs": lambda value: abs(value) if isinstance(value, int | float) else _number_like([value]),
        "round": lambda value, digits=None: (
            round(value, digits)
            if isinstance(value, int | float) and digits in (None, *range(30))
            else _number_like([value])
        ),
        "min": lambda *values, **given: Symbol() if "key" in given else _extreme(min, values),
        "max": lambda *values, **given: Symbol() if "key" in given else _extreme(max, values),
        "sum": lambda value, *_: Symbol() if id(value) in run.grown else _sum(value),
        "any": lambda value: _any(run, value, decides=True),
        "all": lambda value: _any(run, value, decides=False),
        "isinstance": lambda value, kind: _is_instance(value, kind),
        "issubclass": lambda one, other: other in one.line() if isinstance(one, Class) else Symbol(),
        "callable": lambda value: Symbol() if isinstance(value, Symbol) else not isinstance(value, SCALARS),
        "getattr": lambda owner, name, *default: _get(run, owner, name, default),
        "setattr": lambda owner, name, value: _set(run, owner, name, value),
        "hasattr": lambda owner, name: _has(run, owner, name),
        "vars": lambda value=None: _entries(value),
        "type": lambda value, *_: _kind_of(run, value),
        "super": lambda *given: _super(given),
        "open": lambda name, mode="r", *_, **__: open_file(run, name, mode),
        "exit": lambda *given: end_of_process(run, *given),
        "quit": lambda *given: end_of_process(run, *given),
        "__import__": lambda name, *_, **__: run.imported(text_of(name), run.at),
        "globals": lambda: Symbol(),
        "locals": lambda: Symbol(),
    }
    return {name: Native(name, call) for name, call in named.items()} | {"__debug__": True}


_KINDS = (bool, int, float, str, list, tuple, dict, set)


def _kind_of(run: Process, value: object) -> object:
    """What `type` gives: a class of the program, or one of Python's that every other value has as well."""
    if isinstance(value, Object):
        return value.kind
    plain = type(value) in _KINDS and (not isinstance(value, str) or is_known(value))
    return run.python[type(value).__name__] if plain else Symbol()


def items_of(run: Process, value: object) -> list[Any]:
    """What a function of Python goes through that is given a value."""
    return run.items_of(value, run.at)


def _length(run: Process, value: Any) -> object:
    if isinstance(value, Object):
        found = run.call_method(value, "__len__", [], value.kind.node)
        if found is not NotImplemented:
            return found
        value = value.native
    if id(value) in run.grown:
        return Symbol()
    return (
        len(value)
        if (run.is_countable(value) and not isinstance(value, str)) or is_known(value)
        else Symbol()
    )


def _iterated(run: Process, value: Any) -> object:
    return Turns(items_of(run, value)) if run.is_countable(value) and not isinstance(value, Turns) else value


def _next(run: Process, value: Any, default: tuple[Any, ...]) -> object:
    """The next of the items; what comes behind the last one is open, as one turn may stand for many."""
    if isinstance(value, Turns):
        value.taken += 1
        return value[value.taken - 1] if value.taken <= len(value) else (*default, Symbol())[0]
    if isinstance(value, Symbol) and isinstance(value.owner, list) and value.owner:
        return chosen([*value.owner, *default])
    return next(iter(items_of(run, value)), default[0] if default else Symbol())


def _enumerated(run: Process, value: Any, start: object) -> object:
    items = items_of(run, value)
    if run.is_countable(value) and isinstance(start, int):
        return [(start + number, each) for number, each in enumerate(items)]
    return Symbol(owner=[(Symbol(), each) for each in items[:1]])


def _zipped(run: Process, values: tuple[Any, ...]) -> object:
    columns = [items_of(run, each) for each in values]
    pairs = list(zip(*columns, strict=False))
    return pairs if all(map(run.is_countable, values)) else Symbol(owner=pairs[:1])


def _mapped(run: Process, function: object, values: tuple[Any, ...]) -> object:
    node = run.at
    rows = list(zip(*(items_of(run, each) for each in values), strict=False))
    found = [run.call(function, list(row), {}, node) for row in rows[:MOST_ITEMS]]
    return found if all(map(run.is_countable, values)) else Symbol(owner=found)


def _collected(run: Process, kind: type, value: tuple[Any, ...]) -> object:
    if not value:
        return kind()
    items = items_of(run, value[0])
    if not run.is_countable(value[0]):
        return Symbol(owner=items)
    if kind in (set, frozenset) and not all(map(is_known, items)):
        return Symbol(owner=items)
    return kind(items)


def dictionary_of(value: tuple[Any, ...], entries: dict[str, Any]) -> object:
    """What `dict` makes of tables or pairs, and of what it is given by names."""
    found: dict[Any, Any] = {}
    if STARS in entries:
        return Symbol()
    for each in value:
        table = each.native if isinstance(each, Object) else each
        if isinstance(table, dict):
            found.update(table)
        elif isinstance(each, list):
            found.update({key: one for key, one in each if is_known(key)})
        else:
            return Symbol()
    return found | entries


def sorted_items(run: Process, value: Any, key: Any, reverse: Any) -> object:
    """The items in order, or as they are where nobody can tell what they are sorted by."""
    items, node = items_of(run, value), run.at
    if not run.is_countable(value):
        return value
    keys: list[Any] = items if key is None else [run.call(key, [each], {}, node) for each in items]
    if not all(map(is_known, keys)) or not isinstance(reverse, bool):
        return items
    try:
        order = sorted(range(len(items)), key=lambda place: keys[place], reverse=reverse)
    except TypeError:
        return items
    return [items[each] for each in order]


def _filtered(run: Process, function: Any, values: Any) -> object:
    """What a test lets through, in so far as it is known."""
    items, node = items_of(run, values), run.at
    tests = items if function is None else [run.call(function, [each], {}, node) for each in items]
    truths = [run.truth(each) for each in tests]
    kept = [each for each, truth in zip(items, truths, strict=True) if truth is not False]
    return kept if run.is_countable(values) and None not in truths else Symbol(owner=kept)


def _number(run: Process, kind: Callable[[Any], Any], value: Any) -> object:
    if isinstance(value, Symbol) or not is_known(value):
        return Symbol(is_own=isinstance(value, Symbol) and value.is_own)
    try:
        return kind(value)
    except (TypeError, ValueError):
        return run.fail("ValueError")


def _truth(run: Process, value: object) -> object:
    found = run.truth(value)
    return Symbol() if found is None else found


def _extreme(which: Callable[[Any], Any], values: tuple[Any, ...]) -> object:
    listed = values[0] if len(values) == 1 else values
    if isinstance(listed, range) and listed:
        listed = (listed[0], listed[-1])
    if (
        isinstance(listed, list | tuple)
        and listed
        and all(isinstance(each, int | float) for each in listed[:MOST_ITEMS])
    ):
        return which(listed[:MOST_ITEMS])
    return _number_like(list(listed)) if isinstance(listed, list | tuple) else Symbol()


def _number_like(values: list[object]) -> Symbol:
    """A number that nobody knows, of numpy's where one of those is that it comes of."""
    numbers = all(isinstance(each, int | float) or is_of_numpy(each) for each in values)
    return Symbol("numpy.float64()") if numbers and any(map(is_of_numpy, values)) else Symbol()


def _sum(value: Any) -> object:
    known = isinstance(value, list | tuple) and all(isinstance(each, int | float) for each in value)
    return sum(value) if known else Symbol()


def _any(run: Process, value: Any, *, decides: bool) -> object:
    truths = [run.truth(each) for each in items_of(run, value)]
    if not run.is_countable(value):
        return Symbol()
    return decides if decides in truths else Symbol() if None in truths else not decides


_ABSTRACT: dict[str, type | tuple[type, ...]] = {
    **{
        f"{each}.{name}": dict
        for each in ("collections.abc", "typing")
        for name in ("Mapping", "MutableMapping")
    },
    "collections.abc.Sequence": (list, tuple, str),
    "collections.abc.Iterable": (list, tuple, dict, set, str),
    **{f"numbers.{each}": (int, float) for each in ("Number", "Real")},
    "numbers.Integral": int,
}
"""The classes of Python's library that its own types belong to."""


def _is_instance(value: Any, kind: Any) -> object:
    if isinstance(kind, tuple):
        found = [_is_instance(value, each) for each in kind]
        return True if True in found else next((each for each in found if isinstance(each, Symbol)), False)
    if isinstance(kind, Native) and kind.name in _TYPES:
        if isinstance(value, Symbol):
            return Symbol()
        native = value.native if isinstance(value, Object) else value
        return isinstance(native, _TYPES[kind.name])
    if isinstance(kind, Symbol) and kind.name in _ABSTRACT and not isinstance(value, Symbol):
        native = value.native if isinstance(value, Object) else value
        if native is not None or not isinstance(value, Object):
            return isinstance(native, _ABSTRACT[kind.name])
    if isinstance(kind, Class):
        return (
            kind in value.kind.line()
            if isinstance(value, Object)
            else Symbol()
            if isinstance(value, Symbol)
            else False
        )
    if isinstance(kind, Symbol):
        if isinstance(value, Symbol):
            return True if value.name == f"{kind.name}()" and kind.name else Symbol()
        if isinstance(value, Object):
            bases = {getattr(base, "name", "") for each in value.kind.line() for base in each.bases}
            return True if kind.name in bases else Symbol() if bases - {""} else False
        return False if isinstance(value, SCALARS) else Symbol()
    return Symbol()


def _get(run: Process, owner: Any, name: Any, default: tuple[Any, ...]) -> object:
    if not isinstance(name, str) or not is_known(name):
        return Symbol()
    if default and not _may_have(owner, name):
        return default[0]
    run.tries += bool(default)
    try:
        return run.attribute(owner, name, run.at)
    except Raised:
        return default[0]
    finally:
        run.tries -= bool(default)


def _has(run: Process, owner: Any, name: Any) -> object:
    if isinstance(owner, Symbol) or not isinstance(name, str):
        return Symbol()
    return _may_have(owner, name)


def _may_have(owner: Any, name: str) -> bool:
    """Whether something has an attribute, or may have it of a library."""
    if isinstance(owner, Object):
        own = name in owner.attributes or owner.kind.find(name) is not None
        return (
            own
            or owner.kind.library_base() is not None
            or (isinstance(owner.native, dict) and name in owner.native)
        )
    if isinstance(owner, DottedEntries):
        return name in owner
    if isinstance(owner, Class):
        return owner.find(name) is not None or owner.library_base() is not None
    if isinstance(owner, Module):
        return owner.scope is not None and name in owner.scope.variables
    return isinstance(owner, Symbol) or hasattr(owner, name)


def _super(given: tuple[Any, ...]) -> object:
    if len(given) == 2 and isinstance(given[0], Class):
        return Super(given[0], given[1])
    scope = given[0] if given and isinstance(given[0], RunScope) else None
    while scope is not None:
        if "__class__" in scope.variables:
            return Super(scope.variables["__class__"], scope.variables["*self"])
        scope = scope.outer
    return Symbol()


def end_of_process(run: Process, *given: object) -> object:
    """End the process; where it is a refusal of what the job gives it, the run goes on behind it."""
    is_refusal = given and given[0] not in (0, None) and not isinstance(given[0], Symbol)
    if is_refusal:
        run.note_raised(run.at)
    if is_refusal and not run.tests and not run.is_tried():
        run.raised = run.raised or Raised("SystemExit")
        return None
    raise ProcessEnded


def _set(run: Process, owner: object, name: object, value: object) -> None:
    """Set an attribute by its name; by one that nobody knows any of them may be another afterwards."""
    if isinstance(name, str) and is_known(name):
        run.set_attribute(owner, name, value)
        return
    entries = owner if isinstance(owner, DottedEntries) else getattr(owner, "attributes", {})
    for key, each in entries.items():
        if isinstance(each, SCALARS):
            entries[key] = Symbol()


def _entries(value: object) -> object:
    """What `vars` gives."""
    if isinstance(value, Module):
        return value.entries
    return (
        RecordEntries(value) if isinstance(value, DottedEntries) else getattr(value, "attributes", Symbol())
    )


def open_file(run: Process, name: object, mode: object = "r") -> OpenedFile:
    """An open file, by its name, which is empty where nobody gives one."""
    made = OpenedFile("" if name is None else text_of(name), text_of(mode))
    run.record("builtins.open", (made.name, made.mode), run.at)
    run.opened = made if "w" not in made.mode else run.opened
    return made
