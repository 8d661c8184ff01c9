"""How much fits into IAM's policies, and which statements go into which of several."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import aws_cdk as cdk
from constructs.permissions import Permission

MANAGED_POLICY_SIZE = 6_144
"""Characters of a managed policy, without white space (IAM user guide, reference_iam-quotas)."""

INLINE_POLICIES_SIZE = 10_240
"""Characters of all inline policies of a role together (the same)."""

BUCKETS_IN_A_STATEMENT = 30
"""Of the longest names, at most half a managed policy, so that no policy stays nearly empty."""

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
