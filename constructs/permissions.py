"""Statements of IAM policies: why each is there, and how many fit into one policy."""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct, IConstruct
from constructs.weak_references import read_weakly

from launcher.cluster.names import CLUSTER_TAG, CODE_FOLDER, RUNS_FOLDER, SAGEMAKER_PRINCIPAL, TRAINING_LOGS


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


def add_further_policies(
    scope: Construct,
    id: str,
    parts: Sequence[Sequence[Permission]],
    describe: Callable[[int], str],
    *,
    roles: Sequence[iam.IRole] | None = None,
) -> list[str]:
    """Add managed policies for what does not fit into the first, whose ids end in 2, 3 and so on.

    Returns their ARNs; `describe` gives the description of each by its number.
    """
    arns = []
    for number, part in enumerate(parts, 2):
        policy = iam.ManagedPolicy(
            scope, f"{id}{number}", description=describe(number), document=policy_document(part), roles=roles
        )
        acknowledge_wildcards(policy, part)
        arns.append(policy.managed_policy_arn)
    return arns


BUCKETS_IN_A_STATEMENT = 30
"""Of the longest names, at most half a managed policy, so that no policy stays nearly empty."""

_STATEMENTS = tomllib.loads(Path(__file__).with_name("permissions.toml").read_text("utf-8"))
_SELECTING = ("only_with", "shared_with")
"""What a row says of when it stands where, and no statement does."""

_WORD = re.compile(r"(?<!\$)\{(\w+)\}")
_VARIABLE = re.compile(r"\$\{([\w:]+)\}")
"""Of IAM, such as ${aws:userid}."""


def permissions_of(part: str, words: Mapping[str, Any]) -> list[Permission]:
    """The permissions of a part of `permissions.toml`, which says how it is read."""
    shared = [row for rows in _STATEMENTS.values() for row in rows if part in row.get("shared_with", ())]
    found = [
        Permission(**_filled({key: value for key, value in row.items() if key not in _SELECTING}, words))
        for row in (*_STATEMENTS[part], *shared)
        if "only_with" not in row or words[row["only_with"]]
    ]
    return [each for each in found if each.resources]


def permissions_in_chunks(
    part: str, word: str, items: Sequence[str], most: int = BUCKETS_IN_A_STATEMENT
) -> list[Permission]:
    """The permissions of a part, with at most so many of the items in each statement, which are numbered."""
    return [
        permission
        for number, some in in_chunks(items, most)
        for permission in permissions_of(part, {"number": number, word: some})
    ]


def data_permissions(part: str, buckets: Sequence[s3.IBucket], stack: cdk.Stack) -> list[Permission]:
    """The permissions of a part for further buckets that jobs read, of which each statement names some."""
    return permissions_in_chunks(part, "data", [bucket_arn(bucket, stack) for bucket in buckets])


def words_of(
    stack: cdk.Stack, *, code: s3.IBucket, checkpoints: s3.IBucket, output: s3.IBucket, key: kms.IKey | None
) -> dict[str, Any]:
    """The words of `permissions.toml` that jobs', launchers' and the controller's permissions share."""
    return {
        "partition": stack.partition,
        "region": stack.region,
        "account": stack.account,
        "code": bucket_arn(code, stack),
        "code_folder": CODE_FOLDER,
        "runs_folder": RUNS_FOLDER,
        "cluster_tag": CLUSTER_TAG,
        "sagemaker": SAGEMAKER_PRINCIPAL,
        "checkpoints": bucket_arn(checkpoints, stack),
        "output": bucket_arn(output, stack),
        "key": () if key is None else (key_arn(key, stack),),
        "log_group": training_log_group(stack),
    }


def _filled(value: Any, words: Mapping[str, Any]) -> Any:
    match value:
        case dict():
            return {_filled(key, words): _filled(each, words) for key, each in value.items()}
        case list():
            return [text for each in value for text in _texts(each, words)]
    (text,) = _texts(value, words)
    return text


def _texts(text: str, words: Mapping[str, Any]) -> list[str]:
    """The text with its words filled in; one for each item of a word that is a list."""
    texts = [text]
    for word in dict.fromkeys(_WORD.findall(text)):
        items = [words[word]] if isinstance(words[word], str) else words[word]
        texts = [each.replace(f"{{{word}}}", item) for each in texts for item in items]
    return texts


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
            return _VARIABLE.sub(r"<\1>", value)
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(_as_cdk_nag_writes_it, parts))
        case {"Fn::GetAtt": [resource, attribute]}:
            return f"<{resource}.{attribute}>"
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetStackOutput": _}:
            return json.dumps(value, separators=(",", ":"))
    raise ValueError(f"cdk-nag's name for {value!r} is not known")


# How much fits into IAM's policies, and which statements go into which of several.


MANAGED_POLICY_SIZE = 6_144
"""Characters of a managed policy, without white space (IAM user guide, reference_iam-quotas)."""

INLINE_POLICIES_SIZE = 10_240
"""Characters of all inline policies of a role together (the same)."""

_AROUND = len('{"Version":"2012-10-17","Statement":[]}')

_LONGEST_ARN, _LONGEST_ID = 130, 36
_PSEUDO = {"AWS::Partition": len("aws-us-gov"), "AWS::AccountId": 12, "AWS::Region": len("ap-southeast-99")}


def packed(
    permissions: Sequence[Permission], stack: cdk.Stack, *, first: int = MANAGED_POLICY_SIZE
) -> list[list[Permission]]:
    """The permissions in their order, so that each list fits into a policy, whatever AWS calls the resources.

    `first` is the size of the first policy in characters; the others are managed ones.
    """
    policies: list[list[Permission]] = [[]]
    left = first - _AROUND
    for permission in permissions:
        size = longest(permission, stack) + len(",")
        if size > left and policies[-1]:
            policies.append([])
            left = MANAGED_POLICY_SIZE - _AROUND
        policies[-1].append(permission)
        left -= size
    return policies


def longest(permission: Permission, stack: cdk.Stack) -> int:
    """The most characters that the permission's statement has once it is deployed."""
    statement = stack.resolve(permission.statement().to_statement_json())
    return len(json.dumps(_written_out(statement), separators=(",", ":")))


def in_chunks(
    names: Sequence[str], most: int = BUCKETS_IN_A_STATEMENT
) -> Iterator[tuple[str, Sequence[str]]]:
    """The buckets in groups, one for each statement, with what makes the statement's id unique.

    `most` are in one: fewer of what has longer names.
    """
    for number, start in enumerate(range(0, len(names), most), 1):
        yield "" if number == 1 else str(number), names[start : start + most]


def _written_out(value: Any) -> Any:
    match value:
        case {"Fn::Join": [str(delimiter), [*parts]]}:
            return delimiter.join(_written_out(part) for part in parts)
        case (
            {"Ref": str(name)}
            | {"Fn::ImportValue": str(name)}
            | {"Fn::GetStackOutput": {"OutputName": str(name)}}
        ):
            return "x" * _PSEUDO.get(name, _LONGEST_ARN if "Arn" in name else _LONGEST_ID)
        case {"Fn::GetAtt": [_, str(attribute)]}:
            return "x" * (_LONGEST_ARN if "Arn" in attribute else _LONGEST_ID)
        case dict():
            return {key: _written_out(each) for key, each in value.items()}
        case list():
            return [_written_out(each) for each in value]
    return value
