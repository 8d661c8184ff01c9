"""What training asks of a network: addresses, EFA between the hosts, Lustre's ports, services."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.cluster.security_groups import Passage, SecurityGroup, SecurityGroupRule
from launcher.cluster.training_network import addresses_per_host, efa_passage, lustre_ports, service_of
from launcher.cluster.unknown import Unknown

GROUP, PEER, LATER = "sg-1", "sg-peer", Unknown("${Later}")


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
        pytest.param([out(groups=(LATER,)), out(groups=(GROUP,))], Passage.OPEN, id="one of two is known"),
        pytest.param([out(groups=(LATER,))], Passage.UNKNOWN, id="a peer known later may be itself"),
        pytest.param([out(LATER, groups=(GROUP,))], Passage.UNKNOWN, id="a protocol known later"),
        pytest.param([], Passage.CLOSED, id="nothing"),
        pytest.param([out(groups=(PEER,))], Passage.CLOSED, id="another group"),
        pytest.param([out("tcp", 0, 65535, groups=(GROUP,))], Passage.CLOSED, id="TCP on every port"),
        pytest.param([out("tcp", LATER, LATER, groups=(GROUP,))], Passage.CLOSED, id="TCP, ports later"),
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
