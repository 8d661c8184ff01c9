"""Write launcher/provisioning/create_only.json: which properties CloudFormation cannot change in place.

From two sources, since neither has all of it: the schemas of the resource providers as cfn-lint has them
(createOnlyProperties), and CloudFormation's resource specification as the CDK command line has it for
`cdk diff` (node_modules/aws-cdk/db.json.gz, causesReplacement), which alone knows what lies inside of a
property, such as a file system's deployment type. Run after an upgrade of either.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError

from tools.generate.generated import ROOT, dated, in_rows

TABLE = ROOT / "launcher" / "provisioning" / "create_only.json"

CDK = ROOT / "node_modules" / "aws-cdk"
REGION = "us-west-2"

TYPES = (
    "AWS::Batch::JobQueue", "AWS::Batch::SchedulingPolicy", "AWS::Batch::ServiceEnvironment",
    "AWS::Budgets::Budget", "AWS::CloudFormation::WaitConditionHandle", "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard", "AWS::EC2::EIP", "AWS::EC2::FlowLog", "AWS::EC2::InternetGateway",
    "AWS::EC2::NatGateway", "AWS::EC2::Route", "AWS::EC2::RouteTable", "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupEgress", "AWS::EC2::SecurityGroupIngress", "AWS::EC2::Subnet",
    "AWS::EC2::SubnetRouteTableAssociation", "AWS::EC2::VPC", "AWS::EC2::VPCCidrBlock",
    "AWS::EC2::VPCEndpoint", "AWS::EC2::VPCGatewayAttachment", "AWS::Events::Rule",
    "AWS::FSx::DataRepositoryAssociation", "AWS::FSx::FileSystem", "AWS::IAM::ManagedPolicy",
    "AWS::IAM::Policy", "AWS::IAM::Role", "AWS::KMS::Alias", "AWS::KMS::Key", "AWS::Lambda::Function",
    "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Permission", "AWS::Logs::LogGroup", "AWS::S3::Bucket",
    "AWS::S3::BucketPolicy", "AWS::SNS::Subscription", "AWS::SNS::Topic", "AWS::SNS::TopicPolicy",
    "AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::SSM::Parameter", "AWS::SageMaker::Cluster",
    "AWS::Scheduler::ScheduleGroup",
)  # fmt: skip
"""The types of the stacks' templates; a test holds that none is missing. Custom resources have a rule of
their own: their function's address is fixed."""


def generated() -> dict[Path, str]:
    """What the table's file should hold now."""
    specification = _specification()
    cdk = json.loads((CDK / "package.json").read_text("utf-8"))["version"]
    source = f"cfn-lint {version('cfn-lint')}, AWS CDK command line {cdk}"
    types = {type_: sorted(create_only(type_, specification)) for type_ in TYPES}
    table = dated(TABLE, source, {"types": types}, shelf_life_days=180, packages=["cfn-lint"])
    return {TABLE: in_rows(table, "types")}


def create_only(type_: str, specification: Mapping[str, Any]) -> set[str]:
    """The properties of a type whose change makes CloudFormation replace it; those inside have slashes."""
    schema = _schema(type_)
    found = {path.removeprefix("/properties/").replace("/*", "") for path in _paths(schema)}
    resource = specification["resources"].get(type_)
    if resource is not None:
        found |= set(_replacing(resource["properties"], specification["types"], "", ()))
    tagging = schema.get("tagging", {})
    if tagging.get("tagUpdatable"):
        # The specification is the older one of the two, and says of some types what was true once.
        found.discard(str(tagging.get("tagProperty", "/properties/Tags")).removeprefix("/properties/"))
    return {path for path in found if not any(path.startswith(f"{other}/") for other in found)}


def _schema(type_: str) -> Mapping[str, Any]:
    try:
        schema: Mapping[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, type_).schema
    except ResourceNotFoundError:
        return {}
    return schema


def _paths(schema: Mapping[str, Any]) -> list[str]:
    return [*schema.get("createOnlyProperties", ()), *schema.get("conditionalCreateOnlyProperties", ())]


def _specification() -> dict[str, Any]:
    schema = json.loads(gzip.decompress((CDK / "db.json.gz").read_bytes()))["schema"]
    return {
        "resources": {each["cloudFormationType"]: each for each in schema["resource"]["entities"]},
        "types": {each["$id"]: each for each in schema["typeDefinition"]["entities"]},
    }


def _replacing(
    properties: Mapping[str, Any], types: Mapping[str, Any], prefix: str, above: tuple[str, ...]
) -> Iterator[str]:
    for name, each in properties.items():
        if each.get("causesReplacement", "no") != "no":
            yield f"{prefix}{name}"
        kind = each["type"]
        while kind["type"] == "array":
            kind = kind["element"]
        if kind["type"] == "ref":
            inner = kind["reference"]["$ref"]
            if inner not in above:
                yield from _replacing(types[inner]["properties"], types, f"{prefix}{name}/", (*above, inner))
