"""Roles: who takes them on, and every policy that they have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.role import Role, fetch_role
from launcher.failure_modes.refusal import AwsRefusal


def trust(*principals: Any, effect: str = "Allow") -> dict[str, Any]:
    return {
        "Statement": [
            {"Effect": effect, "Action": "sts:AssumeRole", "Principal": each} for each in principals
        ]
    }


def policy(*actions: str) -> dict[str, Any]:
    statements = [{"Effect": "Allow", "Action": each, "Resource": "*"} for each in actions]
    return {"Version": "2012-10-17", "Statement": statements}


SAGEMAKER = {"Service": "sagemaker.amazonaws.com"}


@pytest.fixture
def iam() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("iam", region_name="us-west-2")


@pytest.fixture
def arn(iam: Any) -> str:
    made = iam.create_role(
        RoleName="training", Path="/teams/", AssumeRolePolicyDocument=json.dumps(trust(SAGEMAKER))
    )
    return str(made["Role"]["Arn"])


def role(trust_: Mapping[str, Any], **policies: Any) -> Role:
    return Role("arn", "name", trust_, policies.get("inline", {}), policies.get("attached", {}))


@pytest.mark.parametrize(
    ("principals", "trusted"),
    [
        ([SAGEMAKER], ("sagemaker.amazonaws.com",)),
        ([{"Service": ["sagemaker.amazonaws.com", "ec2.amazonaws.com"]}], 2),
        ([SAGEMAKER, {"AWS": "arn:aws:iam::1:root"}, SAGEMAKER], 2),
        (["*"], ("*",)),
        ([], ()),
    ],
)
def test_every_principal_is_read(principals: list[Any], trusted: Any) -> None:
    found = role(trust(*principals)).trusted

    assert len(found) == trusted if isinstance(trusted, int) else found == trusted


def test_denied_principals_are_not_trusted() -> None:
    assert role(trust(SAGEMAKER, effect="Deny")).trusted == ()


def test_single_statement_needs_no_list() -> None:
    (statement,) = trust(SAGEMAKER)["Statement"]

    assert role({"Statement": statement}).trusted == ("sagemaker.amazonaws.com",)


def test_statements_of_all_policies_are_put_together() -> None:
    found = role({}, inline={"A": policy("s3:GetObject")}, attached={"arn": policy("logs:PutLogEvents")})

    assert [each["Action"] for each in found.statements] == ["s3:GetObject", "logs:PutLogEvents"]


def test_role_is_found_by_its_arn_with_a_path(iam: Any, arn: str) -> None:
    assert arn.endswith(":role/teams/training")

    found = fetch_role(iam, arn)

    assert found is not None
    assert (found.arn, found.name, found.trusted) == (arn, "training", ("sagemaker.amazonaws.com",))
    assert (found.inline, found.attached, found.boundary) == ({}, {}, None)


def test_role_is_found_by_its_name(iam: Any, arn: str) -> None:
    found = fetch_role(iam, "training")

    assert found is not None
    assert found.arn == arn


def test_inline_policies_are_read_from_every_page(iam: Any, arn: str) -> None:
    described = iam.get_role(RoleName="training")["Role"]
    described["AssumeRolePolicyDocument"] = json.dumps(trust(SAGEMAKER))
    named = {"RoleName": "training"}
    with Stubber(iam) as stubbed:
        stubbed.add_response("get_role", {"Role": described}, named)
        more = {"PolicyNames": ["First"], "IsTruncated": True, "Marker": "more"}
        stubbed.add_response("list_role_policies", more, named)
        stubbed.add_response("list_role_policies", {"PolicyNames": ["Second"]}, {**named, "Marker": "more"})
        for name in ("First", "Second"):
            answer = {**named, "PolicyName": name, "PolicyDocument": json.dumps(policy(f"s3:{name}"))}
            stubbed.add_response("get_role_policy", answer, {**named, "PolicyName": name})
        stubbed.add_response("list_attached_role_policies", {"AttachedPolicies": []}, named)
        found = fetch_role(iam, arn)

    assert found is not None
    assert [each["Action"] for each in found.statements] == ["s3:First", "s3:Second"]


def test_attached_policy_is_read_in_the_version_that_counts(iam: Any, arn: str) -> None:
    made = iam.create_policy(PolicyName="shared", PolicyDocument=json.dumps(policy("s3:Old")))
    shared = made["Policy"]["Arn"]
    iam.create_policy_version(
        PolicyArn=shared, PolicyDocument=json.dumps(policy("s3:New")), SetAsDefault=True
    )
    iam.attach_role_policy(RoleName="training", PolicyArn=shared)

    found = fetch_role(iam, arn)

    assert found is not None
    assert [(name, each["Statement"][0]["Action"]) for name, each in found.attached.items()] == [
        (shared, "s3:New")
    ]


def test_percent_encoded_document_is_decoded(iam: Any, arn: str) -> None:
    """The SDK leaves a document as text where it does not expect one."""
    iam.put_role_policy(
        RoleName="training", PolicyName="A", PolicyDocument=json.dumps(policy("s3:GetObject"))
    )
    encoded = quote(json.dumps(policy("s3:GetObject")))
    iam.meta.events.register(
        "after-call.iam.GetRolePolicy", lambda parsed, **_: parsed.update(PolicyDocument=encoded)
    )

    found = fetch_role(iam, arn)

    assert found is not None
    assert found.inline["A"] == policy("s3:GetObject")


def test_role_that_does_not_exist_is_none(iam: Any) -> None:
    assert fetch_role(iam, "arn:aws:iam::123456789012:role/nobody") is None


@pytest.mark.parametrize(
    ("operation", "permission"),
    [
        ("GetRole", "iam:GetRole"),
        ("ListRolePolicies", "iam:ListRolePolicies"),
        ("ListAttachedRolePolicies", "iam:ListAttachedRolePolicies"),
    ],
)
def test_refusal_names_the_permission(iam: Any, arn: str, operation: str, permission: str) -> None:
    def refuse(**_: Any) -> None:
        raise iam.exceptions.ClientError({"Error": {"Code": "AccessDenied", "Message": "not you"}}, operation)

    iam.meta.events.register(f"before-send.iam.{operation}", refuse)

    with pytest.raises(AwsRefusal, match=permission):
        fetch_role(iam, arn)
