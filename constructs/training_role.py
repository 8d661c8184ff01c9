"""The execution role: what a training job may do, permission by permission, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.permissions import (
    INLINE_POLICIES_SIZE,
    Permission,
    acknowledge_wildcards,
    add_further_policies,
    bucket_arn,
    in_chunks,
    key_arn,
    packed,
    policy_document,
    training_log_group,
    written_bucket_keys,
)

from launcher.cluster.names import SAGEMAKER_PRINCIPAL, SHELL_ACTIONS, TRAINING_LOGS, is_arn
from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.ROLE_INSUFFICIENT, storage.SECRET_UNREADABLE)


class TrainingRole(iam.Role):
    """The role that SageMaker takes on to run a job: nothing of AWS's policies and no wildcard action.

    Where there are so many data buckets that a role's inline policies cannot name them, managed policies
    beside the role do, whose ids end in 2, 3 and so on.

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
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str],
        file_system: bool = False,
        data_buckets: Sequence[s3.IBucket] = (),
        encryption_key: kms.IKey | None = None,
        read_with: Sequence[str] = (),
        written_with: Sequence[str] = (),
        secrets: Sequence[str] = (),
        secret_keys: Sequence[str] = (),
        remote_debug: bool = False,
    ) -> None:
        """Create the role with its permissions inside, so that it is never there without them.

        Args:
            scope: the parent construct.
            id: the construct's id.
            code: bucket that jobs read.
            checkpoints: bucket that jobs read, write and delete from.
            output: bucket that jobs read and write.
            subnet_ids: where jobs may put network interfaces.
            security_group_ids: the groups that they may attach to them.
            file_system: whether jobs mount a Lustre file system.
            data_buckets: other buckets that jobs read.
            encryption_key: the key of the buckets and of the hosts' volumes, if it is the account's own.
            read_with: ARNs of further keys, of buckets that jobs read.
            written_with: the same of buckets that they write into.
            secrets: secrets of AWS Secrets Manager that jobs read, by name or ARN.
            secret_keys: ARNs of the keys of those that have one of the account's own.
            remote_debug: whether jobs may let a shell into their containers.
        """
        stack = cdk.Stack.of(scope)
        permissions = [
            *_objects(*(bucket_arn(bucket, stack) for bucket in (code, checkpoints, output))),
            *_images(stack),
            *_logs_and_metrics(stack),
            *_network_interfaces(stack, subnet_ids, security_group_ids),
        ]
        if file_system:
            permissions.append(_file_system())
        if remote_debug:
            permissions.append(_shell())
        if encryption_key is not None:
            permissions += _key(key_arn(encryption_key, stack))
        permissions += [
            *_read_keys(read_with),
            *written_bucket_keys(written_with),
            *_data([bucket_arn(bucket, stack) for bucket in data_buckets]),
            *secret_permissions(stack, secrets, secret_keys),
        ]
        inline, *others = packed(permissions, stack, first=INLINE_POLICIES_SIZE)
        super().__init__(
            scope,
            id,
            description="What a training job of this cluster may do",
            assumed_by=iam.ServicePrincipal(
                SAGEMAKER_PRINCIPAL,
                # Keeps SageMaker from using the role on behalf of another account.
                conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
            ),
            inline_policies={"TrainingJob": policy_document(inline)},
        )
        acknowledge_wildcards(self, inline)
        further = "What a training job of this cluster may do, further data buckets"
        add_further_policies(scope, id, others, lambda number: further, roles=[self])


def _objects(code: str, checkpoints: str, output: str) -> list[Permission]:
    return [
        Permission(
            "FindObjects",
            ["s3:ListBucket", "s3:GetBucketLocation"],
            [code, checkpoints, output],
            "Channels are listed before they are read.",
        ),
        Permission(
            "ReadCode",
            ["s3:GetObject"],
            [f"{code}/*"],
            "Each job reads its own code, under a key that its name decides; none writes it.",
        ),
        Permission(
            "KeepCheckpoints",
            ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            [f"{checkpoints}/*"],
            "SageMaker mirrors the checkpoint folder, deletions as well, under a key that the job's "
            "name decides.",
        ),
        Permission(
            "WriteOutput",
            ["s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"],
            [f"{output}/*"],
            "Each job writes its output under a key that its name decides, and may read that of others.",
        ),
    ]


def _data(buckets: Sequence[str]) -> list[Permission]:
    permissions: list[Permission] = []
    for number, some in in_chunks(buckets):
        permissions += [
            Permission(
                f"FindData{number}",
                ["s3:ListBucket", "s3:GetBucketLocation"],
                list(some),
                "Channels are listed before they are read.",
            ),
            Permission(
                f"ReadData{number}",
                ["s3:GetObject"],
                [f"{bucket}/*" for bucket in some],
                "Jobs may read all data of the buckets that the cluster file names.",
            ),
        ]
    return permissions


def _read_keys(arns: Sequence[str]) -> list[Permission]:
    if not arns:
        return []
    return [
        Permission(
            "ReadWithBucketKeys",
            ["kms:Decrypt"],
            list(arns),
            "Which bucket has which of the keys is not known here.",
        )
    ]


def _key(arn: str) -> list[Permission]:
    """Source: SageMaker developer guide, sagemaker-roles (CreateTrainingJob with a KMS key)."""
    return [
        Permission(
            "UseKey",
            ["kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey"],
            [arn],
            "Objects are read and written with the cluster's key.",
        ),
        Permission(
            "LetVolumesUseKey",
            ["kms:CreateGrant"],
            [arn],
            "The hosts' volumes are encrypted by EBS, which works with a grant.",
            {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]


def _images(stack: cdk.Stack) -> list[Permission]:
    return [
        Permission(
            "LogInToRegistries",
            ["ecr:GetAuthorizationToken"],
            ["*"],
            "ecr:GetAuthorizationToken knows no resources.",
        ),
        Permission(
            "PullImages",
            ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"],
            [stack.format_arn(service="ecr", account="*", resource="repository", resource_name="*")],
            "AWS keeps its training images in accounts that differ by region and framework; pulling "
            "only, and only what the repository's own policy allows.",
        ),
    ]


def _logs_and_metrics(stack: cdk.Stack) -> list[Permission]:
    group = training_log_group(stack)
    return [
        Permission(
            "WriteLogs",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [group, f"{group}:*"],
            "One log group for all training jobs, one stream per host, named after the job.",
        ),
        Permission(
            "PublishMetrics",
            ["cloudwatch:PutMetricData"],
            ["*"],
            "cloudwatch:PutMetricData knows no resources; the namespace bounds it.",
            {"StringEquals": {"cloudwatch:namespace": TRAINING_LOGS}},
        ),
    ]


def _network_interfaces(
    stack: cdk.Stack, subnet_ids: Sequence[str], security_group_ids: Sequence[str]
) -> list[Permission]:
    def arn(resource: str, name: str) -> str:
        return stack.format_arn(service="ec2", resource=resource, resource_name=name)

    any_interface = arn("network-interface", "*")
    subnet_arns = [arn("subnet", each) for each in subnet_ids]
    group_arns = [arn("security-group", each) for each in security_group_ids]
    return [
        Permission(
            "CreateInterfaces",
            ["ec2:CreateNetworkInterface"],
            [any_interface, *subnet_arns, *group_arns],
            "Every host gets interfaces, whose ids are not known before, in the cluster's subnets.",
        ),
        Permission(
            "UseInterfaces",
            [
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            [any_interface],
            "The ids of the interfaces are not known before; those of other subnets are out of reach. The "
            "hosts that they are attached to belong to SageMaker's account.",
            {"ArnEquals": {"ec2:Subnet": subnet_arns}},
        ),
        Permission(
            "LookAtTheNetwork",
            [
                "ec2:DescribeDhcpOptions",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeSecurityGroups",
                "ec2:DescribeSubnets",
                "ec2:DescribeVpcs",
            ],
            ["*"],
            "EC2's Describe actions know no resources.",
        ),
    ]


def _file_system() -> Permission:
    return Permission(
        "FindFileSystem",
        ["fsx:DescribeFileSystems"],
        ["*"],
        "SageMaker looks up the mount name and the state before it mounts; the action knows no resources.",
    )


def _shell() -> Permission:
    return Permission(
        "LetAShellIn",
        list(SHELL_ACTIONS),
        ["*"],
        "The agent in the container speaks to Systems Manager; the actions know no resources.",
    )


# What a role needs to read secrets of AWS Secrets Manager, and no others.


_SECRETS_IN_A_STATEMENT = 8
"""Of the longest names, so that a statement fits into a managed policy."""


def secret_permissions(stack: cdk.Stack, secrets: Sequence[str], keys: Sequence[str]) -> list[Permission]:
    """Read `secrets`, by name or ARN, and decrypt with the `keys` of those that have one of the account's."""
    return [*_read([_arn(stack, secret) for secret in secrets]), *_decrypt(stack, keys)]


def _arn(stack: cdk.Stack, secret: str) -> str:
    """A secret's ARN; of one that is named, with what Secrets Manager appends to the name."""
    if is_arn(secret):
        return secret
    return stack.format_arn(
        service="secretsmanager",
        resource="secret",
        resource_name=f"{secret}-??????",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )


def _read(arns: Sequence[str]) -> list[Permission]:
    return [
        Permission(
            f"ReadSecrets{number}",
            ["secretsmanager:GetSecretValue"],
            list(some),
            "The boot fetches what a job names, before its script starts; the end of an ARN is Secrets "
            "Manager's own choice.",
        )
        for number, some in in_chunks(arns, _SECRETS_IN_A_STATEMENT)
    ]


def _decrypt(stack: cdk.Stack, arns: Sequence[str]) -> list[Permission]:
    if not arns:
        return []
    return [
        Permission(
            "DecryptSecrets",
            ["kms:Decrypt"],
            list(arns),
            "Which secret has which of the keys is not known here; nothing but secrets can be decrypted.",
            {"StringEquals": {"kms:ViaService": f"secretsmanager.{stack.region}.amazonaws.com"}},
        )
    ]
