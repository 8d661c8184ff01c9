"""Statements of IAM policies, each with the reason for which it is there and why it is not narrower."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import IConstruct
from constructs.weak_references import read_weakly

from launcher.cluster.names import TRAINING_LOGS


@dataclass(frozen=True, slots=True)
class Permission:
    """One statement; `reason` says what for, and why its resources cannot be fewer."""

    sid: str
    actions: list[str]
    resources: list[str]
    reason: str
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def statement(self) -> iam.PolicyStatement:
        """The statement as the CDK takes it."""
        return iam.PolicyStatement(
            sid=self.sid, actions=self.actions, resources=self.resources, conditions=self.conditions
        )


def policy_document(permissions: Sequence[Permission]) -> iam.PolicyDocument:
    """The statements of the permissions, one each."""
    return iam.PolicyDocument(statements=[each.statement() for each in permissions])


def acknowledge_wildcards(holder: IConstruct, permissions: Sequence[Permission]) -> None:
    """Tell cdk-nag the reasons of the wildcards in the resources of `holder`'s statements."""
    for finding, reason in _wildcards(permissions, cdk.Stack.of(holder)):
        cdk.Validations.of(holder).acknowledge(cdk.Acknowledgment(id=finding, reason=reason))


def written_bucket_keys(keys: Sequence[str]) -> list[Permission]:
    """Reading and writing with the keys of buckets that exist already, by the keys' ARNs; nothing of none."""
    if not keys:
        return []
    return [
        Permission(
            "UseBucketKeys",
            ["kms:Decrypt", "kms:GenerateDataKey"],
            list(keys),
            "Which bucket has which of the keys is not known here.",
        )
    ]


def training_log_group(stack: cdk.Stack) -> str:
    """The ARN of the one log group of all training jobs of the stack's account and region."""
    return stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=TRAINING_LOGS,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )


def bucket_arn(bucket: s3.IBucket, stack: cdk.Stack) -> str:
    """The bucket's ARN, for use in the stack."""
    return read_weakly(bucket.bucket_arn, owner=cdk.Stack.of(bucket), reader=stack)


def key_arn(key: kms.IKey, stack: cdk.Stack) -> str:
    """The key's ARN, for use in the stack."""
    return read_weakly(key.key_arn, owner=cdk.Stack.of(key), reader=stack)


def _wildcards(permissions: Sequence[Permission], stack: cdk.Stack) -> Iterator[tuple[str, str]]:
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
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetStackOutput": _}:
            return json.dumps(value, separators=(",", ":"))
    raise ValueError(f"cdk-nag's name for {value!r} is not known")
