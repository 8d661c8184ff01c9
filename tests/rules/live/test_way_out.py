"""EFA003: from each subnet the hosts reach S3 and the services, by a route or by endpoints."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.account.facts import Unverified
from launcher.account.network import Route
from launcher.cluster.training_network import SERVICES
from tests.rules.live.states import (
    ANY,
    FRONT,
    INTERNET,
    JOB_GROUP,
    NAT,
    OPEN_ACL,
    OUT,
    S3_GATEWAY,
    TRANSIT,
    acl,
    endpoint,
    entry,
    found,
    group,
    itself,
    rule,
    severities,
    subnet,
    table,
)

HTTPS_OUT = rule("egress", "tcp", 443, ipv4=[ANY])
HTTPS_TO_FRONT = rule("egress", "tcp", 443, groups=[FRONT])
TO_S3 = rule("egress", "tcp", 443, prefix_lists=["pl-s3"])
FROM_JOB = rule("ingress", "tcp", 443, groups=[JOB_GROUP])
INTERFACES = tuple(endpoint(service) for service in SERVICES if service != "s3")


def job_group(*rules: Any) -> Any:
    return (group(JOB_GROUP, *itself(JOB_GROUP), *rules),)


@pytest.mark.parametrize(
    ("route", "egress", "severity"),
    [
        pytest.param(NAT, [OUT], None, id="NAT and any egress"),
        pytest.param(NAT, [HTTPS_OUT], None, id="NAT and HTTPS to any address"),
        pytest.param(
            NAT,
            [rule("egress", "tcp", 443, ipv4=["0.0.0.0/1", "128.0.0.0/1"])],
            None,
            id="two halves of all addresses",
        ),
        pytest.param(TRANSIT, [OUT], None, id="transit gateway"),
        pytest.param(INTERNET, [OUT], "warning", id="internet gateway, but private addresses"),
        pytest.param(NAT, [], "error", id="no egress but to itself"),
        pytest.param(NAT, [rule("egress", "tcp", 80, ipv4=[ANY])], "error", id="HTTP alone"),
        pytest.param(NAT, [rule("egress", ipv6=["::/0"])], "error", id="IPv6 alone"),
        pytest.param(NAT, [rule("egress", ipv4=["10.0.0.0/8"])], "error", id="private addresses alone"),
        pytest.param(replace(NAT, active=False), [OUT], "error", id="deleted NAT gateway"),
        pytest.param(Route("172.16.0.0/12", "nat-1", "nat", True), [OUT], "error", id="route to a part"),
        pytest.param(Route("10.0.0.0/16", "local", "local", True), [OUT], "error", id="local route"),
    ],
)
def test_a_route_needs_egress_to_any_address_and_a_gateway_behind_it(
    route: Route, egress: list[Any], severity: str | None
) -> None:
    (judged,) = severities("EFA003", route_tables=(table(route),), groups=job_group(*egress)).values() or [
        None
    ]
    assert judged == severity


def test_groups_together_open_the_way() -> None:
    assert found("EFA003", groups=(*job_group(), group("sg-out", HTTPS_OUT))) == []


def test_the_message_names_route_table_and_egress() -> None:
    (finding,) = found("EFA003", route_tables=(table(),), groups=job_group())
    assert "rtb-1" in finding.message
    assert "all traffic to sg-job" in finding.message


@pytest.mark.parametrize(
    ("endpoints", "egress", "front", "severity"),
    [
        pytest.param((S3_GATEWAY, *INTERFACES), [HTTPS_TO_FRONT, TO_S3], [FROM_JOB], None, id="all of them"),
        pytest.param((S3_GATEWAY, *INTERFACES), [OUT], [FROM_JOB], None, id="any egress"),
        pytest.param(
            (S3_GATEWAY, *INTERFACES),
            [rule("egress", "tcp", 443, ipv4=["10.0.0.0/16"]), TO_S3],
            [rule("ingress", "tcp", 443, ipv4=["10.0.0.0/16"])],
            None,
            id="by the VPC's range",
        ),
        pytest.param((S3_GATEWAY, *INTERFACES), [HTTPS_TO_FRONT], [FROM_JOB], "error", id="no egress to S3"),
        pytest.param(INTERFACES, [OUT], [FROM_JOB], "error", id="no endpoint for S3"),
        pytest.param((S3_GATEWAY,), [TO_S3], [], "warning", id="S3 alone"),
        pytest.param(
            (endpoint("s3", security_group_ids=("sg-s3",)), *INTERFACES),
            [rule("egress", "tcp", 443, groups=["sg-s3"])],
            [FROM_JOB],
            "warning",
            id="no egress to the front",
        ),
        pytest.param((S3_GATEWAY, *INTERFACES), [TO_S3], [FROM_JOB], None, id="a prefix list may hold them"),
        pytest.param((S3_GATEWAY, *INTERFACES), [OUT], [], "warning", id="a front that admits nobody"),
        pytest.param(
            (S3_GATEWAY, *INTERFACES),
            [OUT],
            [rule("ingress", "tcp", 443, groups=["sg-other"])],
            "warning",
            id="a front that admits others",
        ),
        pytest.param(
            (replace(S3_GATEWAY, route_table_ids=("rtb-other",)), *INTERFACES),
            [OUT],
            [FROM_JOB],
            "error",
            id="S3 in another route table",
        ),
        pytest.param(
            (S3_GATEWAY, *INTERFACES[1:], replace(INTERFACES[0], state="pending")),
            [OUT],
            [FROM_JOB],
            "warning",
            id="one not available",
        ),
        pytest.param(
            (endpoint("s3"), *INTERFACES), [HTTPS_TO_FRONT], [FROM_JOB], None, id="an interface for S3"
        ),
    ],
)
def test_without_a_route_the_endpoints_must_be_there_and_open(
    endpoints: Any, egress: list[Any], front: list[Any], severity: str | None
) -> None:
    judged = severities(
        "EFA003",
        route_tables=(table(),),
        endpoints=endpoints,
        endpoint_groups=(group(FRONT, *front),),
        groups=job_group(*egress),
    )
    assert list(judged.values()) == ([] if severity is None else [severity])


def test_missing_endpoints_are_named() -> None:
    (finding,) = found("EFA003", route_tables=(table(),), endpoints=(S3_GATEWAY,), groups=job_group(TO_S3))
    assert "ecr.api, ecr.dkr, logs" in finding.message
    assert "s3," not in finding.message


def test_endpoints_are_not_missed_where_a_route_leads_out() -> None:
    denied = Unverified("the VPC endpoints", "ec2:DescribeVpcEndpoints", "not you")
    assert found("EFA003", endpoints=denied, endpoint_groups=denied) == []
    (finding,) = found("EFA003", endpoints=denied, endpoint_groups=denied, route_tables=(table(),))
    assert not finding.verified
    assert "ec2:DescribeVpcEndpoints" in finding.message


def test_every_subnet_is_judged() -> None:
    """The service may place the job in any of them."""
    subnets = (subnet(), subnet("subnet-b", cidr="10.0.1.0/24"))
    assert severities("EFA003", subnets=subnets) == {"subnet-b": "error"}


PRIVATE = "10.0.0.0/8"


@pytest.mark.parametrize(
    ("routes", "endpoints", "closed"),
    [
        pytest.param([], (endpoint("s3"), *INTERFACES), False, id="an interface for S3"),
        pytest.param([], (S3_GATEWAY, *INTERFACES), True, id="a gateway for S3, at public addresses"),
        pytest.param([NAT], (endpoint("s3"), *INTERFACES), True, id="NAT beside it"),
    ],
)
def test_an_acl_for_private_addresses_is_enough_where_s3_is_in_the_vpc(
    routes: Any, endpoints: Any, closed: bool
) -> None:
    private = acl(entry(100, "ingress", True, PRIVATE), entry(100, "egress", True, PRIVATE))
    findings = found("EFA003", route_tables=(table(*routes),), endpoints=endpoints, acls=(private,))
    assert [each.subject for each in findings] == (["acl-1"] if closed else [])


@pytest.mark.parametrize(
    ("entries", "closed"),
    [
        pytest.param(OPEN_ACL, [], id="all open"),
        pytest.param([entry(100, "ingress", True)], ["TCP 443 out"], id="nothing out"),
        pytest.param([entry(100, "egress", True)], ["answers"], id="no answers"),
        pytest.param(
            [entry(90, "egress", False, ports=(443, 443)), *OPEN_ACL],
            ["TCP 443 out"],
            id="HTTPS denied first",
        ),
        pytest.param([*OPEN_ACL, entry(200, "egress", False)], [], id="denied too late"),
        pytest.param(
            [entry(100, "ingress", True, ports=(1024, 65535)), entry(100, "egress", True, ports=(443, 443))],
            [],
            id="just what is needed",
        ),
        *(
            pytest.param(
                [
                    entry(100, "ingress", True, ports=(32768, last)),
                    entry(100, "egress", True, ports=(443, 443)),
                ],
                closed,
                id=f"answers on 32768 to {last}, where hosts await them up to 60999",
            )
            for last, closed in ((60999, []), (60998, ["answers"]))
        ),
        pytest.param(
            [entry(100, "ingress", True), entry(100, "egress", True, "10.0.0.0/8")],
            ["TCP 443 out"],
            id="private addresses alone",
        ),
        pytest.param(
            [*OPEN_ACL, entry(50, "egress", False, "10.0.0.0/8")], [], id="private addresses are not AWS's"
        ),
        pytest.param(
            [entry(100, "ingress", True), entry(100, "egress", True, "52.0.0.0/8")], [], id="it depends"
        ),
        pytest.param(
            [
                entry(90, "egress", True, "52.0.0.0/8"),
                entry(95, "egress", False),
                entry(100, "ingress", True),
            ],
            [],
            id="it depends, with the rest denied",
        ),
    ],
)
def test_the_network_acl_can_close_the_way(entries: Any, closed: list[str]) -> None:
    ordered = sorted(entries, key=lambda each: each.number)
    findings = [each for each in found("EFA003", acls=(acl(*ordered),)) if each.subject == "acl-1"]
    assert len(findings) == bool(closed)
    assert all(word in findings[0].message for word in closed)
