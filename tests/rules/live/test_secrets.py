"""Whether the role may read the job's secrets, and the network leads to them: IAM002 and EFA003."""

from __future__ import annotations

from typing import Any

from launcher.account.facts import Permissions, Unverified
from launcher.cluster.traffic import SECRETS, SERVICES
from tests.rules.live.states import ROLE, endpoint, found, table

SECRET = "arn:aws:secretsmanager:us-west-2:123456789012:secret:team/hf-AbCdEf"
READ = ("secretsmanager:GetSecretValue", SECRET)
REQUEST: dict[str, Any] = {"Environment": {"SLIPWAY_SECRETS": '{"HF_TOKEN": "team/hf"}'}}


def test_a_role_that_is_denied_a_secret_is_an_error_and_of_no_other_code() -> None:
    (finding,) = found(request=REQUEST, permissions=Permissions(ROLE, (READ,)))
    assert (finding.code, finding.severity, finding.path) == ("IAM002", "error", ("secrets",))
    assert f"may not secretsmanager:GetSecretValue on {SECRET}" in finding.message


def test_what_only_the_secrets_own_policy_may_allow_is_not_verified() -> None:
    (finding,) = found(request=REQUEST, permissions=Permissions(ROLE, (), (READ,)))
    assert (finding.code, finding.severity, finding.verified) == ("IAM002", "warning", False)


def test_permissions_that_could_not_be_read_are_said_of_a_job_with_secrets_alone() -> None:
    unread = Unverified("what the role may do", "iam:SimulatePrincipalPolicy", "AWS refused.")
    assert len(found("IAM002", request=REQUEST, permissions=unread)) == 1
    assert not found("IAM002", permissions=unread)


def test_a_role_that_may_is_fine() -> None:
    assert not found(request=REQUEST)


def test_without_nat_a_job_with_secrets_needs_their_endpoint() -> None:
    without_nat: dict[str, Any] = {"route_tables": (table(),)}
    endpoints = [endpoint(service) for service in SERVICES]
    assert not found("EFA003", endpoints=tuple(endpoints), **without_nat)
    (finding,) = found("EFA003", request=REQUEST, endpoints=tuple(endpoints), **without_nat)
    assert "nothing leads to secretsmanager: the job would end before its script starts" in finding.message
    endpoints.append(endpoint(SECRETS))
    assert not found("EFA003", request=REQUEST, endpoints=tuple(endpoints), **without_nat)
