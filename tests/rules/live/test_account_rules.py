"""Rules on what the account lets a job have: hosts in their place, and a shell."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.account.facts import Permissions, Quota
from launcher.cluster.names import SHELL_ACTIONS
from launcher.cluster.traffic import SERVICES, SHELL
from tests.rules.live.states import (
    JOB_GROUP,
    OPEN_ACL,
    P4D,
    ROLE,
    acl,
    endpoint,
    entry,
    found,
    group,
    itself,
    severities,
    subnet,
    table,
)


@pytest.mark.parametrize(
    ("instance_type", "hosts", "free", "severity"),
    [
        pytest.param(P4D, 2, 10, None, id="5 for each host with EFA"),
        pytest.param(P4D, 2, 9, "error", id="one too few"),
        pytest.param("ml.m5.xlarge", 3, 6, None, id="2 for each other host"),
        pytest.param("ml.m5.xlarge", 3, 5, "error", id="one too few without EFA"),
        pytest.param("ml.p5.48xlarge", 2, 64, None, id="one for each interface on p5"),
        pytest.param("ml.p5.48xlarge", 2, 63, "error", id="one too few on p5"),
        pytest.param("ml.p9.48xlarge", 2, 0, None, id="nothing is known of the type"),
    ],
)
def test_hosts_find_their_addresses(instance_type: str, hosts: int, free: int, severity: str | None) -> None:
    state = {"instance_type": instance_type, "hosts": hosts, "subnets": (subnet(free_addresses=free),)}
    assert severities("EFA004", **state) == ({} if severity is None else {"subnet-a": severity})


def test_a_small_subnet_beside_one_with_room_is_a_warning() -> None:
    subnets = (subnet(free_addresses=3), subnet("subnet-b", free_addresses=100))
    assert severities("EFA004", subnets=subnets) == {"subnet-a": "warning"}


def test_the_jobs_of_a_search_take_addresses_at_the_same_time() -> None:
    state = {"subnets": (subnet(free_addresses=39),), "quota": None}
    assert severities("EFA004", jobs_at_once=4, **state) == {"subnet-a": "error"}
    assert severities("EFA004", jobs_at_once=3, **state) == {}


def test_a_subnet_that_does_not_exist_is_named() -> None:
    request = {"VpcConfig": {"Subnets": ["subnet-gone"], "SecurityGroupIds": [JOB_GROUP]}}
    assert severities("EFA004", subnets=(), request=request) == {"subnet-gone": "error"}


ELSEWHERE = subnet("subnet-b", availability_zone="us-west-2b", cidr="10.0.1.0/24")
BESIDE = subnet("subnet-b", cidr="10.0.1.0/24")


@pytest.mark.parametrize(
    ("state", "severity"),
    [
        pytest.param({"subnets": (subnet(), ELSEWHERE)}, "info", id="two zones"),
        pytest.param({"subnets": (subnet(), BESIDE)}, None, id="two subnets of a zone"),
        pytest.param({"subnets": (subnet(), ELSEWHERE), "hosts": 1}, None, id="one host"),
        pytest.param(
            {"subnets": (subnet(), ELSEWHERE), "instance_type": "ml.m5.xlarge"}, None, id="no EFA to lose"
        ),
        pytest.param({"subnets": (subnet(), subnet("subnet-b", vpc_id="vpc-2"))}, "error", id="two VPCs"),
        pytest.param(
            {"groups": (group(JOB_GROUP, *itself(JOB_GROUP), vpc="vpc-2"),)},
            "error",
            id="a group of another VPC",
        ),
    ],
)
def test_hosts_are_in_one_network(state: dict[str, Any], severity: str | None) -> None:
    assert list(severities("NCCL007", **state).values()) == ([] if severity is None else [severity])


FROM_NEIGHBOUR = entry(50, "ingress", False, "10.0.1.0/24")


@pytest.mark.parametrize(
    ("entries", "neighbour", "hosts", "found_"),
    [
        pytest.param([FROM_NEIGHBOUR, *OPEN_ACL], BESIDE, 2, True, id="closed between two subnets"),
        pytest.param([FROM_NEIGHBOUR, *OPEN_ACL], BESIDE, 1, False, id="one host"),
        pytest.param([FROM_NEIGHBOUR, *OPEN_ACL], None, 2, False, id="one subnet"),
        pytest.param(
            [entry(50, "ingress", False, "10.0.0.0/24"), *OPEN_ACL], BESIDE, 2, False, id="within the subnet"
        ),
        pytest.param(
            [entry(50, "egress", False, "10.0.1.128/25"), *OPEN_ACL], BESIDE, 2, False, id="a part of it"
        ),
        pytest.param(OPEN_ACL, BESIDE, 2, False, id="open"),
        pytest.param(
            [FROM_NEIGHBOUR, *OPEN_ACL],
            replace(BESIDE, availability_zone="us-west-2b"),
            2,
            False,
            id="another zone, where the job would be as a whole",
        ),
    ],
)
def test_acls_count_only_between_subnets(entries: Any, neighbour: Any, hosts: int, found_: bool) -> None:
    ordered = sorted(entries, key=lambda each: each.number)
    subnets = (subnet(),) if neighbour is None else (subnet(), neighbour)
    acls = (acl(*ordered), acl(*OPEN_ACL, id_="acl-2", subnets=("subnet-b",)))
    judged = severities("NCCL007", subnets=subnets, acls=acls, hosts=hosts)
    assert [name for name in judged if name == "acl-1"] == (["acl-1"] if found_ else [])


def quota(limit: float, in_use: int = 0, name: str = f"{P4D} for training job usage") -> Quota:
    return Quota(name, "L-1", limit, in_use)


@pytest.mark.parametrize(
    ("facts", "count"),
    [
        pytest.param({"quota": quota(2)}, 0, id="just enough"),
        pytest.param({"quota": quota(1)}, 1, id="too small"),
        pytest.param({"quota": quota(4, 2)}, 0, id="room beside what is in use"),
        pytest.param({"quota": quota(4, 3)}, 1, id="no room beside what is in use"),
        pytest.param({"quota": quota(0)}, 1, id="none at all"),
        pytest.param({"quota": None}, 0, id="no such quota"),
        pytest.param({"warm_pool_quota": quota(0, 0, "warm")}, 1, id="no warm pool"),
    ],
)
def test_the_quota_has_room(facts: dict[str, Any], count: int) -> None:
    assert [each.severity for each in found("CAP002", **facts)] == ["error"] * count


def test_the_quota_is_told_with_its_figures() -> None:
    (finding,) = found("CAP002", quota=quota(4, 3))
    assert f"'{P4D} for training job usage' (L-1) is 4, of which 3 are in use" in finding.message


@pytest.mark.parametrize(
    ("zones", "severity"),
    [({"us-west-2a"}, None), ({"us-west-2b"}, "info"), (set(), "info")],
)
def test_the_type_is_in_the_zone(zones: set[str], severity: str | None) -> None:
    judged = severities("CAP002", offered_in=frozenset(zones))
    assert list(judged.values()) == ([] if severity is None else [severity])


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
