"""What CloudFormation knows of a type of resource: how one is made, changed and deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tests.emulator.cloudformation.account import Account

Properties = Mapping[str, Any]


class NotEmulated(Exception):
    """A template asks for what this emulator has no answer to; rather this than a wrong answer."""


class Refused(Exception):
    """The service does not let CloudFormation do this; the message is what its event tells."""


@dataclass(frozen=True)
class Resource:
    """A resource that stands, and what it was made from.

    Attributes:
        physical_id: what `Ref` answers.
        properties: as they were when it was last made or changed, without references.
        attributes: what `Fn::GetAtt` answers.
    """

    physical_id: str
    properties: Properties
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def changed(self, properties: Properties) -> Resource:
        """The same resource with other properties."""
        return replace(self, properties=properties)


class Kind:
    """One type of resource. A subclass is known by its `type` as soon as it is defined."""

    type: ClassVar[str]
    known: ClassVar[dict[str, Kind]] = {}
    deletion: ClassVar[tuple[str, str, str]]
    """The service, its call and the argument that delete one by its physical id."""

    def __init_subclass__(cls) -> None:
        if "type" in vars(cls):
            Kind.known[cls.type] = cls()

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        """Make one; `name` is the one that CloudFormation would choose."""
        raise NotImplementedError

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        """Change one in place. What differs is never a property that only a new resource can have."""
        changed = {
            key for key in {*old.properties, *properties} if old.properties.get(key) != properties.get(key)
        }
        raise NotEmulated(f"{self.type}: a change of {', '.join(sorted(changed))}")

    def delete(self, account: Account, old: Resource) -> None:
        """Delete one."""
        service, call, argument = self.deletion
        ids = [old.physical_id] if argument.endswith("s") else old.physical_id
        getattr(account.client(service), call)(**{argument: ids})

    def also_create_only(self, old: Properties, new: Properties) -> list[str]:
        """Changed properties that only a new resource can have, beyond those that the schema names."""
        return []


class Put(Kind):
    """A type that the same call makes and changes."""

    given: ClassVar[str] = ""
    """The property with the name that a template gives one."""
    arn: ClassVar[tuple[str, str] | None] = None
    """The service of its ARN, and what stands in there before the name."""

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        name = properties.get(self.given, name)
        self.put(account, name, properties)
        service, before = self.arn or ("", "")
        return Resource(name, properties, {"Arn": account.arn(service, before + name)} if service else {})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        self.put(account, old.physical_id, properties)

    def put(self, account: Account, name: str, properties: Properties) -> None:
        """Make one, or change it."""
        raise NotImplementedError


def kind_of(resource_type: str) -> Kind:
    """The kind of a type."""
    try:
        return Kind.known[resource_type]
    except KeyError:
        raise NotEmulated(f"resources of the type {resource_type}") from None


def only(properties: Properties, *names: str) -> dict[str, Any]:
    """The named properties, as far as they are given: many are called in templates as in the API."""
    return {name: properties[name] for name in names if name in properties}


def tags_of(properties: Properties) -> dict[str, str]:
    """Tags, which templates write as a list or as a map."""
    tags = properties.get("Tags") or ()
    return dict(tags) if isinstance(tags, Mapping) else {tag["Key"]: tag["Value"] for tag in tags}


def as_list(tags: Mapping[str, str], key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
    """Tags as the API takes them."""
    return [{key: name, value: content} for name, content in tags.items()]


def tags_gone(old: Resource, properties: Properties) -> list[str]:
    """The keys of tags that an update takes away."""
    return [key for key in tags_of(old.properties) if key not in tags_of(properties)]
