"""A role of the account, as plain data: who takes it on, and what its policies say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from launcher.account.aws import aws_errors

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Role:
    """A role with the documents of its policies.

    `trust` says who takes it on; `inline` holds its own policies by name, `attached` the managed ones
    by ARN; `boundary` is the ARN of the policy that bounds them all, if any.
    """

    arn: str
    name: str
    trust: Document
    inline: Mapping[str, Document]
    attached: Mapping[str, Document]
    boundary: str | None = None

    @property
    def trusted(self) -> tuple[str, ...]:
        """The principals of the statements that allow taking the role on: services, ARNs, `*`."""
        found: dict[str, None] = {}
        for statement in _list(self.trust.get("Statement")):
            principal = statement.get("Principal", {})
            values = principal.values() if isinstance(principal, Mapping) else [principal]
            if statement.get("Effect") == "Allow":
                found |= dict.fromkeys(name for value in values for name in _list(value))
        return tuple(found)

    @property
    def statements(self) -> tuple[Document, ...]:
        """All statements of all policies, the inline ones first; the boundary's are not among them."""
        documents = (*self.inline.values(), *self.attached.values())
        return tuple(each for document in documents for each in _list(document.get("Statement")))


def fetch_role(iam: Any, name_or_arn: str) -> Role | None:
    """The role with all its policies; None if there is no such role.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    role = fetch_role_without_policies(iam, name_or_arn)
    if role is None:
        return None
    return replace(role, inline=_fetch_inline(iam, role.name), attached=_fetch_attached(iam, role.name))


def fetch_role_without_policies(iam: Any, name_or_arn: str) -> Role | None:
    """The role in one call, with no policy but the trust; None if there is no such role.

    Enough where IAM is asked what the policies amount to (`launcher.account.permissions`).
    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    name = name_or_arn.rpartition("/")[2]
    with aws_errors(f"look up the role {name} (iam:GetRole)"):
        try:
            return parse_role(iam.get_role(RoleName=name)["Role"])
        except iam.exceptions.NoSuchEntityException:
            return None


def parse_role(described: Mapping[str, Any]) -> Role:
    """A role, without the documents of its policies, from what GetRole answers."""
    return Role(
        arn=described["Arn"],
        name=described["RoleName"],
        trust=_document(described.get("AssumeRolePolicyDocument", {})),
        inline={},
        attached={},
        boundary=described.get("PermissionsBoundary", {}).get("PermissionsBoundaryArn"),
    )


def _fetch_inline(iam: Any, role: str) -> dict[str, Document]:
    with aws_errors(f"read the policies of the role {role} (iam:ListRolePolicies, iam:GetRolePolicy)"):
        pages = iam.get_paginator("list_role_policies").paginate(RoleName=role)
        names = [name for page in pages for name in page["PolicyNames"]]
        return {
            name: _document(iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"])
            for name in names
        }


def _fetch_attached(iam: Any, role: str) -> dict[str, Document]:
    permissions = "iam:ListAttachedRolePolicies, iam:GetPolicy, iam:GetPolicyVersion"
    with aws_errors(f"read the policies attached to the role {role} ({permissions})"):
        pages = iam.get_paginator("list_attached_role_policies").paginate(RoleName=role)
        arns = [each["PolicyArn"] for page in pages for each in page["AttachedPolicies"]]
        return {arn: _managed(iam, arn) for arn in arns}


def _managed(iam: Any, arn: str) -> Document:
    version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
    answer = iam.get_policy_version(PolicyArn=arn, VersionId=version)
    return _document(answer["PolicyVersion"]["Document"])


def _document(described: Any) -> Document:
    """A policy: IAM sends it percent-encoded, which the SDK undoes in most answers."""
    if isinstance(described, str):
        described = json.loads(unquote(described))
    document: Document = described
    return document


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
