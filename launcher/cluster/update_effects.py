"""What a change of a field can do to a cluster that is deployed, and how a row of the table says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

File = Mapping[str, Any]
"""A cluster file as plain JSON data with all defaults, as `ClusterSpec.model_dump(mode="json")` gives it."""


class Policy(StrEnum):
    """What happens to what is deployed when a field changes, from the lightest to the heaviest."""

    IN_PLACE = "in place"
    """Nothing that runs is hit."""
    IDLE = "needs an idle cluster"
    """Jobs that run would be hit, or jobs that wait would be lost."""
    REPLACES = "replaces a resource"
    """Something without data is deleted and made anew."""
    ANOTHER_CLUSTER = "another cluster"
    """A second cluster would be built, and this one stays as it is."""
    UNKNOWN = "not known"
    """The cluster was deployed with a field that this version does not know."""
    REPLACES_DATA = "replaces data"
    """Something with data in it is deleted or left behind; refused unless asked for."""
    FAILS = "refused by AWS"
    """The deployment would fail and roll back."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one change does, and why."""

    policy: Policy
    reason: str = ""

    @property
    def words(self) -> str:
        """The effect in the documentation."""
        return f"{self.policy.value}: {self.reason}" if self.reason else self.policy.value


@dataclass(frozen=True, slots=True)
class Values:
    """A field before and after, with the whole files around it."""

    before: Any
    after: Any
    deployed: File
    wanted: File


@dataclass(frozen=True, slots=True)
class Decided:
    """An effect that depends on the values; `words` say in the documentation how."""

    words: str
    effect: Callable[[Values], Effect]


@dataclass(frozen=True, slots=True)
class FieldPolicy:
    """The effects of one field; what is added or removed has that of a change unless it says otherwise.

    Added is what the deployed file had not (null, or an empty list or mapping), removed what it alone has.
    """

    changed: Effect | Decided
    added: Effect | Decided | None = None
    removed: Effect | Decided | None = None

    @property
    def words(self) -> str:
        """The row in the documentation."""
        kinds = {"added": self.added, "removed": self.removed}
        own = [f"{kind}: {effect.words}" for kind, effect in kinds.items() if effect is not None]
        if not own:
            return self.changed.words
        return "; ".join([f"changed: {self.changed.words}", *own] if len(own) < len(kinds) else own)


def in_place(reason: str = "") -> Effect:
    """Nothing that runs is hit."""
    return Effect(Policy.IN_PLACE, reason)


def idle(reason: str) -> Effect:
    """Jobs that run, or wait, would be hit."""
    return Effect(Policy.IDLE, reason)


def replaces(reason: str) -> Effect:
    """Something without data is made anew."""
    return Effect(Policy.REPLACES, reason)


def replaces_data(reason: str) -> Effect:
    """Something with data is deleted or left behind."""
    return Effect(Policy.REPLACES_DATA, reason)


def fails(reason: str) -> Effect:
    """AWS refuses it."""
    return Effect(Policy.FAILS, reason)
