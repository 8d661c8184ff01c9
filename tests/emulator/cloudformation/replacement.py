"""Which changes of properties ask for a new resource, by the schemas that cfn-lint holds."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from cfnlint.schema import PROVIDER_SCHEMA_MANAGER
from cfnlint.schema._exceptions import ResourceNotFoundError

from tests.emulator.cloudformation.kinds.kind import Properties, kind_of


def create_only_changes(region: str, resource_type: str, old: Properties, new: Properties) -> list[str]:
    """The changed properties that ask for a new resource; none where the old one can be changed."""
    named = [
        "/".join(path) for path in _schema(region, resource_type)[0] if _found(old, path) != _found(new, path)
    ]
    return [*named, *kind_of(resource_type).also_create_only(old, new)]


def fixed_name(region: str, resource_type: str, old: Properties, new: Properties) -> str | None:
    """The name that a template gives a resource and keeps, so that a second cannot stand beside the first."""
    paths = _schema(region, resource_type)[1]
    names = [(_found(old, path), _found(new, path)) for path in paths]
    if names and all(before is not None and before == after for before, after in names):
        return "/".join(str(after) for _, after in names)
    return None


@functools.cache
def _schema(region: str, resource_type: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The paths of create-only properties, and those of the identifier as far as a template gives it."""
    try:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, resource_type).schema
    except ResourceNotFoundError:
        # Custom resources have none: whatever changes, their function is called.
        return [], []

    def paths(key: str) -> list[tuple[str, ...]]:
        return [tuple(path.removeprefix("/properties/").split("/")) for path in schema.get(key, ())]

    identifier = paths("primaryIdentifier")
    given = [path for path in identifier if path not in paths("readOnlyProperties")]
    return paths("createOnlyProperties"), given if len(given) == len(identifier) else []


def _found(properties: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return properties
    step, rest = path[0], path[1:]
    if step == "*":
        return [_found(each, rest) for each in properties] if isinstance(properties, list) else None
    return _found(properties.get(step), rest) if isinstance(properties, Mapping) else None
