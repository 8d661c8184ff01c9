"""FSX001 to FSX004: the file system's state, zone, paths and ports."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.account.network import Route
from launcher.account.unverified import Unverified
from launcher.cluster.training_network import LUSTRE_TCP_PORTS
from tests.rules.live.states import (
    ANY,
    FILE_SYSTEM,
    JOB_GROUP,
    NAT,
    OUT,
    REQUEST,
    SERVERS,
    found,
    group,
    itself,
    lustre,
    rule,
    severities,
    subnet,
    table,
)

NO_MOUNT = {"InputDataConfig": REQUEST["InputDataConfig"][:2]}


@pytest.mark.parametrize(
    ("lifecycle", "severity"),
    [
        ("AVAILABLE", None),
        ("UPDATING", None),
        ("CREATING", "error"),
        ("FAILED", "error"),
        ("MISCONFIGURED", "error"),
        ("MISCONFIGURED_UNAVAILABLE", "error"),
        ("DELETING", "error"),
    ],
)
def test_only_a_file_system_that_serves_can_be_mounted(lifecycle: str, severity: str | None) -> None:
    judged = severities("FSX001", file_system=replace(FILE_SYSTEM, lifecycle=lifecycle))
    assert judged == ({} if severity is None else {"fs-1": severity})


def test_waiting_is_advised_only_where_it_helps() -> None:
    (creating,) = found("FSX001", file_system=replace(FILE_SYSTEM, lifecycle="CREATING"))
    (failed,) = found("FSX001", file_system=replace(FILE_SYSTEM, lifecycle="FAILED", failure="no ENI"))
    assert creating.remedy.startswith("Wait")
    assert "do not heal by waiting" in failed.remedy
    assert "no ENI" in failed.message


def test_a_file_system_that_does_not_exist_is_an_error_where_it_is_mounted() -> None:
    gone = {"file_system": None, "file_system_groups": None, "associations": None}
    assert severities("FSX001", **gone) == {"fs-1": "error"}
    assert severities("FSX001", request=NO_MOUNT, **gone) == {}


@pytest.mark.parametrize(
    ("subnets", "zone", "named"),
    [
        pytest.param([subnet()], "us-west-2a", [], id="the same zone"),
        pytest.param([subnet()], "us-west-2b", ["subnet-a"], id="another zone"),
        pytest.param(
            [subnet(), subnet("subnet-b", availability_zone="us-west-2b")],
            "us-west-2a",
            ["subnet-b"],
            id="one of two subnets elsewhere",
        ),
        pytest.param([subnet()], None, [], id="a zone that is not known"),
    ],
)
def test_the_file_system_is_in_the_zone_of_every_subnet(subnets: Any, zone: Any, named: list[str]) -> None:
    findings = found(
        "FSX002", subnets=tuple(subnets), file_system=replace(FILE_SYSTEM, availability_zone=zone)
    )
    assert len(findings) == bool(named)
    assert all(f"{name} in" in findings[0].message for name in named)


@pytest.mark.parametrize(
    ("directory", "mount_name", "count"),
    [
        ("/abcdefgh", "abcdefgh", 0),
        ("/abcdefgh/corpus", "abcdefgh", 0),
        ("/abcdefghi/corpus", "abcdefgh", 1),
        ("/fsx/corpus", "abcdefgh", 1),
        ("/corpus", "abcdefgh", 1),
        ("/abcdefgh/corpus", None, 0),
    ],
)
def test_paths_begin_with_the_name_that_fsx_tells(directory: str, mount_name: Any, count: int) -> None:
    source = {"FileSystemDataSource": {"FileSystemId": "fs-1", "DirectoryPath": directory}}
    request = {"InputDataConfig": [{"ChannelName": "corpus", "DataSource": source}]}
    findings = found("FSX003", request=request, file_system=replace(FILE_SYSTEM, mount_name=mount_name))
    assert len(findings) == count


PEERING = Route("10.1.0.0/16", "pcx-1", "other", True)
BLACK_HOLE = Route("10.1.0.0/16", "pcx-1", "other", False)


@pytest.mark.parametrize(
    ("routes", "severity", "verified"),
    [
        pytest.param([NAT], "error", True, id="no way from one to the other"),
        pytest.param([NAT, PEERING], "warning", False, id="the two may be connected"),
        pytest.param([NAT, BLACK_HOLE], "error", True, id="a connection that is gone"),
    ],
)
def test_a_file_system_in_another_vpc_is_found(routes: list[Route], severity: str, verified: bool) -> None:
    (finding,) = found(
        "FSX004", file_system=replace(FILE_SYSTEM, vpc_id="vpc-2"), route_tables=(table(*routes),)
    )
    assert (finding.severity, finding.verified, finding.subject) == (severity, verified, "fs-1")
    assert "fs-1 is in vpc-2, the job's hosts in vpc-1" in finding.message


def test_where_the_routes_are_not_known_another_vpc_is_a_warning() -> None:
    elsewhere = replace(FILE_SYSTEM, vpc_id="vpc-2")
    denied = Unverified("the route tables", "ec2:DescribeRouteTables", "denied")
    assert severities("FSX004", file_system=elsewhere, route_tables=denied) == {"fs-1": "warning"}


def test_a_vpc_that_is_not_known_is_no_other() -> None:
    unknown = replace(FILE_SYSTEM, vpc_id=None)
    assert found("FSX004", file_system=unknown) == []
    (closed,) = found("FSX004", file_system=unknown, file_system_groups=(group(SERVERS, OUT),))
    assert "into the file system" in closed.message


HOSTS = (group(JOB_GROUP, *itself(JOB_GROUP), OUT, *lustre("ingress", SERVERS)),)
BOTH = (*lustre("ingress", JOB_GROUP), *lustre("egress", JOB_GROUP))
SUBNET_RANGE = "10.0.0.0/24"


def tcp(direction: Any, ports: Any, **peers: Any) -> Any:
    return rule(direction, "tcp", ports, **peers)


@pytest.mark.parametrize(
    ("hosts", "servers", "closed"),
    [
        pytest.param(HOSTS, BOTH, [], id="by groups"),
        pytest.param(
            HOSTS,
            [rule("ingress", ipv4=["10.0.0.0/16"]), rule("egress", ipv4=[ANY])],
            [],
            id="by the VPC's range",
        ),
        pytest.param(
            HOSTS,
            [*(tcp("ingress", each, ipv4=[SUBNET_RANGE]) for each in LUSTRE_TCP_PORTS), OUT],
            [],
            id="by the subnet's range",
        ),
        pytest.param(
            HOSTS,
            [rule("ingress", ipv4=["10.0.0.0/25", "10.0.0.128/25"]), OUT],
            [],
            id="by two halves of the subnet",
        ),
        pytest.param(
            HOSTS,
            [tcp("ingress", (988, 988), groups=[JOB_GROUP]), OUT],
            ["TCP 1018-1023 into the file system"],
            id="988 alone",
        ),
        pytest.param(
            HOSTS,
            [
                tcp("ingress", (988, 988), groups=[JOB_GROUP]),
                tcp("ingress", (1021, 1023), groups=[JOB_GROUP]),
                OUT,
            ],
            ["TCP 1018-1023 into the file system"],
            id="988 and 1021-1023",
        ),
        pytest.param(
            HOSTS,
            [
                tcp("ingress", (988, 1020), groups=[JOB_GROUP]),
                tcp("ingress", (1021, 1023), groups=[JOB_GROUP]),
                OUT,
            ],
            [],
            id="in two pieces that meet",
        ),
        pytest.param(HOSTS, lustre("ingress", JOB_GROUP), ["out of the file system"], id="no egress"),
        pytest.param(
            HOSTS,
            [rule("ingress", ipv6=["::/0"]), OUT],
            ["into the file system"],
            id="IPv6 does not count",
        ),
        pytest.param(
            HOSTS, [rule("ingress", groups=["sg-x"]), OUT], ["into the file system"], id="another group"
        ),
        pytest.param(
            (group(JOB_GROUP, *itself(JOB_GROUP), OUT),),
            BOTH,
            ["into the hosts"],
            id="nothing into the hosts",
        ),
        pytest.param(
            (group(JOB_GROUP, *itself(JOB_GROUP), *lustre("ingress", SERVERS)),),
            BOTH,
            ["out of the hosts"],
            id="nothing out of the hosts",
        ),
    ],
)
def test_lustres_ports_are_open_both_ways(hosts: Any, servers: Any, closed: list[str]) -> None:
    findings = found("FSX004", groups=hosts, file_system_groups=(group(SERVERS, *servers),))
    assert [each.severity for each in findings] == ["error"] * len(closed)
    assert all(part in each.message for part, each in zip(closed, findings, strict=True))


def test_hosts_and_servers_may_share_a_group() -> None:
    shared = (group(JOB_GROUP, *itself(JOB_GROUP), OUT),)
    assert found("FSX004", groups=shared, file_system_groups=shared) == []


@pytest.mark.parametrize(
    "ingress",
    [
        pytest.param(rule("ingress", prefix_lists=["pl-1"]), id="a prefix list"),
        pytest.param(rule("ingress", ipv4=["10.0.0.0/25"]), id="a part of the subnet"),
    ],
)
def test_what_was_not_looked_into_is_said_and_no_error(ingress: Any) -> None:
    (finding,) = found("FSX004", file_system_groups=(group(SERVERS, ingress, OUT),))
    assert (finding.severity, finding.verified, finding.subject) == ("warning", False, SERVERS)


def test_a_file_system_in_a_subnet_that_the_job_does_not_use_is_judged_by_groups() -> None:
    """Its range is not known then, so a range may or may not hold it."""
    elsewhere = replace(FILE_SYSTEM, subnet_id="subnet-z")
    assert found("FSX004", file_system=elsewhere) == []
    by_range = (group(JOB_GROUP, *itself(JOB_GROUP), OUT, rule("ingress", ipv4=["10.0.0.0/16"])),)
    (finding,) = found("FSX004", file_system=elsewhere, groups=by_range)
    assert not finding.verified


def test_a_file_system_without_interfaces_is_not_judged() -> None:
    """While it is created there are none; FSX001 says so."""
    assert found("FSX004", file_system_groups=()) == []
