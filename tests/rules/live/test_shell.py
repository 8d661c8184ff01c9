"""Whether a shell can be opened in the containers, where the job asks for one: IAM001 and EFA003."""

from __future__ import annotations

from typing import Any

from launcher.account.facts import Permissions
from launcher.cluster.names import SHELL_ACTIONS
from launcher.cluster.traffic import SERVICES, SHELL
from tests.rules.live.states import ROLE, endpoint, found, table

REQUEST: dict[str, Any] = {"RemoteDebugConfig": {"EnableRemoteDebug": True}}
DENIED = tuple((action, "*") for action in SHELL_ACTIONS)


def test_a_role_that_may_not_is_warned_of_at_the_field_that_asks() -> None:
    (finding,) = found(request=REQUEST, permissions=Permissions(ROLE, DENIED))
    assert (finding.code, finding.severity, finding.path) == ("IAM001", "warning", ("debug", "remote"))
    assert "ssmmessages:CreateControlChannel" in finding.message


def test_what_else_the_role_lacks_stays_an_error_of_its_own() -> None:
    other = ("ecr:GetAuthorizationToken", "*")
    findings = found("IAM001", request=REQUEST, permissions=Permissions(ROLE, (*DENIED, other)))
    assert [finding.severity for finding in findings] == ["error", "warning"]
    assert "ssmmessages" not in findings[0].message


def test_without_nat_a_shell_needs_its_endpoint() -> None:
    without_nat: dict[str, Any] = {"route_tables": (table(),)}
    endpoints = [endpoint(service) for service in SERVICES]
    (finding,) = found("EFA003", request=REQUEST, endpoints=tuple(endpoints), **without_nat)
    assert "nothing leads to ssmmessages: no shell could be opened in the containers" in finding.message
    assert finding.severity == "warning"
    endpoints.append(endpoint(SHELL))
    assert not found("EFA003", request=REQUEST, endpoints=tuple(endpoints), **without_nat)
