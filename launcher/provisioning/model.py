"""What an update does, as plain data: to each resource, to each stack, and what stands in its way."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Fate(StrEnum):
    """What becomes of a resource."""

    ADDED = "added"
    CHANGED = "changed"
    REPLACED = "replaced"
    DELETED = "deleted"
    KEPT = "kept"
    """It leaves the stack and stays in the account, as its DeletionPolicy asks for."""


class StackFate(StrEnum):
    """What becomes of a stack."""

    NEW = "new"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    """Nothing is left in it; the CDK command line deletes such a stack."""
    ORPHANED = "orphaned"
    """The app no longer has it: nothing updates or deletes it any more."""


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """One resource: its logical id, its type, its place in the app, and what becomes of it.

    `properties` are those that differ, or, of a resource that is replaced, those that force it. `old_stays`
    tells of one that is replaced whether the old one stays in the account.
    """

    logical_id: str
    type: str
    place: str
    fate: Fate
    properties: tuple[str, ...] = ()
    holds_data: bool = False
    old_stays: bool = False

    @property
    def loses_data(self) -> bool:
        """Whether data are deleted, or left behind while an empty resource takes their place."""
        return self.holds_data and self.fate in (Fate.REPLACED, Fate.DELETED)

    def to_json(self) -> dict[str, Any]:
        """The change in the shape that `--output json` prints."""
        return {
            "logical_id": self.logical_id,
            "type": self.type,
            "place": self.place,
            "fate": self.fate.value,
            "properties": list(self.properties),
            "holds_data": self.holds_data,
            "old_stays": self.old_stays,
        }


@dataclass(frozen=True, slots=True)
class BlockedExport:
    """An export that CloudFormation does not let go or change, as deployed stacks import it."""

    name: str
    removed: bool
    importers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The export in the shape that `--output json` prints."""
        return {"name": self.name, "removed": self.removed, "importers": list(self.importers)}


@dataclass(frozen=True, slots=True)
class StackChange:
    """One stack: what becomes of it and of its resources, and what makes its update fail."""

    name: str
    fate: StackFate
    resources: tuple[ResourceChange, ...] = ()
    blocked: tuple[BlockedExport, ...] = ()
    collisions: tuple[str, ...] = ()
    """Sentences on names and addresses that are still taken when a new resource needs them."""

    @property
    def fails(self) -> bool:
        """Whether CloudFormation would refuse the update and roll it back."""
        return bool(self.blocked or self.collisions)

    def to_json(self) -> dict[str, Any]:
        """The stack in the shape that `--output json` prints."""
        return {
            "name": self.name,
            "fate": self.fate.value,
            "resources": [each.to_json() for each in self.resources],
            "blocked_exports": [each.to_json() for each in self.blocked],
            "collisions": list(self.collisions),
        }
