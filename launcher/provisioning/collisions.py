"""What is still taken when CloudFormation makes a new resource: it deletes old ones last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any, Final

from launcher.cluster.lustre import overlapping_paths
from launcher.cluster.templates import Template, place, references, resources
from launcher.provisioning.create_only import values_at
from launcher.provisioning.model import Fate

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
                yield (
                    f"{place(logical_id, resource)} is to be made anew under the name {_shown(name)}, "
                    f"which {place(other, taken)} still has then"
                )


def _name(resource: Mapping[str, Any]) -> Any:
    path = _NAMES.get(resource["Type"])
    found = values_at(resource.get("Properties") or {}, path) if path else []
    return found[0] if found else None


def _shown(name: Any) -> str:
    return name if isinstance(name, str) else "of its parts"


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
