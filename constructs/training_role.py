"""The execution role: what a training job may do, permission by permission, each with its reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.ROLE_INSUFFICIENT,)

_TRAINING_JOBS = "/aws/sagemaker/TrainingJobs"
"""SageMaker's log group and its metrics' namespace (SageMaker developer guide, training-metrics)."""


class TrainingRole(iam.Role):
    """The role that SageMaker takes on to run a job: no managed policy and no wildcard action.

    Source: SageMaker developer guide, sagemaker-roles (CreateTrainingJob API: execution role
    permissions, and those for a VPC).
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        code: s3.IBucket,
        checkpoints: s3.IBucket,
        output: s3.IBucket,
        subnets: Sequence[ec2.ISubnet],
        security_groups: Sequence[ec2.ISecurityGroup],
        file_system_arn: str | None = None,
    ) -> None:
        """Create the role with its permissions inside, so that it is never there without them.

        Args:
            scope: the parent construct.
            id: the construct's id.
            code: bucket that jobs read.
            checkpoints: bucket that jobs read, write and delete from.
            output: bucket that jobs read and write.
            subnets: where jobs may put network interfaces.
            security_groups: what they may attach to them.
            file_system_arn: the Lustre file system that jobs mount, if any.
        """
        stack = cdk.Stack.of(scope)
        permissions = [
            *_objects(*(_arn(bucket, stack) for bucket in (code, checkpoints, output))),
            *_images(stack),
            *_logs_and_metrics(stack),
            *_network_interfaces(stack, subnets, security_groups),
        ]
        if file_system_arn is not None:
            permissions.append(_file_system(file_system_arn))
        super().__init__(
            scope,
            id,
            description="What a training job of this cluster may do",
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com",
                # Keeps SageMaker from using the role on behalf of another account.
                conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
            ),
            inline_policies={
                "TrainingJob": iam.PolicyDocument(statements=[each.statement() for each in permissions])
            },
        )
        for finding, reason in _wildcards(permissions, stack):
            cdk.Validations.of(self).acknowledge(cdk.Acknowledgment(id=finding, reason=reason))


@dataclass(frozen=True, slots=True)
class _Permission:
    """One statement; `reason` says what for, and why its resources cannot be fewer."""

    sid: str
    actions: list[str]
    resources: list[str]
    reason: str
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def statement(self) -> iam.PolicyStatement:
        return iam.PolicyStatement(
            sid=self.sid, actions=self.actions, resources=self.resources, conditions=self.conditions
        )


def _objects(code: str, checkpoints: str, output: str) -> list[_Permission]:
    return [
        _Permission(
            "FindObjects",
            ["s3:ListBucket", "s3:GetBucketLocation"],
            [code, checkpoints, output],
            "Channels are listed before they are read.",
        ),
        _Permission(
            "ReadCode",
            ["s3:GetObject"],
            [f"{code}/*"],
            "Each job reads its own code, under a key that its name decides; none writes it.",
        ),
        _Permission(
            "KeepCheckpoints",
            ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            [f"{checkpoints}/*"],
            "SageMaker mirrors the checkpoint folder, deletions as well, under a key that the job's "
            "name decides.",
        ),
        _Permission(
            "WriteOutput",
            ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
            [f"{output}/*"],
            "Each job writes its output under a key that its name decides, and may read that of others.",
        ),
    ]


def _images(stack: cdk.Stack) -> list[_Permission]:
    return [
        _Permission(
            "LogInToRegistries",
            ["ecr:GetAuthorizationToken"],
            ["*"],
            "ecr:GetAuthorizationToken knows no resources.",
        ),
        _Permission(
            "PullImages",
            ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"],
            [stack.format_arn(service="ecr", account="*", resource="repository", resource_name="*")],
            "AWS keeps its training images in accounts that differ by region and framework; pulling "
            "only, and only what the repository's own policy allows.",
        ),
    ]


def _logs_and_metrics(stack: cdk.Stack) -> list[_Permission]:
    group = stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=_TRAINING_JOBS,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    return [
        _Permission(
            "WriteLogs",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [group, f"{group}:*"],
            "One log group for all training jobs, one stream per host, named after the job.",
        ),
        _Permission(
            "PublishMetrics",
            ["cloudwatch:PutMetricData"],
            ["*"],
            "cloudwatch:PutMetricData knows no resources; the namespace bounds it.",
            {"StringEquals": {"cloudwatch:namespace": _TRAINING_JOBS}},
        ),
    ]


def _network_interfaces(
    stack: cdk.Stack, subnets: Sequence[ec2.ISubnet], security_groups: Sequence[ec2.ISecurityGroup]
) -> list[_Permission]:
    def arn(resource: str, name: str) -> str:
        return stack.format_arn(service="ec2", resource=resource, resource_name=name)

    any_interface = arn("network-interface", "*")
    subnet_arns = [arn("subnet", subnet.subnet_id) for subnet in subnets]
    group_arns = [arn("security-group", group.security_group_id) for group in security_groups]
    return [
        _Permission(
            "CreateInterfaces",
            ["ec2:CreateNetworkInterface"],
            [any_interface, *subnet_arns, *group_arns],
            "Every host gets interfaces, whose ids are not known before, in the cluster's subnets.",
        ),
        _Permission(
            "AttachInterfaces",
            ["ec2:CreateNetworkInterfacePermission"],
            [any_interface],
            "The hosts that the interfaces are attached to belong to SageMaker's account.",
            {"ArnEquals": {"ec2:Subnet": subnet_arns}},
        ),
        _Permission(
            "RemoveInterfaces",
            ["ec2:DeleteNetworkInterface"],
            [any_interface],
            "The interfaces of a job go with it.",
        ),
        _Permission(
            "LookAtTheNetwork",
            [
                "ec2:DeleteNetworkInterfacePermission",
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            ["*"],
            "EC2's Describe actions and the taking back of an interface permission know no resources.",
        ),
    ]


def _file_system(arn: str) -> _Permission:
    return _Permission(
        "FindFileSystem",
        ["fsx:DescribeFileSystems"],
        [arn],
        "SageMaker looks up the mount name and the state before it mounts.",
    )


def _arn(bucket: s3.IBucket, stack: cdk.Stack) -> str:
    """The bucket's ARN, exported by hand where it is another stack's.

    An automatic export has no name before synthesis, and cdk-nag's finding ids hold that name.
    """
    owner = cdk.Stack.of(bucket)
    if owner.node.path == stack.node.path:
        return bucket.bucket_arn
    stack.add_stack_dependency(owner)
    return owner.export_value(bucket.bucket_arn)


def _wildcards(permissions: Sequence[_Permission], stack: cdk.Stack) -> Iterator[tuple[str, str]]:
    """The ids of the findings that cdk-nag makes of the wildcards, each with its reasons."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for permission in permissions:
        for resource in permission.resources:
            written = _as_cdk_nag_writes_it(stack.resolve(resource))
            if "*" in written:
                reasons[written].append(f"{permission.sid}: {permission.reason}")
    for written, texts in reasons.items():
        yield f"AwsSolutions-IAM5[Resource::{written}]", " ".join(texts)


def _as_cdk_nag_writes_it(value: Any) -> str:
    """A resolved template value as cdk-nag's flattenCfnReference renders it."""
    match value:
        case str():
            return value
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(_as_cdk_nag_writes_it, parts))
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Fn::ImportValue": name}:
            return _as_cdk_nag_writes_it(name)
        case {"Ref": name}:
            return f"<{name}>"
    raise ValueError(f"cdk-nag's name for {value!r} is not known")
