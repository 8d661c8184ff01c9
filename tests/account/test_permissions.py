"""IAM's decisions: who is simulated, and what is denied for certain."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.account.permissions import parse_evaluation, permissions_of, principal_of

ROLE = "arn:aws:iam::123456789012:role/team"


@pytest.mark.parametrize(
    ("caller", "principal"),
    [
        ("arn:aws:sts::123456789012:assumed-role/team/alice", ROLE),
        ("arn:aws-cn:sts::123456789012:assumed-role/team/a@b.c", ROLE.replace("aws", "aws-cn", 1)),
        ("arn:aws:iam::123456789012:user/people/alice", "arn:aws:iam::123456789012:user/people/alice"),
        ("arn:aws:sts::123456789012:federated-user/alice", None),
        ("arn:aws:iam::123456789012:root", None),
    ],
)
def test_session_is_simulated_as_its_role(caller: str, principal: str | None) -> None:
    assert principal_of(caller) == principal


def evaluated(decision: str, **more: Any) -> dict[str, Any]:
    return {"EvalActionName": "s3:GetObject", "EvalResourceName": "one", "EvalDecision": decision, **more}


@pytest.mark.parametrize(
    ("decision", "resource_may_allow", "denied", "undecided"),
    [
        ("allowed", False, 0, 0),
        ("implicitDeny", False, 1, 0),
        ("explicitDeny", False, 1, 0),
        ("implicitDeny", True, 0, 1),
        ("explicitDeny", True, 1, 0),
    ],
)
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
