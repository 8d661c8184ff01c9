"""IAM's decisions: who is simulated, and what is denied for certain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
import yaml
from moto import mock_aws

from launcher.account.facts import Role, parse_evaluation, parse_role, permissions_of, principal_of
from launcher.account.questions.ask_identities import fetch_role
from launcher.failure_modes.model import AwsRefusal
from tests.emulator.faults import DENIED_S3, inject

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

ROLE = "arn:aws:iam::123456789012:role/team"


@pytest.mark.parametrize(("caller", "principal"), CASES["principals"])
def test_session_is_simulated_as_its_role(caller: str, principal: str | None) -> None:
    assert principal_of(caller) == principal


def evaluated(decision: str, **more: Any) -> dict[str, Any]:
    return {"EvalActionName": "s3:GetObject", "EvalResourceName": "one", "EvalDecision": decision, **more}


@pytest.mark.parametrize(("decision", "resource_may_allow", "denied", "undecided"), CASES["decisions"])
def test_only_the_principals_own_denial_is_certain(
    decision: str, resource_may_allow: bool, denied: int, undecided: int
) -> None:
    decisions = parse_evaluation(evaluated(decision), resource_may_allow=resource_may_allow)

    found = permissions_of(ROLE, decisions)

    assert (len(found.denied), len(found.undecided)) == (denied, undecided)


def test_each_resource_of_an_evaluation_counts_by_itself() -> None:
    results = [
        {"EvalResourceName": "one", "EvalResourceDecision": "allowed"},
        {"EvalResourceName": "two", "EvalResourceDecision": "implicitDeny"},
    ]

    found = permissions_of(ROLE, parse_evaluation(evaluated("implicitDeny", ResourceSpecificResults=results)))

    assert found.denied == (("s3:GetObject", "two"),)


def trust(*principals: Any, effect: str = "Allow") -> dict[str, Any]:
    allowed = {"Effect": effect, "Action": "sts:AssumeRole"}
    return {"Statement": [{**allowed, "Principal": each} for each in principals]}


SAGEMAKER = {"Service": "sagemaker.amazonaws.com"}
DESCRIBED = {"Arn": "arn:aws:iam::123456789012:role/training", "RoleName": "training"}


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


def role(document: Mapping[str, Any]) -> Role:
    return Role(DESCRIBED["Arn"], DESCRIBED["RoleName"], document)


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


def test_denied_principals_are_not_trusted_and_a_single_statement_needs_no_list() -> None:
    assert role(trust(SAGEMAKER, effect="Deny")).trusted == ()
    (statement,) = trust(SAGEMAKER)["Statement"]
    assert role({"Statement": statement}).trusted == ("sagemaker.amazonaws.com",)


def test_role_is_found_by_its_arn_with_a_path_and_by_its_name(iam: Any, arn: str) -> None:
    assert arn.endswith(":role/teams/training")
    expected = arn, "training", ("sagemaker.amazonaws.com",)

    for asked in (arn, "training"):
        found = fetch_role(iam, asked)
        assert found is not None
        assert (found.arn, found.name, found.trusted) == expected
    assert fetch_role(iam, "arn:aws:iam::123456789012:role/nobody") is None


def test_percent_encoded_document_is_decoded() -> None:
    """As IAM sends it; the SDK decodes it in most answers."""
    found = parse_role({**DESCRIBED, "AssumeRolePolicyDocument": quote(json.dumps(trust(SAGEMAKER)))})

    assert found.trusted == ("sagemaker.amazonaws.com",)


def test_refusal_names_the_permission(iam: Any, arn: str) -> None:
    inject(iam, "GetRole", DENIED_S3)

    with pytest.raises(AwsRefusal, match="iam:GetRole"):
        fetch_role(iam, arn)
