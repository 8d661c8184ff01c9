"""How the resources of a template are put into words, for the picture of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Properties = Mapping[str, Any]
Key = tuple[str, str]
"""A resource's stack and logical id."""


@dataclass(frozen=True, slots=True)
class DrawnResource:
    """A resource of a template, with the place of the construct that it is drawn in."""

    key: Key
    type: str
    properties: Properties
    box: str
    kept: bool


Words = Callable[[Properties, Sequence[DrawnResource]], Iterator[str]]


def in_words(resource: DrawnResource, box: Sequence[DrawnResource]) -> list[str]:
    """What the picture says of a resource: lines that the resources of one box may share; none of most types.

    Args:
        resource: the resource.
        box: all resources of its construct.
    """
    words = _WORDS.get(resource.type)
    return [line for line in words(resource.properties, box) if line] if words else []


def _subnet(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    tags = {tag["Key"]: tag["Value"] for tag in properties["Tags"]}
    zone = properties.get("AvailabilityZone") or properties.get("AvailabilityZoneId")
    if tags.get("aws-cdk:subnet-type") != "Public":
        yield f"private subnet {properties['CidrBlock']}, {zone}"


def _endpoint(properties: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    if properties.get("VpcEndpointType") == "Interface":
        kinds = [each.properties.get("VpcEndpointType") for each in box]
        yield f"interface endpoints to {kinds.count('Interface')} services"
    else:
        yield "gateway endpoint to S3"


def _rule(way: str, peer: str) -> Words:
    preposition = {"in": "from", "out": "to"}[way]

    def describe(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
        if "CidrIp" in properties:
            yield f"{way}: {_traffic(properties)} {preposition} {properties['CidrIp']}"
        elif properties["IpProtocol"] == "-1" and properties.get(peer) == properties["GroupId"]:
            yield f"{way}: {_traffic(properties)} {preposition} itself"

    return describe


def _file_system(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    lustre = properties["LustreConfiguration"]
    throughput = lustre.get("PerUnitStorageThroughput")
    if "ThroughputCapacity" in lustre:
        yield f"Lustre on Intelligent-Tiering, {lustre['ThroughputCapacity']:,} MB/s"
        return
    yield f"Lustre {lustre['DeploymentType']}, {properties['StorageCapacity']:,} GiB"
    if throughput:
        yield f"{throughput} MB/s per TiB"


def _bucket(_: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    logged = [each.properties.get("LoggingConfiguration") for each in box if each.type == "AWS::S3::Bucket"]
    names = [logging["LogFilePrefix"].rstrip("/") for logging in logged if logging]
    yield f"buckets: {', '.join([*names, 'access logs'])}"


def _role(properties: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    if len(box) == 1:  # else one of the helpers that other resources need
        yield f"taken on by {properties['AssumeRolePolicyDocument']['Statement'][0]['Principal']['Service']}"


def _event(properties: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    states = [
        state
        for each in box
        if each.type == "AWS::Events::Rule"
        for state in each.properties["EventPattern"]["detail"]["TrainingJobStatus"]
    ]
    yield f"tells of jobs: {', '.join(states)}"


def _alarm(_: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    yield f"alarms: {sum(each.type == 'AWS::CloudWatch::Alarm' for each in box)}"


def _batch(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    limits = ", ".join(str(limit["MaxCapacity"]) for limit in properties["CapacityLimits"])
    yield f"AWS Batch, up to {limits} hosts"


def _shares(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    shares = properties["FairsharePolicy"]["ShareDistribution"]
    yield f"shares: {', '.join(share['ShareIdentifier'] for share in shares)}"


def _says(*lines: str) -> Words:
    return lambda _, __: iter(lines)


def _traffic(properties: Properties) -> str:
    return "all traffic" if properties["IpProtocol"] == "-1" else " ".join(ports(properties))


def ports(properties: Properties) -> list[str]:
    """The ports of a security group's rule, such as TCP 1018-1023; none where it is for all."""
    if "FromPort" not in properties:
        return []
    first, last = properties["FromPort"], properties["ToPort"]
    return [f"{properties['IpProtocol'].upper()} {first if first == last else f'{first}-{last}'}"]


_WORDS: dict[str, Words] = {
    "AWS::EC2::VPC": lambda properties, _: iter([f"VPC {properties['CidrBlock']}"]),
    "AWS::EC2::Subnet": _subnet,
    "AWS::EC2::NatGateway": _says("NAT gateway"),
    "AWS::EC2::VPCEndpoint": _endpoint,
    "AWS::Logs::LogGroup": _says("log of refused traffic"),
    "AWS::EC2::SecurityGroupIngress": _rule("in", "SourceSecurityGroupId"),
    "AWS::EC2::SecurityGroupEgress": _rule("out", "DestinationSecurityGroupId"),
    "AWS::FSx::FileSystem": _file_system,
    "AWS::FSx::DataRepositoryAssociation": lambda properties, _: iter(
        [f"{properties['FileSystemPath']} mirrors {properties['DataRepositoryPath']}"]
    ),
    "AWS::S3::Bucket": _bucket,
    "AWS::KMS::Key": _says("KMS key"),
    "AWS::IAM::Role": _role,
    "AWS::IAM::ManagedPolicy": _says("what those who launch may do"),
    "AWS::Batch::ServiceEnvironment": _batch,
    "AWS::Batch::SchedulingPolicy": _shares,
    "AWS::SNS::Topic": _says("SNS topic"),
    "AWS::Events::Rule": _event,
    "AWS::CloudWatch::Alarm": _alarm,
    "AWS::CloudWatch::Dashboard": _says("dashboard"),
    "AWS::Budgets::Budget": _says("monthly budget"),
    "AWS::SSM::Parameter": lambda properties, _: iter([f"parameter {properties['Name']}"]),
}
"""The resource types that are told, with how one of each is put into words."""
