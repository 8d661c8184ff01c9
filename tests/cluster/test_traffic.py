"""Whether traffic passes: rules add up, and what only a deployment knows is neither open nor closed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.traffic import (
    Passage,
    SecurityGroup,
    SecurityGroupRule,
    Unknown,
    addresses_per_host,
    efa_passage,
    lustre_ports,
    passage,
    ports_in_words,
    service_of,
)

LUSTRE, PEER = (1018, 1023), "sg-peer"
LATER = Unknown("${Later}")


def rule(protocol: str = "tcp", first: Any = None, last: Any = None, **peers: Any) -> SecurityGroupRule:
    named = {name: (each,) if isinstance(each, str) else tuple(each) for name, each in peers.items()}
    return SecurityGroupRule("ingress", protocol, first, last, **named)


def passed(*rules: SecurityGroupRule, ranges: list[str] | None = None) -> Passage:
    """The judgement of one group with these rules on Lustre's range, from the peer in these ranges."""
    group = SecurityGroup("sg-1", "vpc-1", rules)
    return passage([group], "ingress", LUSTRE, peer_groups=[PEER], peer_ranges=ranges)


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([rule("-1", groups=PEER)], id="all traffic"),
        pytest.param([rule(groups=PEER)], id="all of TCP"),
        pytest.param([rule("tcp", 1018, 1023, groups=PEER)], id="the very ports"),
        pytest.param(
            [rule("tcp", 1018, 1020, groups=PEER), rule("tcp", 1021, 1023, groups=PEER)], id="in two pieces"
        ),
        pytest.param(
            [rule("tcp", 1018, 1021, groups=PEER), rule("tcp", 1020, 1023, groups=PEER)],
            id="in pieces that overlap",
        ),
        pytest.param([rule("tcp", port, port, groups=PEER) for port in range(1018, 1024)], id="port by port"),
        pytest.param(
            [rule("tcp", 1018, 1020, groups=PEER), rule("tcp", 1021, 1023, ipv4="0.0.0.0/0")],
            id="one piece by group, one by address",
        ),
        pytest.param([rule(ipv4=["0.0.0.0/1", "128.0.0.0/1"])], id="two halves of all addresses"),
    ],
)
def test_every_port_passes_by_some_rule(rules: list[SecurityGroupRule]) -> None:
    assert passed(*rules) is Passage.OPEN


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([], id="nothing"),
        pytest.param(
            [rule("tcp", 1018, 1019, groups=PEER), rule("tcp", 1021, 1023, groups=PEER)], id="a port between"
        ),
        pytest.param([rule("udp", 0, 65535, groups=PEER)], id="UDP"),
        pytest.param([rule(groups="sg-other")], id="another group"),
        pytest.param([rule(ipv6="::/0")], id="IPv6"),
        pytest.param([SecurityGroupRule("egress", "-1", None, None, groups=(PEER,))], id="the other way"),
    ],
)
def test_a_port_that_no_rule_lets_pass_closes_the_range(rules: list[SecurityGroupRule]) -> None:
    assert passed(*rules) is Passage.CLOSED


@pytest.mark.parametrize(
    "rules",
    [
        pytest.param([rule(prefix_lists="pl-1")], id="a prefix list"),
        pytest.param([rule(ipv4="10.0.0.0/8")], id="a range that may hold the peer"),
        pytest.param([rule(LATER, groups=PEER)], id="a protocol known later"),
        pytest.param([rule("tcp", LATER, 1023, groups=PEER)], id="a port known later"),
        pytest.param([rule(groups=LATER)], id="a group known later"),
        pytest.param([rule(ipv4=LATER)], id="a range known later"),
        pytest.param(
            [rule("tcp", 1018, 1020, groups=PEER), rule("tcp", 1021, 1023, groups=LATER)],
            id="one piece known later",
        ),
    ],
)
def test_what_is_not_known_is_neither_open_nor_closed(rules: list[SecurityGroupRule]) -> None:
    assert passed(*rules) is Passage.UNKNOWN


def test_a_rule_without_ports_is_about_the_first_and_the_last() -> None:
    assert SecurityGroupRule("ingress", "tcp", None, None).tcp_passage(0, 65535) is Passage.OPEN


def test_a_port_known_later_does_not_open_what_the_known_one_excludes() -> None:
    assert passed(rule("tcp", LATER, 1020, groups=PEER)) is Passage.CLOSED


@pytest.mark.parametrize(
    ("allowed", "ranges", "judged"),
    [
        ("10.0.0.0/16", ["10.0.1.0/24"], Passage.OPEN),
        ("10.0.1.0/25", ["10.0.1.0/24"], Passage.UNKNOWN),
        ("10.0.1.0/24", ["10.0.1.0/24", "10.0.2.0/24"], Passage.UNKNOWN),
        ("10.1.0.0/16", ["10.0.1.0/24"], Passage.CLOSED),
        ("10.0.0.0/16", [], Passage.CLOSED),
    ],
)
def test_ranges_are_compared_with_those_of_the_peer(allowed: str, ranges: list[str], judged: Passage) -> None:
    assert passed(rule(ipv4=allowed), ranges=ranges) is judged


def test_groups_of_an_interface_add_up() -> None:
    groups = [
        SecurityGroup("sg-1", None, (rule("tcp", 1018, 1020, groups=PEER),)),
        SecurityGroup("sg-2", None, (rule("tcp", 1021, 1023, groups=PEER),)),
    ]

    assert passage(groups, "ingress", LUSTRE, peer_groups=[PEER]) is Passage.OPEN
    assert passage(groups[:1], "ingress", LUSTRE, peer_groups=[PEER]) is Passage.CLOSED


SOME = st.builds(
    lambda protocol, ports, peers: rule(protocol, *ports, **peers),
    st.sampled_from(["-1", "tcp", "udp", LATER]),
    st.sampled_from([(None, None), (1018, 1020), (1021, 1023), (LATER, 1023), (988, 988)]),
    st.sampled_from([{"groups": PEER}, {"groups": LATER}, {"ipv4": "10.0.0.0/8"}, {"prefix_lists": "pl-1"}]),
)


@given(rules=st.lists(SOME, max_size=4), other=SOME)
def test_another_rule_never_closes_what_passed(rules: list[SecurityGroupRule], other: Any) -> None:
    assert passed(*rules, other) >= passed(*rules)


@pytest.mark.parametrize(
    ("judged", "words"),
    [
        (rule("-1", groups=PEER), "all traffic from sg-peer"),
        (rule("tcp", 988, 988, groups=PEER), "TCP 988 from sg-peer"),
        (rule("tcp", 0, 65535, groups=PEER, ipv4="10.0.0.0/8"), "TCP 0-65535 from sg-peer, 10.0.0.0/8"),
        (rule("icmp", ipv4="10.0.0.0/8"), "ICMP from 10.0.0.0/8"),
        (rule(LATER, groups=PEER), "the protocol ${Later} from sg-peer"),
        (rule(groups=[f"sg-{number}" for number in range(6)]), "TCP from sg-0, sg-1, sg-2, sg-3 and 2 more"),
        (rule(), "TCP from nobody"),
    ],
)
def test_a_rule_is_told_by_traffic_and_peers(judged: SecurityGroupRule, words: str) -> None:
    assert str(judged) == words


def test_a_group_is_told_by_its_rules_of_a_direction() -> None:
    group = SecurityGroup("sg-1", None, (rule("-1", groups=PEER), rule("tcp", 443, 443, groups=PEER)))

    assert group.in_words("ingress") == "all traffic from sg-peer; TCP 443 from sg-peer"
    assert group.in_words("egress") == "nothing"


def test_ports_are_told_as_one_or_as_a_range() -> None:
    assert [ports_in_words(each) for each in ((988, 988), LUSTRE)] == ["TCP 988", "TCP 1018-1023"]


GROUP = "sg-1"


@pytest.mark.parametrize(
    ("instance_type", "addresses"),
    [
        ("ml.m5.xlarge", 2),
        ("ml.g5.12xlarge", 5),
        ("ml.p4d.24xlarge", 5),
        ("ml.p5.48xlarge", 32),
        ("ml.p5en.48xlarge", 16),
        ("ml.trn1.32xlarge", 8),
    ],
)
def test_addresses_of_a_host(instance_type: str, addresses: int) -> None:
    assert addresses_per_host(instance_type) == addresses


def test_addresses_of_a_type_that_does_not_exist_are_refused() -> None:
    with pytest.raises(KeyError):
        addresses_per_host("ml.p6.large")


def out(protocol: Any = "-1", first: Any = None, last: Any = None, **peers: Any) -> SecurityGroupRule:
    return SecurityGroupRule("egress", protocol, first, last, **peers)


@pytest.mark.parametrize(
    ("rules", "judged"),
    [
        pytest.param([out(groups=(GROUP,))], Passage.OPEN, id="all traffic to itself"),
        pytest.param([out(groups=(PEER, GROUP))], Passage.OPEN, id="to itself beside others"),
        pytest.param(
            [out(groups=(LATER,)), out(groups=(GROUP,))],
            Passage.OPEN,
            id="one of two is known",
        ),
        pytest.param([out(groups=(LATER,))], Passage.UNKNOWN, id="a peer known later may be itself"),
        pytest.param([out(LATER, groups=(GROUP,))], Passage.UNKNOWN, id="a protocol known later"),
        pytest.param([], Passage.CLOSED, id="nothing"),
        pytest.param([out(groups=(PEER,))], Passage.CLOSED, id="another group"),
        pytest.param([out("tcp", 0, 65535, groups=(GROUP,))], Passage.CLOSED, id="TCP on every port"),
        pytest.param(
            [out("tcp", LATER, LATER, groups=(GROUP,))],
            Passage.CLOSED,
            id="TCP, ports later",
        ),
        pytest.param([out(ipv4=("0.0.0.0/0",))], Passage.CLOSED, id="any address"),
        pytest.param([out(ipv4=(LATER,))], Passage.CLOSED, id="a range known later"),
        pytest.param([out(prefix_lists=("pl-1",))], Passage.CLOSED, id="a prefix list"),
    ],
)
def test_efa_passes_by_a_rule_of_all_traffic_that_names_the_group(rules: Any, judged: Passage) -> None:
    group = SecurityGroup(GROUP, "vpc-1", tuple(rules))

    assert efa_passage(group, "egress") is judged
    assert efa_passage(group, "ingress") is Passage.CLOSED


@pytest.mark.parametrize(
    ("ports", "closed"),
    [
        ([(988, 988), (1018, 1023)], []),
        ([(988, 988), (1018, 1020), (1021, 1023)], []),
        ([(988, 1023)], []),
        ([(988, 988), (1021, 1023)], [(1018, 1023)]),
        ([(1018, 1023)], [(988, 988)]),
        ([], [(988, 988), (1018, 1023)]),
    ],
)
def test_lustre_needs_every_port_of_both_ranges(ports: Any, closed: Any) -> None:
    group = SecurityGroup(GROUP, "vpc-1", tuple(out("tcp", *each, groups=(PEER,)) for each in ports))

    found = lustre_ports(Passage.CLOSED, [group], "egress", peer_groups=[PEER], peer_ranges=None)

    assert found == closed


@pytest.mark.parametrize(
    ("name", "service"),
    [
        ("com.amazonaws.us-west-2.ecr.api", "ecr.api"),
        ("cn.com.amazonaws.cn-north-1.ecr.dkr", "ecr.dkr"),
        ("com.amazonaws.${AWS::Region}.s3", "s3"),
        ("com.example.thing", "com.example.thing"),
    ],
)
def test_service_is_the_end_of_its_name(name: str, service: str) -> None:
    assert service_of(name) == service
