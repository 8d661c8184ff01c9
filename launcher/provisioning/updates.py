"""What an update does: the templates that are deployed against those that are wanted, as CloudFormation
compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from ipaddress import IPv4Network
from typing import Any, Final

from launcher.cluster.files import (
    Resource,
    Template,
    as_answered,
    exports,
    is_kept,
    is_kept_when_replaced,
    outputs,
    place,
    references,
    resources,
    without_names_of_outputs,
)
from launcher.cluster.lustre import overlapping_paths
from launcher.facts import read_data_file
from launcher.frozen import frozen


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


@frozen
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


@frozen
class BlockedExport:
    """An export that CloudFormation does not let go or change, as deployed stacks import it."""

    name: str
    removed: bool
    importers: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The export in the shape that `--output json` prints."""
        return {"name": self.name, "removed": self.removed, "importers": list(self.importers)}


@frozen
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


_NAMES: Final[Mapping[str, str]] = {
    "AWS::Batch::JobQueue": "JobQueueName",
    "AWS::Batch::SchedulingPolicy": "Name",
    "AWS::Batch::ServiceEnvironment": "ServiceEnvironmentName",
    "AWS::Budgets::Budget": "Budget/BudgetName",
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::CloudWatch::Dashboard": "DashboardName",
    "AWS::EC2::SecurityGroup": "GroupName",
    "AWS::Events::Rule": "Name",
    "AWS::IAM::ManagedPolicy": "ManagedPolicyName",
    "AWS::IAM::Role": "RoleName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SSM::Parameter": "Name",
    "AWS::SageMaker::Cluster": "ClusterName",
}
"""The property by which two resources of a type cannot both be there."""

_ONE_AT_A_TIME: Final[Mapping[str, str]] = {
    "AWS::EC2::NatGateway": "AllocationId",
    "AWS::EC2::VPCGatewayAttachment": "InternetGatewayId",
}
"""The property whose value EC2 lets one resource of a type have at a time."""

_SUBNET: Final = "AWS::EC2::Subnet"
_LINK: Final = "AWS::FSx::DataRepositoryAssociation"


def collisions(old: Template, new: Template, fates: Mapping[str, Fate]) -> tuple[str, ...]:
    """A sentence for each name, range of addresses or folder that a new resource finds taken.

    `fates` are those of the resources that change, by their logical ids.
    """
    made = [each for each, fate in fates.items() if fate in (Fate.ADDED, Fate.REPLACED)]
    return (
        *_names(old, new, made),
        *_subnets(old, new, made, fates),
        *_links(old, new, made, fates),
        *_attachments(old, new, fates),
    )


def _attachments(old: Template, new: Template, fates: Mapping[str, Fate]) -> Iterator[str]:
    """What one resource at a time can have: an address, an internet gateway."""
    for logical_id, fate in fates.items():
        resource = resources(new).get(logical_id)
        name = _ONE_AT_A_TIME.get(resource["Type"]) if resource else None
        if resource is None or name is None or fate is not Fate.REPLACED:
            continue
        value = (resource.get("Properties") or {}).get(name)
        there = (resources(old)[logical_id].get("Properties") or {}).get(name)
        anew = any(fates.get(each) in (Fate.REPLACED, Fate.ADDED) for each in references(value).resources)
        if value is not None and value == there and not anew:
            yield (
                f"{place(logical_id, resource)} is to be made anew with the {name} that the old one still "
                "has then"
            )


def _names(old: Template, new: Template, made: list[str]) -> Iterator[str]:
    for logical_id in made:
        resource = resources(new)[logical_id]
        name = _name(resource)
        for other, taken in resources(old).items():
            if name is not None and taken["Type"] == resource["Type"] and _name(taken) == name:
                shown = name if isinstance(name, str) else "of its parts"
                yield (
                    f"{place(logical_id, resource)} is to be made anew under the name {shown}, "
                    f"which {place(other, taken)} still has then"
                )


def _name(resource: Mapping[str, Any]) -> Any:
    path = _NAMES.get(resource["Type"])
    found = values_at(resource.get("Properties") or {}, path) if path else []
    return found[0] if found else None


def _subnets(old: Template, new: Template, made: list[str], fates: Mapping[str, Fate]) -> Iterator[str]:
    for logical_id, resource, properties in _of_type(new, made, _SUBNET):
        network = properties.get("VpcId")
        if any(fates.get(each) in (Fate.REPLACED, Fate.ADDED) for each in references(network).resources):
            continue
        for other, taken, there in _of_type(old, list(resources(old)), _SUBNET):
            ranges = properties.get("CidrBlock"), there.get("CidrBlock")
            if there.get("VpcId") == network and all(isinstance(each, str) for each in ranges):
                mine, theirs = (IPv4Network(str(each)) for each in ranges)
                if mine.overlaps(theirs):
                    yield (
                        f"the addresses {mine} of {place(logical_id, resource)} overlap with {theirs} of "
                        f"{place(other, taken)}, which is still there then"
                    )


def _links(old: Template, new: Template, made: list[str], fates: Mapping[str, Fate]) -> Iterator[str]:
    for logical_id, resource, properties in _of_type(new, made, _LINK):
        file_system = properties.get("FileSystemId")
        if any(each in fates and fates[each] != Fate.CHANGED for each in references(file_system).resources):
            continue
        for other, taken, there in _of_type(old, list(resources(old)), _LINK):
            if there.get("FileSystemId") != file_system:
                continue
            paths = [str(each.get("FileSystemPath")) for each in (properties, there)]
            places = [str(each.get("DataRepositoryPath")).rstrip("/") for each in (properties, there)]
            if overlapping_paths(paths):
                yield (
                    f"the folder {paths[0]} of {place(logical_id, resource)} overlaps with {paths[1]} of "
                    f"{place(other, taken)}, which is still there then"
                )
            elif places[0] == places[1]:
                # FSx API reference, CreateDataRepositoryAssociation: a unique bucket or prefix.
                yield (
                    f"{places[0]}, to which {place(logical_id, resource)} is to lead, is linked to the "
                    f"folder {paths[1]} until {place(other, taken)} is gone"
                )


def _of_type(
    template: Template, logical_ids: list[str], type_: str
) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    for logical_id in logical_ids:
        resource = resources(template)[logical_id]
        if resource["Type"] == type_:
            yield logical_id, resource, resource.get("Properties") or {}


_DATA: Final = frozenset({"AWS::FSx::FileSystem", "AWS::S3::Bucket", "AWS::Logs::LogGroup"})
_KEY: Final = "AWS::KMS::Key"
_COMPARED: Final = ("DeletionPolicy", "UpdateReplacePolicy")


def compare(deployed: Mapping[str, Template], wanted: Mapping[str, Template]) -> tuple[StackChange, ...]:
    """What an update does to each stack, in the order of deployment; orphaned stacks come last.

    Both are by the names of the stacks; `wanted` is in the order of deployment.
    """
    update = _Update(deployed, dict(deployed))
    done = [update.deploy(name, as_answered(template)) for name, template in wanted.items()]
    orphans = (StackChange(name, StackFate.ORPHANED) for name in deployed if name not in wanted)
    return (*done, *orphans)


@dataclass(slots=True)
class _Update:
    """The templates as they stood, as they stand while one stack after the other is updated, and what has
    changed so far."""

    deployed: Mapping[str, Template]
    live: dict[str, Template]
    changed_exports: set[str] = field(default_factory=set)
    changed_outputs: set[tuple[str, str]] = field(default_factory=set)

    def deploy(self, name: str, new: Template) -> StackChange:
        old = self.live.get(name)
        if old is None:
            if not resources(new):
                return StackChange(name, StackFate.UNCHANGED)
            self.live[name] = new
            added = tuple(_gone_or_new(new, each, Fate.ADDED) for each in resources(new))
            return StackChange(name, StackFate.NEW, added)
        changes = self._resources(old, new)
        replaced = {each.logical_id for each in changes if each.fate is Fate.REPLACED}
        blocked = self._exports(name, old, new, replaced)
        taken = collisions(old, new, {each.logical_id: each.fate for each in changes})
        if resources(new):
            self.live[name] = new
            fate = StackFate.UPDATED if changes or blocked else StackFate.UNCHANGED
        else:
            del self.live[name]
            fate = StackFate.DELETED
        return StackChange(name, fate, changes, blocked, taken)

    def _resources(self, old: Template, new: Template) -> tuple[ResourceChange, ...]:
        before, after = resources(old), resources(new)
        both = [each for each in after if each in before]
        forced: dict[str, tuple[str, ...]] = {}
        while True:
            # Each turn may replace what refers to that which the last one replaced.
            more = {
                each: why
                for each in both
                if each not in forced and (why := self._forced(before[each], after[each], forced.keys()))
            }
            if not more:
                break
            forced |= more
        changes = []
        for each in both:
            if each in forced:
                changes.append(_replaced(old, new, each, forced[each]))
            elif differing := self._differing(before[each], after[each], forced.keys()):
                held = _holds_data(old, each)
                where = place(each, after[each])
                type_ = str(after[each]["Type"])
                changes.append(ResourceChange(each, type_, where, Fate.CHANGED, differing, held))
        changes += [_gone_or_new(new, each, Fate.ADDED) for each in after if each not in before]
        for each in before:
            if each not in after:
                fate = Fate.KEPT if is_kept(before[each]) else Fate.DELETED
                changes.append(_gone_or_new(old, each, fate))
        return tuple(changes)

    def _forced(self, old: Resource, new: Resource, replaced: Any) -> tuple[str, ...]:
        """The properties that make CloudFormation replace a resource."""
        if old["Type"] != new["Type"]:
            return ("Type",)
        before, after = old.get("Properties") or {}, new.get("Properties") or {}
        found = []
        for path in create_only(new["Type"]) or ():
            values = values_at(after, path)
            if values_at(before, path) != values or self._stale(values, replaced):
                found.append(path)
        return tuple(found)

    def _differing(self, old: Resource, new: Resource, replaced: Any) -> tuple[str, ...]:
        """The properties that differ, or that refer to what is replaced."""
        before, after = old.get("Properties") or {}, new.get("Properties") or {}
        # An output under another name that holds the same as before is no change.
        held_before = without_names_of_outputs(before, self.deployed)
        held_after = without_names_of_outputs(after, self.live)
        names = [
            name
            for name in {**before, **after}
            if held_before.get(name) != held_after.get(name) or self._stale(after.get(name), replaced)
        ]
        return (*names, *(name for name in _COMPARED if old.get(name) != new.get(name)))

    def _stale(self, value: Any, replaced: Any) -> bool:
        """Whether a value refers to something that is another one after the update."""
        found = references(value)
        return bool(
            found.resources & set(replaced)
            or found.exports & self.changed_exports
            or found.outputs & self.changed_outputs
        )

    def _exports(
        self, name: str, old: Template, new: Template, replaced: set[str]
    ) -> tuple[BlockedExport, ...]:
        """The exports that go or change while others import them; notes those that change."""
        before, after = exports(old), exports(new)
        gone = before.keys() - after.keys() if resources(new) else before.keys()
        changed = {
            each
            for each in before.keys() & after.keys()
            if before[each] != after[each] or self._stale(after[each], replaced)
        }
        old_outputs, new_outputs = outputs(old), outputs(new)
        self.changed_outputs |= {
            (name, each)
            for each, value in new_outputs.items()
            if old_outputs.get(each, value) != value or self._stale(value, replaced)
        }
        blocked = []
        for each in before:
            importers = self._importers(each, name)
            if importers and (each in gone or each in changed):
                blocked.append(BlockedExport(each, each in gone, importers))
        self.changed_exports |= changed
        return tuple(blocked)

    def _importers(self, export: str, exporter: str) -> tuple[str, ...]:
        return tuple(
            name
            for name, template in self.live.items()
            if name != exporter and export in references(template).exports
        )


def _replaced(old: Template, new: Template, logical_id: str, why: tuple[str, ...]) -> ResourceChange:
    before, after = resources(old)[logical_id], resources(new)[logical_id]
    # CloudFormation does not document which of the two templates decides: both must keep it.
    stays = is_kept_when_replaced(before) and is_kept_when_replaced(after)
    where = place(logical_id, after)
    held = _holds_data(old, logical_id)
    return ResourceChange(logical_id, str(before["Type"]), where, Fate.REPLACED, why, held, stays)


def _gone_or_new(template: Template, logical_id: str, fate: Fate) -> ResourceChange:
    resource = resources(template)[logical_id]
    held = _holds_data(template, logical_id)
    return ResourceChange(logical_id, str(resource["Type"]), place(logical_id, resource), fate, (), held)


def _holds_data(template: Template, logical_id: str) -> bool:
    """Whether a resource has data in it, or is the key without which other resources' data cannot be read."""
    type_ = resources(template)[logical_id]["Type"]
    if type_ != _KEY:
        return type_ in _DATA
    encrypted = [each.get("Properties") for each in resources(template).values() if each["Type"] in _DATA]
    return logical_id in references([encrypted, list(exports(template).values())]).resources


_SUBNET_TYPE = "AWS::EC2::Subnet"
_NAME = re.compile(r".*/Network/Vpc/(?P<kind>training|nat)Subnet(?P<zone>\d+)")
_FIELDS = {"training": "cidr", "nat": "nat_cidr"}


def ranges_to_keep(network: Template, change: StackChange) -> str | None:
    """`vpc.subnets` that keeps the subnets of a deployed network, where the update would move them.

    `network` is the deployed template, `change` what would become of its stack. None where no subnet moves,
    or where the network is not one that this app made.
    """
    moves = any(
        each.type == _SUBNET_TYPE and each.fate is Fate.REPLACED and "CidrBlock" in each.properties
        for each in change.resources
    )
    zones: dict[int, dict[str, str]] = {}
    for resource in resources(network).values():
        found = _NAME.fullmatch(_tags(resource).get("Name", "")) if resource["Type"] == _SUBNET_TYPE else None
        if found is not None:
            ranges = zones.setdefault(int(found["zone"]), {})
            ranges[_FIELDS[found["kind"]]] = str(resource["Properties"]["CidrBlock"])
    if not moves or not zones or any("cidr" not in ranges for ranges in zones.values()):
        return None
    entries = (
        ", ".join(f"{field}: {zones[zone][field]}" for field in _FIELDS.values() if field in zones[zone])
        for zone in sorted(zones)
    )
    return f"subnets: [{', '.join(f'{{{entry}}}' for entry in entries)}]"


def _tags(resource: Resource) -> Mapping[str, str]:
    """The tags by their keys; the CDK names each subnet by its place in the app."""
    return {str(tag["Key"]): str(tag["Value"]) for tag in resource.get("Properties", {}).get("Tags", ())}
