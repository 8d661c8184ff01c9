"""The statements of all policies in a cluster's templates, with references replaced by ARNs of their kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.stacks.synthesis import Synthesized

ACCOUNT, REGION = "111122223333", "us-west-2"

_ARNS = {
    "AWS::Batch::JobQueue": f"arn:aws:batch:{REGION}:{ACCOUNT}:job-queue/NAME",
    "AWS::EC2::SecurityGroup": f"arn:aws:ec2:{REGION}:{ACCOUNT}:security-group/NAME",
    "AWS::EC2::Subnet": f"arn:aws:ec2:{REGION}:{ACCOUNT}:subnet/NAME",
    "AWS::EC2::VPC": f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc/NAME",
    "AWS::IAM::Role": f"arn:aws:iam::{ACCOUNT}:role/NAME",
    "AWS::KMS::Key": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/NAME",
    "AWS::Logs::LogGroup": f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:NAME:*",
    "AWS::S3::Bucket": "arn:aws:s3:::NAME",
    "AWS::SageMaker::Cluster": f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:cluster/NAME",
    "AWS::SNS::Topic": f"arn:aws:sns:{REGION}:{ACCOUNT}:NAME",
    "AWS::SQS::Queue": f"arn:aws:sqs:{REGION}:{ACCOUNT}:NAME",
}
"""What the attribute Arn of a resource is like, by its type."""

_PSEUDO = {"AWS::Partition": "aws", "AWS::AccountId": ACCOUNT, "AWS::Region": REGION, "AWS::URLSuffix": "com"}


@dataclass(frozen=True)
class Statement:
    """One statement; `where` names it in messages, `of_identity` is false in a resource's own policy."""

    where: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    condition_keys: tuple[str, ...]
    of_identity: bool


def statements(cluster: Synthesized) -> Iterator[Statement]:
    """Every statement that a template gives to a role, to a managed policy or to a resource."""
    templates = {part: cluster.template(part) for part in cluster.parts}
    exports = _exports(templates)
    for part, template in templates.items():
        resources = template["Resources"]
        for name, resource in resources.items():
            for document, of_identity in _documents(resource):
                for position, each in enumerate(document["Statement"]):
                    named = each.get("Sid", position)
                    yield Statement(
                        f"{part}: {name}: {named}",
                        _listed(each["Action"]),
                        tuple(_text(arn, resources, exports) for arn in _each(each.get("Resource", "*"))),
                        tuple(key for keys in each.get("Condition", {}).values() for key in keys),
                        of_identity,
                    )


def _documents(resource: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], bool]]:
    properties = resource.get("Properties", {})
    match resource["Type"]:
        case "AWS::IAM::Role":
            for policy in properties.get("Policies", ()):
                yield policy["PolicyDocument"], True
        case "AWS::IAM::ManagedPolicy" | "AWS::IAM::Policy":
            yield properties["PolicyDocument"], True
        case "AWS::KMS::Key":
            yield properties["KeyPolicy"], False
        case _ if isinstance(properties.get("PolicyDocument"), dict):
            yield properties["PolicyDocument"], False


def _exports(templates: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[Any, Mapping[str, Any]]]:
    """The value of each output, by the name of its export or its own, and the resources of its template.

    The names of outputs that other stacks read are made of logical ids, so no two stacks share one.
    """
    return {
        output["Export"]["Name"] if "Export" in output else name: (output["Value"], template["Resources"])
        for template in templates.values()
        for name, output in template.get("Outputs", {}).items()
    }


def _text(value: Any, resources: Mapping[str, Any], exports: Mapping[str, tuple[Any, Any]]) -> str:
    match value:
        case str():
            return value
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(_text(part, resources, exports) for part in parts)
        case {"Fn::ImportValue": name} | {"Fn::GetStackOutput": {"OutputName": name}}:
            exported, of_another = exports[name]
            return _text(exported, of_another, exports)
        case {"Fn::GetAtt": [name, "Arn" | "ClusterArn" | "JobQueueArn"]}:
            return _ARNS[resources[name]["Type"]].replace("NAME", name)
        case {"Ref": name} if name in resources and resources[name]["Type"] == "AWS::SNS::Topic":
            return _ARNS["AWS::SNS::Topic"].replace("NAME", name)
        case {"Ref": name} | {"Fn::GetAtt": [name, _]}:
            return _PSEUDO.get(name, name)
        case {"Fn::Sub": str(text)}:
            for name, replacement in _PSEUDO.items():
                text = text.replace(f"${{{name}}}", replacement)
            return text
    raise ValueError(f"no text is known for {value!r}")


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _listed(value: str | list[str]) -> tuple[str, ...]:
    return tuple(_each(value))
