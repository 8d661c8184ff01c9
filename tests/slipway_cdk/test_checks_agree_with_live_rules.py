"""The same security groups are judged alike: in a template at synthesis, and in the account afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from launcher.cluster.traffic import ANY_IPV4, LUSTRE_TCP_PORTS, Direction, SecurityGroupRule
from tests.rules.live.states import JOB_GROUP, SERVERS, found, group, itself, rule
from tests.slipway_cdk.checking import VPC, judged

SUBNET = "10.0.0.0/24"
NAMES = {JOB_GROUP: "Hosts", SERVERS: "Servers"}
SPLIT = ((988, 988), (1018, 1020), (1021, 1023))
PORT_BY_PORT = tuple((port, port) for port in (988, *range(1018, 1024)))
BOTH: tuple[Direction, Direction] = ("ingress", "egress")


@dataclass(frozen=True)
class Groups:
    """The rules of the hosts' group and of the file system's, beside those that both always have."""

    hosts: tuple[SecurityGroupRule, ...]
    servers: tuple[SecurityGroupRule, ...]


def opened(peer: str, ports: Any = LUSTRE_TCP_PORTS, ways: Any = BOTH) -> tuple[SecurityGroupRule, ...]:
    """Rules of TCP on these ranges of ports, from and to a group."""
    return tuple(rule(way, "tcp", each, groups=[peer]) for way in ways for each in ports)


def by_address(cidr: str, ports: Any = LUSTRE_TCP_PORTS) -> tuple[SecurityGroupRule, ...]:
    return tuple(rule(way, "tcp", each, ipv4=[cidr]) for way in BOTH for each in ports)


HOSTS = opened(SERVERS)


@pytest.mark.parametrize(
    ("groups", "verdict"),
    [
        pytest.param(Groups(HOSTS, opened(JOB_GROUP)), "open", id="the two ranges"),
        pytest.param(Groups(HOSTS, opened(JOB_GROUP, SPLIT)), "open", id="the second in two pieces"),
        pytest.param(Groups(opened(SERVERS, SPLIT), opened(JOB_GROUP)), "open", id="in pieces at the hosts"),
        pytest.param(Groups(HOSTS, opened(JOB_GROUP, PORT_BY_PORT)), "open", id="a rule for each port"),
        pytest.param(Groups(HOSTS, opened(JOB_GROUP, [(988, 1023)])), "open", id="one range over all"),
        pytest.param(
            Groups(HOSTS, (*opened(JOB_GROUP, [(988, 1020)]), *by_address(ANY_IPV4, [(1021, 1023)]))),
            "open",
            id="one piece by group, one by address",
        ),
        pytest.param(
            Groups(HOSTS, tuple(rule(way, groups=[JOB_GROUP]) for way in BOTH)), "open", id="all traffic"
        ),
        pytest.param(Groups(HOSTS, by_address(ANY_IPV4)), "open", id="any address"),
        pytest.param(Groups(by_address(SUBNET), opened(JOB_GROUP)), "open", id="the subnet's range"),
        pytest.param(
            Groups(
                HOSTS,
                tuple(rule(way, "tcp", each, prefix_lists=["pl-1"]) for way in BOTH for each in SPLIT),
            ),
            "unknown",
            id="a prefix list",
        ),
        pytest.param(Groups(by_address("10.0.0.0/25"), opened(JOB_GROUP)), "unknown", id="half the subnet"),
        pytest.param(Groups(HOSTS, opened(JOB_GROUP, [(988, 988)])), "closed", id="988 alone"),
        pytest.param(
            Groups(HOSTS, opened(JOB_GROUP, [(988, 988), (1021, 1023)])), "closed", id="988 and 1021-1023"
        ),
        pytest.param(
            Groups(HOSTS, opened(JOB_GROUP, [(988, 988), (1018, 1019), (1021, 1023)])),
            "closed",
            id="in pieces without 1020",
        ),
        pytest.param(Groups(HOSTS, opened(JOB_GROUP, ways=["ingress"])), "closed", id="nothing out"),
        pytest.param(Groups(HOSTS, opened(JOB_GROUP, ways=["egress"])), "closed", id="nothing in"),
        pytest.param(
            Groups(opened(SERVERS, ways=["egress"]), opened(JOB_GROUP)), "closed", id="nothing into the hosts"
        ),
        pytest.param(
            Groups(HOSTS, tuple(rule(way, "udp", (0, 65535), groups=[JOB_GROUP]) for way in BOTH)),
            "closed",
            id="UDP",
        ),
        pytest.param(Groups(by_address("192.168.0.0/16"), opened(JOB_GROUP)), "closed", id="another range"),
    ],
)
def test_lustres_ports_have_one_verdict(groups: Groups, verdict: str) -> None:
    at_synthesis = [each for each in _at_synthesis(groups) if each.code == "FSX004"]
    live = _live("FSX004", groups)

    assert bool(at_synthesis) is (verdict == "closed")
    assert any(each.severity == "error" for each in live) is (verdict == "closed")
    assert any(not each.verified for each in live) is (verdict == "unknown")


TO_ITSELF = dict(zip(BOTH, itself(JOB_GROUP), strict=True))
TCP = {way: rule(way, "tcp", (0, 65535), groups=[JOB_GROUP]) for way in BOTH}
ADDRESS = {way: rule(way, ipv4=[ANY_IPV4]) for way in BOTH}
PREFIX_LIST = {way: rule(way, prefix_lists=["pl-1"]) for way in BOTH}


@pytest.mark.parametrize("ingress", [TO_ITSELF, TCP, ADDRESS, PREFIX_LIST, None])
@pytest.mark.parametrize("egress", [TO_ITSELF, TCP, ADDRESS, PREFIX_LIST, None])
def test_efas_rules_have_one_verdict(ingress: Any, egress: Any) -> None:
    """Nothing but all traffic to the group itself will do, whatever stands beside it."""
    chosen = [held[way] for way, held in (("ingress", ingress), ("egress", egress)) if held]
    groups = Groups((*chosen, rule("egress", "tcp", 443, ipv4=[ANY_IPV4])), ())
    lacking = {code for code, held in (("EFA001", ingress), ("EFA002", egress)) if held is not TO_ITSELF}

    at_synthesis = {each.code for each in _at_synthesis(groups) if each.code in ("EFA001", "EFA002")}
    live = {each.code for code in ("EFA001", "EFA002") for each in _live(code, groups)}

    assert at_synthesis == live == lacking


def _at_synthesis(groups: Groups) -> list[Any]:
    """What the rule pack finds in a template with these groups."""
    rules = {JOB_GROUP: groups.hosts, SERVERS: (*opened(SERVERS), *groups.servers)}
    resources = {name: _empty_group() for name in NAMES.values()}
    for id_, held in rules.items():
        for number, each in enumerate(held):
            resources |= _as_resources(f"{NAMES[id_]}{number}", NAMES[id_], each)
    return judged({**VPC, **resources, **_SUBNET, **_FILE_SYSTEM}, efa_groups=["Hosts"])


def _live(code: str, groups: Groups) -> list[Any]:
    """What the live rules find of a code in an account with these groups."""
    return found(
        code, groups=(group(JOB_GROUP, *groups.hosts),), file_system_groups=(group(SERVERS, *groups.servers),)
    )


def _as_resources(name: str, of: str, held: SecurityGroupRule) -> dict[str, Any]:
    """A rule as CloudFormation has it: a resource for each peer."""
    side = "Source" if held.direction == "ingress" else "Destination"
    peers: Iterable[tuple[str, Any]] = (
        *((f"{side}SecurityGroupId", {"Ref": NAMES[each]}) for each in held.groups),
        *(("CidrIp", each) for each in held.ipv4),
        *((f"{side}PrefixListId", each) for each in held.prefix_lists),
    )
    traffic: dict[str, Any] = {"GroupId": {"Ref": of}, "IpProtocol": held.protocol}
    if held.first_port is not None:
        traffic |= {"FromPort": held.first_port, "ToPort": held.last_port}
    return {
        f"{name}{number}": {
            "Type": f"AWS::EC2::SecurityGroup{held.direction.title()}",
            "Properties": {**traffic, key: peer},
        }
        for number, (key, peer) in enumerate(peers)
    }


def _empty_group() -> dict[str, Any]:
    properties = {"GroupDescription": "a group", "VpcId": {"Ref": "Vpc"}, "SecurityGroupEgress": []}
    return {"Type": "AWS::EC2::SecurityGroup", "Properties": properties}


_SUBNET = {
    "Subnet": {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": SUBNET, "AvailabilityZone": "us-west-2a"},
    }
}
_FILE_SYSTEM = {
    "Fs": {
        "Type": "AWS::FSx::FileSystem",
        "Properties": {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": 1200,
            "SubnetIds": [{"Ref": "Subnet"}],
            "SecurityGroupIds": [{"Ref": "Servers"}],
            "LustreConfiguration": {"DeploymentType": "SCRATCH_2"},
        },
    }
}
