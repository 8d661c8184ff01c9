"""Which properties CloudFormation cannot change on a resource that is there, so that it makes another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from launcher.facts.data_file import read_data_file

_CUSTOM_RESOURCES = ("Custom::", "AWS::CloudFormation::CustomResource")


def create_only(type_: str) -> tuple[str, ...] | None:
    """The properties of a type whose change replaces the resource; None for a type that is not known.

    A slash leads into a property. `tools/generate/create_only.py` writes the table.
    """
    if type_.startswith(_CUSTOM_RESOURCES):
        return ("ServiceToken",)
    return _table().get(type_)


def values_at(properties: Mapping[str, Any], path: str) -> list[Any]:
    """What stands at a path; of a list on the way, each item's."""
    return list(_values_at(properties, path.split("/")))


def _values_at(value: Any, path: list[str]) -> Iterator[Any]:
    if isinstance(value, list) and path:
        for each in value:
            yield from _values_at(each, path)
    elif not path:
        yield value
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _values_at(value[path[0]], path[1:])


@cache
def _table() -> Mapping[str, tuple[str, ...]]:
    rows = read_data_file(__file__, "create_only.json")["types"]
    return {type_: tuple(properties) for type_, properties in rows.items()}
