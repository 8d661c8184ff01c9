"""What a role needs to read secrets of AWS Secrets Manager, and no others."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from constructs.permissions import Permission
from constructs.policy_sizes import in_chunks

from launcher.cluster.names import is_arn

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
