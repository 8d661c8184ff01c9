"""What a synthesized app would provision, as tables: `python -m stacks.summary cdk.out`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from launcher.cluster.files import is_kept, read_templates

Properties = dict[str, Any]
TemplateBody = dict[str, Any]

OTHERS = "others"
"""The kind of the row that only counts."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of resource in one stack, with a line of detail for each of them."""

    kind: str
    details: tuple[str, ...]


def main(arguments: list[str]) -> int:
    """Print the summary of the folder that the one argument names; 2 if there is nothing to read."""
    folder = Path(arguments[0] if arguments else "cdk.out")
    try:
        templates = [each for each in read_templates(folder) if each[1].get("Resources")]
    except (OSError, ValueError, KeyError) as error:
        print(f"{folder} holds no synthesized app ({error}); run `cdk synth` first", file=sys.stderr)
        return 2
    console = Console()
    for stack, template in templates:
        console.print(_table(stack, template))
    return 0


def rows(template: TemplateBody) -> list[Row]:
    """The resources that matter to a reader, grouped by kind, and the number of all others."""
    found: dict[str, list[str]] = {type_: [] for type_ in _KINDS}
    others = 0
    for name, resource in template.get("Resources", {}).items():
        type_ = resource["Type"]
        if type_ in _KINDS:
            found[type_].append(_detail(name, resource))
        else:
            others += 1
    listed = [Row(_KINDS[type_][0], tuple(details)) for type_, details in found.items() if details]
    return [*listed, Row(OTHERS, (str(others),))] if others else listed


def _detail(name: str, resource: dict[str, Any]) -> str:
    text = _KINDS[resource["Type"]][1](resource.get("Properties", {}))
    if resource["Type"] in _NAMED:
        text = ": ".join(part for part in (_part_of_the_app(name, resource), text) if part)
    if resource["Type"] in _HOLDING_DATA:
        kept = is_kept(resource)
        text += " (outlives the stack)" if kept else " (deleted with the stack)"
    return text


def _table(stack: str, template: TemplateBody) -> Table:
    table = Table(title=stack, title_justify="left", title_style="bold", expand=False)
    table.add_column("resource")
    table.add_column("count", justify="right")
    table.add_column("detail", overflow="fold")
    for row in rows(template):
        if row.kind == OTHERS:
            table.add_row(OTHERS, *row.details, "routes, policies and the like", style="dim")
        else:
            table.add_row(row.kind, str(len(row.details)), "\n".join(dict.fromkeys(row.details)))
    return table


def _subnet(properties: Properties) -> str:
    tags = {tag["Key"]: tag["Value"] for tag in properties.get("Tags", ())}
    kind = tags.get("aws-cdk:subnet-type", "").lower()
    zone = properties.get("AvailabilityZone") or properties["AvailabilityZoneId"]
    return f"{properties['CidrBlock']} in {zone} {kind}".rstrip()


def _rule(direction: str, group: str) -> Callable[[Properties], str]:
    def describe(properties: Properties) -> str:
        if properties["IpProtocol"] == "-1":
            traffic = "all traffic"
        else:
            ports = dict.fromkeys([properties["FromPort"], properties["ToPort"]])
            traffic = f"{properties['IpProtocol'].upper()} {'-'.join(map(str, ports))}"
        if "CidrIp" in properties:
            peer = f"any address ({properties['CidrIp']})"
        elif "DestinationPrefixListId" in properties:
            peer = f"prefix list {properties['DestinationPrefixListId']}"
        else:
            peer = "itself" if properties[group] == properties["GroupId"] else "another group"
        return f"{traffic} {direction} {peer}: {properties.get('Description', '')}".rstrip(": ")

    return describe


def _file_system(properties: Properties) -> str:
    lustre = properties["LustreConfiguration"]
    throughput, tiered = lustre.get("PerUnitStorageThroughput"), lustre.get("ThroughputCapacity")
    return ", ".join(
        [
            f"Lustre {lustre['DeploymentType']}",
            f"Intelligent-Tiering, {tiered} MB/s" if tiered else f"{properties['StorageCapacity']} GiB",
            *([f"{throughput} MB/s per TiB"] if throughput else []),
            f"compression {lustre['DataCompressionType']}",
        ]
    )


def _hyperpod(properties: Properties) -> str:
    groups = properties["InstanceGroups"]
    return ", ".join(f"{each['InstanceCount']} {each['InstanceType']}" for each in groups)


def _association(properties: Properties) -> str:
    place = properties["DataRepositoryPath"]
    if isinstance(place, dict):
        place = "a bucket of the cluster"
    return f"{properties['FileSystemPath']} mirrors {place}"


def _function(properties: Properties) -> str:
    """Its description, which those of the CDK's own do not all have, and the Python or Node that runs it."""
    return ", ".join(filter(None, [properties.get("Description"), properties["Runtime"]]))


def _budget(properties: Properties) -> str:
    limit = properties["Budget"]["BudgetLimit"]
    return f"{limit['Amount']} {limit['Unit']} per month"


def _role(properties: Properties) -> str:
    return f"for {properties['AssumeRolePolicyDocument']['Statement'][0]['Principal']['Service']}"


def _endpoint(properties: Properties) -> str:
    service = properties["ServiceName"]
    parts = service["Fn::Join"][1] if isinstance(service, dict) else [service]
    name = "".join(part for part in parts if isinstance(part, str)).removeprefix("com.amazonaws.").lstrip(".")
    return f"{properties.get('VpcEndpointType', 'Gateway').lower()} to {name}"


def _part_of_the_app(name: str, resource: dict[str, Any]) -> str:
    """The construct's path below its stack, which the CDK command line writes into the template."""
    path = resource.get("Metadata", {}).get("aws:cdk:path", name)
    return "/".join(part for part in path.split("/")[1:] if part != "Resource") or name


_KINDS: dict[str, tuple[str, Callable[[Properties], str]]] = {
    "AWS::EC2::VPC": ("VPC", lambda properties: properties["CidrBlock"]),
    "AWS::EC2::Subnet": ("subnet", _subnet),
    "AWS::EC2::NatGateway": ("NAT gateway", lambda _: ""),
    "AWS::EC2::VPCEndpoint": ("endpoint", _endpoint),
    "AWS::EC2::FlowLog": ("flow log", lambda properties: f"{properties['TrafficType']} traffic"),
    "AWS::EC2::SecurityGroup": ("security group", lambda properties: properties["GroupDescription"]),
    "AWS::EC2::SecurityGroupIngress": ("ingress rule", _rule("from", "SourceSecurityGroupId")),
    "AWS::EC2::SecurityGroupEgress": ("egress rule", _rule("to", "DestinationSecurityGroupId")),
    "AWS::KMS::Key": ("key", lambda properties: properties.get("Description", "")),
    "AWS::FSx::FileSystem": ("file system", _file_system),
    "AWS::FSx::DataRepositoryAssociation": ("association", _association),
    "AWS::S3::Bucket": ("bucket", lambda _: ""),
    "AWS::IAM::Role": ("role", _role),
    "AWS::IAM::ManagedPolicy": ("policy", lambda properties: properties.get("Description", "")),
    "AWS::SageMaker::Cluster": ("HyperPod", _hyperpod),
    "AWS::Batch::JobQueue": ("queue", lambda properties: properties["JobQueueType"]),
    "AWS::Events::Rule": ("event rule", lambda properties: properties["Description"]),
    "AWS::SQS::Queue": ("event queue", lambda _: ""),
    "AWS::Lambda::Function": ("function", _function),
    "AWS::Scheduler::ScheduleGroup": ("schedules", lambda properties: properties["Name"]),
    "AWS::SNS::Topic": ("topic", lambda _: ""),
    "AWS::CloudWatch::Alarm": ("alarm", lambda properties: properties["AlarmDescription"]),
    "AWS::CloudWatch::Dashboard": ("dashboard", lambda properties: properties["DashboardName"]),
    "AWS::Budgets::Budget": ("budget", _budget),
    "AWS::SSM::Parameter": ("parameter", lambda properties: properties["Name"]),
}
"""The resource types that are listed, in this order, with how one of each is described."""

_NAMED = frozenset(
    {
        "AWS::CloudWatch::Alarm",
        "AWS::EC2::NatGateway",
        "AWS::EC2::SecurityGroup",
        "AWS::IAM::ManagedPolicy",
        "AWS::IAM::Role",
        "AWS::Lambda::Function",
        "AWS::KMS::Key",
        "AWS::S3::Bucket",
        "AWS::SQS::Queue",
    }
)
_HOLDING_DATA = frozenset({"AWS::FSx::FileSystem", "AWS::KMS::Key", "AWS::S3::Bucket"})


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
