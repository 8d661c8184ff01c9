"""`@frozen`: what `@dataclass(frozen=True, slots=True)` makes, in a third of its time.

A command makes some hundred of these classes before it does anything, for each of which the standard library
writes and compiles seven methods: a fifth of what `launch check` took. Here it writes `__init__` alone. That
nothing is assigned to afterwards is what mypy holds, who reads the decorator as frozen; at run time an object
does not refuse it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, TypeVar, dataclass_transform

Class = TypeVar("Class", bound=type)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Class) -> Class:
    """Make a class a data class: compared and hashed by its fields, with slots; `field` may leave one out.

    Methods that the class writes itself stay. For `asdict`, `replace` and `fields` it is any data class.
    """
    made: Any = frozen_by_identity(cls)
    compared = _values_of([each.name for each in fields(made) if each.compare])
    hashed = _values_of(
        [each.name for each in fields(made) if each.hash or (each.hash is None and each.compare)]
    )

    def equal(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or compared(self) == compared(other)

    def hash_value(self: object) -> int:
        return hash(hashed(self))

    own = cls.__dict__
    if "__eq__" not in own:
        made.__eq__ = equal
        made.__hash__ = own.get("__hash__") or hash_value
    return made  # type: ignore[no-any-return]


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def frozen_by_identity(cls: Class) -> Class:
    """Make a class a data class of which each object equals itself alone; else as `frozen` does."""
    made: Any = dataclass(slots=True, eq=False, repr=False)(cls)
    if "__repr__" not in cls.__dict__:
        made.__repr__ = _written
    return made  # type: ignore[no-any-return]


def _values_of(names: list[str]) -> Callable[[object], tuple[Any, ...]]:
    """What reads these attributes as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    # Of a single name the library's function gives the bare value, of which equality is another: NaN.
    return lambda self: tuple(getattr(self, name) for name in names)


@recursive_repr("...")
def _written(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"
