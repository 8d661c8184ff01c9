"""The execution role: what a training job may do; `permissions.toml` has each permission with its reason."""

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
    data_permissions,
    packed,
    permissions_in_chunks,
    permissions_of,
    policy_document,
    words_of,
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
        words = words_of(stack, code=code, checkpoints=checkpoints, output=output, key=encryption_key) | {
            "subnets": subnet_ids,
            "security_groups": security_group_ids,
            "file_system": file_system,
            "read_with": read_with,
            "written_with": written_with,
            "shell_actions": SHELL_ACTIONS if remote_debug else (),
            "training_logs": TRAINING_LOGS,
        }
        permissions = [
            *permissions_of("job", words),
            *data_permissions("job_data", data_buckets, stack),
            *_secret_permissions(stack, secrets, secret_keys),
        ]
        inline, *others = packed(permissions, stack, first=INLINE_POLICIES_SIZE)
        document = policy_document(inline)
        super().__init__(
            scope, id, description=_WHAT, assumed_by=_trust(stack), inline_policies={"TrainingJob": document}
        )
        acknowledge_wildcards(self, inline)
        add_further_policies(scope, id, others, lambda _: f"{_WHAT}, further data buckets", roles=[self])


_WHAT = "What a training job of this cluster may do"

_SECRETS_IN_A_STATEMENT = 8
"""Of the longest names, so that a statement fits into a managed policy."""


def _trust(stack: cdk.Stack) -> iam.IPrincipal:
    return iam.ServicePrincipal(
        SAGEMAKER_PRINCIPAL,
        # Keeps SageMaker from using the role on behalf of another account.
        conditions={"StringEquals": {"aws:SourceAccount": stack.account}},
    )


def _secret_permissions(stack: cdk.Stack, secrets: Sequence[str], keys: Sequence[str]) -> list[Permission]:
    """Read `secrets`, by name or ARN, and decrypt with the `keys` of those that have one of the account's."""
    arns = [_arn(stack, secret) for secret in secrets]
    return [
        *permissions_in_chunks("job_secrets", "secrets", arns, _SECRETS_IN_A_STATEMENT),
        *permissions_of("job_secret_keys", {"secret_keys": keys, "region": stack.region}),
    ]


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
