"""EFA001 and EFA002: the hosts of a job may talk to each other by one group that names itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.account.facts import Unverified
from launcher.account.network import NetworkAclEntry, Route
from launcher.cluster.traffic import SERVICES, SecurityGroupRule
from launcher.rules.live.network_rules import ANSWERS, lets_pass
from tests.rules.live.states import (
    ANY,
    FRONT,
    INTERNET,
    JOB_GROUP,
    NAT,
    OPEN_ACL,
    OUT,
    S3_GATEWAY,
    SERVERS,
    TRANSIT,
    acl,
    endpoint,
    entry,
    found,
    group,
    itself,
    lustre,
    rule,
    severities,
    subnet,
    table,
)

IN, TO = itself(JOB_GROUP)
REST = lustre("ingress", SERVERS)


@pytest.mark.parametrize(
    ("rules", "codes"),
    [
        pytest.param([IN, TO, OUT], set(), id="all three rules"),
        pytest.param([IN, rule("egress", ipv4=[ANY], groups=[JOB_GROUP])], set(), id="itself beside a CIDR"),
        pytest.param(
            [rule("ingress", groups=["sg-x", JOB_GROUP]), TO, OUT], set(), id="itself beside another group"
        ),
        pytest.param([IN, OUT], {"EFA002"}, id="any address is not itself"),
        pytest.param([IN, rule("egress", ipv6=["::/0"]), OUT], {"EFA002"}, id="any IPv6 address either"),
        pytest.param([IN, rule("egress", prefix_lists=["pl-1"]), OUT], {"EFA002"}, id="nor a prefix list"),
        pytest.param([TO, OUT], {"EFA001"}, id="no ingress"),
        pytest.param([rule("ingress", ipv4=["10.0.0.0/16"]), TO, OUT], {"EFA001"}, id="the VPC's range"),
        pytest.param(
            [rule("ingress", "tcp", (0, 65535), groups=[JOB_GROUP]), TO, OUT], {"EFA001"}, id="TCP 0-65535"
        ),
        pytest.param(
            [IN, rule("egress", "tcp", (0, 65535), groups=[JOB_GROUP]), OUT],
            {"EFA002"},
            id="TCP 0-65535 out",
        ),
        pytest.param([OUT], {"EFA001", "EFA002"}, id="neither"),
    ],
)
def test_all_traffic_to_itself_needs_a_rule_that_names_the_group(
    rules: list[SecurityGroupRule], codes: set[str]
) -> None:
    findings = found(groups=(group(JOB_GROUP, *rules, *REST),))
    assert {each.code for each in findings if each.code.startswith("EFA00")} == codes
    assert all(each.severity == "error" for each in findings)


A_IN, A_TO = itself("sg-a")
B_IN, B_TO = itself("sg-b")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param([A_IN, A_TO], [B_IN, B_TO], {}, id="both good"),
        pytest.param(
            [A_IN, A_TO], [OUT], {("EFA001", "sg-b"): "warning", ("EFA002", "sg-b"): "warning"}, id="one good"
        ),
        pytest.param(
            [OUT],
            [B_IN, B_TO],
            {("EFA001", "sg-a"): "warning", ("EFA002", "sg-a"): "warning"},
            id="the second is good",
        ),
        pytest.param(
            [rule("ingress", groups=["sg-b"]), rule("egress", groups=["sg-b"])],
            [rule("ingress", groups=["sg-a"]), rule("egress", groups=["sg-a"])],
            {("EFA001", "sg-a"): "error", ("EFA002", "sg-a"): "error"},
            id="cross references",
        ),
        pytest.param([A_IN], [B_TO], {("EFA002", "sg-a"): "error"}, id="one rule in each"),
        pytest.param([OUT], [B_IN], {("EFA002", "sg-b"): "error"}, id="the nearer one is told"),
    ],
)
def test_one_group_with_both_rules_is_enough(
    first: list[SecurityGroupRule], second: list[SecurityGroupRule], expected: dict[tuple[str, str], str]
) -> None:
    groups = (group("sg-a", *first), group("sg-b", *second))
    findings = [each for code in ("EFA001", "EFA002") for each in found(code, groups=groups)]
    assert {(each.code, each.subject): each.severity.value for each in findings} == expected


@pytest.mark.parametrize(
    ("hosts", "instance_type", "severity"),
    [(2, "ml.p4d.24xlarge", "error"), (2, "ml.m5.xlarge", "error"), (1, "ml.p4d.24xlarge", "info")],
)
def test_only_several_hosts_need_it_of_whatever_type(hosts: int, instance_type: str, severity: str) -> None:
    state = {"groups": (group(JOB_GROUP, IN, OUT),), "hosts": hosts, "instance_type": instance_type}
    assert severities("EFA002", **state) == {JOB_GROUP: severity}


def test_the_message_says_what_the_group_has_instead() -> None:
    (finding,) = found("EFA002", groups=(group(JOB_GROUP, IN, OUT),))
    assert "all traffic to 0.0.0.0/0" in finding.message
    assert "2 hosts" in finding.message


def test_a_group_that_does_not_exist_is_named_also_for_one_host() -> None:
    state = {"hosts": 1, "request": {"VpcConfig": {"Subnets": ["subnet-a"], "SecurityGroupIds": ["sg-gone"]}}}
    assert severities("EFA001", groups=(), **state) == {"sg-gone": "error"}


PEERS = st.fixed_dictionaries(
    {
        "ipv4": st.lists(st.sampled_from([ANY, "10.0.0.0/8", "0.0.0.0/1"]), max_size=2),
        "ipv6": st.lists(st.sampled_from(["::/0", "fd00::/8"]), max_size=1),
        "prefix_lists": st.lists(st.just("pl-1"), max_size=1),
        "groups": st.lists(st.sampled_from(["sg-a", "sg-b"]), max_size=2),
    }
)
RULES = st.builds(
    lambda direction, protocol, peers: rule(direction, protocol, None, **peers),
    st.sampled_from(["ingress", "egress"]),
    st.sampled_from(["-1", "tcp", "udp"]),
    PEERS,
)


@given(others=st.lists(RULES, max_size=4))
def test_no_rule_that_does_not_name_the_group_replaces_one_that_does(others: list[SecurityGroupRule]) -> None:
    assert {*severities("EFA001", groups=(group(JOB_GROUP, *others),)).values()} == {"error"}
    assert {*severities("EFA002", groups=(group(JOB_GROUP, *others),)).values()} == {"error"}


@given(others=st.lists(RULES, max_size=4))
def test_no_other_rule_spoils_a_good_group(others: list[SecurityGroupRule]) -> None:
    assert found("EFA001", groups=(group(JOB_GROUP, *others, IN, TO),)) == []
    assert found("EFA002", groups=(group(JOB_GROUP, *others, IN, TO),)) == []


LAST = entry(32767, "egress", False)
HTTPS = (443, 443)
NEIGHBOUR, HALF_OF_IT, PRIVATE = "10.0.1.0/24", "10.0.1.0/25", "10.0.0.0/8"


@pytest.mark.parametrize(
    ("entries", "cidr", "passes"),
    [
        pytest.param([entry(100, "egress", True), LAST], ANY, True, id="the default"),
        pytest.param([LAST], ANY, False, id="nothing but the last"),
        pytest.param([], ANY, False, id="nothing at all"),
        pytest.param(
            [entry(50, "egress", False, ports=HTTPS), entry(100, "egress", True), LAST],
            ANY,
            False,
            id="denied before",
        ),
        pytest.param(
            [entry(100, "egress", True), entry(150, "egress", False, ports=HTTPS), LAST],
            ANY,
            True,
            id="denied after",
        ),
        pytest.param([entry(100, "egress", True, ports=HTTPS), LAST], ANY, True, id="HTTPS alone"),
        pytest.param([NetworkAclEntry(100, "egress", True, "17", ANY), LAST], ANY, False, id="UDP alone"),
        pytest.param([entry(100, "ingress", True), LAST], ANY, False, id="the other direction"),
        pytest.param([entry(100, "egress", True, "::/0"), LAST], ANY, False, id="IPv6"),
        pytest.param(
            [entry(50, "egress", False, PRIVATE), entry(100, "egress", True), LAST],
            ANY,
            True,
            id="private addresses are not those of AWS",
        ),
        pytest.param([entry(100, "egress", True, "52.0.0.0/8"), LAST], ANY, None, id="a public range alone"),
        pytest.param([entry(100, "egress", True, PRIVATE), LAST], NEIGHBOUR, True, id="a wider range"),
        pytest.param(
            [entry(50, "egress", False, HALF_OF_IT), entry(100, "egress", True), LAST],
            NEIGHBOUR,
            None,
            id="denied in part",
        ),
    ],
)
def test_first_entry_that_matches_decides(entries: list[Any], cidr: str, passes: bool | None) -> None:
    assert lets_pass(acl(*entries), "egress", HTTPS, cidr) is passes


@pytest.mark.parametrize(
    ("entries", "passes"),
    [
        pytest.param([(True, 1024, 40000), (True, 40001, 65535)], True, id="two entries, side by side"),
        pytest.param([(True, 1024, 40000), (True, 40002, 65535)], False, id="with a port between them"),
        pytest.param([(True, 1024, 50000), (False, 45000, 65535)], False, id="the rest is denied"),
        pytest.param([(True, 1024, 65535), (False, 45000, 65535)], True, id="denied after it was opened"),
    ],
)
def test_entries_open_a_range_together(entries: list[tuple[bool, int, int]], passes: bool) -> None:
    numbered = [
        entry(100 + number, "ingress", allows, ports=(first, last))
        for number, (allows, first, last) in enumerate(entries)
    ]
    assert lets_pass(acl(*numbered), "ingress", ANSWERS, ANY) is passes


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


PRIVATE_way_out = "10.0.0.0/8"


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
    private = acl(entry(100, "ingress", True, PRIVATE_way_out), entry(100, "egress", True, PRIVATE_way_out))
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
