"""What the people who launch jobs may do: the calls that `launch` makes, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.launcher_jobs import job_permissions, queue_permissions
from constructs.launcher_objects import data_permissions, object_permissions
from constructs.permissions import (
    Permission,
    acknowledge_wildcards,
    bucket_arn,
    key_arn,
    policy_document,
    written_bucket_keys,
)
from constructs.policy_sizes import packed

from launcher.cluster.manifest import manifest_parameter_name
from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.ROLE_INSUFFICIENT,)

_NETWORK = (
    "InstanceTypeOfferings",
    "NetworkAcls",
    "NetworkInterfaces",
    "RouteTables",
    "SecurityGroups",
    "Subnets",
    "VpcEndpoints",
)


class LauncherPolicy(iam.ManagedPolicy):
    """A managed policy to attach to a team's role: submit, follow, stop and diagnose jobs.

    It passes the cluster's execution role to SageMaker and no other role to anyone, so whoever has
    it can do through a job what that role may do, and nothing beyond; jobs of other clusters are out of
    reach. Source: IAM user guide, id_roles_use_passrole; SageMaker API reference, permissions by action.

    What does not fit into one policy goes into further ones beside it, whose ids end in 2, 3 and so on.

    Attributes:
        arns: the ARNs of the policy and of the further ones; all of them are to be attached.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        role: iam.IRole,
        code: s3.IBucket,
        checkpoints: s3.IBucket,
        output: s3.IBucket,
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str],
        data_buckets: Sequence[s3.IBucket] = (),
        encryption_key: kms.IKey | None = None,
        file_system: bool = False,
        queue_arn: str | None = None,
        launchers: Sequence[iam.IRole | str] = (),
        written_with: Sequence[str] = (),
        team: str | None = None,
    ) -> None:
        """Create the policy; attaching it is left to whoever keeps the team's roles.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster_name: names the manifest that may be read.
            role: the execution role of the cluster's jobs, in the same stack.
            code: bucket that the launcher uploads to.
            checkpoints: bucket in which it looks for checkpoints, and copies one to resume from.
            output: bucket in which it looks for what jobs leave.
            subnet_ids: where jobs may run.
            security_group_ids: the groups that their hosts may be in.
            data_buckets: buckets that it looks into before it submits.
            encryption_key: the key of the buckets and volumes, if it is the account's own.
            file_system: whether there is a Lustre file system, which it looks at before it submits.
            queue_arn: the queue that it may submit to, if any.
            launchers: roles, or their ARNs, through which people launch: they may then ask IAM what they
                themselves may do, which users may anyway.
            written_with: ARNs of further keys, of buckets that it writes into.
            team: the team that the policy is for; it can do with its own jobs, whose names begin with the
                team's and a hyphen, what without a team can be done with all.
        """
        stack = cdk.Stack.of(scope)
        own = [bucket_arn(bucket, stack) for bucket in (code, checkpoints, output)]
        permissions = [
            *_cluster(stack, cluster_name),
            *object_permissions(*own, team=team),
            *job_permissions(
                stack,
                cluster_name=cluster_name,
                role_arn=role.role_arn,
                subnet_ids=subnet_ids,
                security_group_ids=security_group_ids,
                team=team,
                queue=queue_arn is not None,
            ),
        ]
        if encryption_key is not None:
            permissions += _key(key_arn(encryption_key, stack))
        if queue_arn is not None:
            permissions += queue_permissions(stack, queue_arn, cluster_name=cluster_name)
        permissions += [
            *written_bucket_keys(written_with),
            *_checks(stack, role.role_arn, file_system=file_system),
            *_oneself(stack, [each if isinstance(each, str) else each.role_arn for each in launchers]),
            *data_permissions([bucket_arn(bucket, stack) for bucket in data_buckets]),
        ]
        first, *others = packed(permissions, stack)
        description = f"Launch training jobs on Slipway cluster {cluster_name}"
        if team is not None:
            description += f" as {team}"
        super().__init__(scope, id, description=description, document=policy_document(first))
        acknowledge_wildcards(self, first)
        self.arns = [self.managed_policy_arn]
        for number, part in enumerate(others, 2):
            other = iam.ManagedPolicy(
                scope,
                f"{id}{number}",
                description=f"{description} ({number})",
                document=policy_document(part),
            )
            acknowledge_wildcards(other, part)
            self.arns.append(other.managed_policy_arn)


def _cluster(stack: cdk.Stack, cluster_name: str) -> list[Permission]:
    name = manifest_parameter_name(cluster_name).lstrip("/")
    return [
        Permission(
            "KnowWhoAsks",
            ["sts:GetCallerIdentity"],
            ["*"],
            "sts:GetCallerIdentity knows no resources.",
        ),
        Permission(
            "ReadManifest",
            ["ssm:GetParameter"],
            [stack.format_arn(service="ssm", resource="parameter", resource_name=name)],
            "The manifest of this cluster.",
        ),
    ]


def _checks(stack: cdk.Stack, role_arn: str, *, file_system: bool) -> list[Permission]:
    permissions = [
        Permission(
            "LookAtTheNetwork",
            [f"ec2:Describe{what}" for what in _NETWORK],
            ["*"],
            "EC2's Describe actions know no resources.",
        ),
        Permission(
            "LookAtTheRole",
            ["iam:GetRole", "iam:SimulatePrincipalPolicy"],
            [role_arn],
            "Whether the role lets a job do what it must.",
        ),
        Permission(
            "LookAtQuotas",
            [
                "servicequotas:GetAWSDefaultServiceQuota",
                "servicequotas:GetServiceQuota",
                "servicequotas:ListAWSDefaultServiceQuotas",
            ],
            ["*"],
            "Quotas of SageMaker are known by codes that differ by instance type.",
        ),
        Permission(
            "LookForImages",
            ["ecr:BatchGetImage", "ecr:DescribeImages"],
            [stack.format_arn(service="ecr", account="*", resource="repository", resource_name="*")],
            "AWS keeps its training images in accounts that differ by region and framework.",
        ),
    ]
    if file_system:
        permissions.append(
            Permission(
                "LookAtTheFileSystem",
                ["fsx:DescribeDataRepositoryAssociations", "fsx:DescribeFileSystems"],
                ["*"],
                "Whether the file system is available, and its links to S3; FSx's Describe actions know no "
                "resources.",
            )
        )
    return permissions


def _oneself(stack: cdk.Stack, role_arns: Sequence[str]) -> list[Permission]:
    """Policies can name the user who asks, `${aws:username}`, but not the role: roles are listed one by one.

    A role's session does not tell the role's path, without which IAM does not know it: iam:GetRole does.
    """
    permissions = [
        Permission(
            "LookAtOneself",
            ["iam:SimulatePrincipalPolicy"],
            [stack.format_arn(service="iam", region="", resource="user", resource_name="${aws:username}")],
            "Whether the user who launches may pass the role.",
        )
    ]
    if role_arns:
        permissions.append(
            Permission(
                "LookAtOnesRole",
                ["iam:GetRole", "iam:SimulatePrincipalPolicy"],
                list(role_arns),
                "Whether the role through which people launch may pass the execution role.",
            )
        )
    return permissions


def _key(arn: str) -> list[Permission]:
    """Source: SageMaker API reference, ResourceConfig (VolumeKmsKeyId: the caller makes the grant)."""
    return [
        Permission(
            "UseKey",
            ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
            [arn],
            "Code is written, and results are read, with the cluster's key.",
        ),
        Permission(
            "LetVolumesUseKey",
            ["kms:CreateGrant"],
            [arn],
            "SageMaker encrypts the hosts' volumes with a grant of who creates the job.",
            {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]
