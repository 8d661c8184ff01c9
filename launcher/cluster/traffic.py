"""Security groups, and the traffic that training asks of a network: one judgement for accounts and for
templates."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from enum import IntEnum
from ipaddress import IPv4Network, collapse_addresses
from typing import Final, Literal, TypeAlias

from launcher.cluster.instances import hyperpod_instance_types, instance_facts
from launcher.frozen import frozen


class Unknown(str):
    """A value that only the deployment knows; the same text stands for the same value.

    Whatever judges it gives it the benefit of the doubt: it may be the value that is needed.
    """

    __slots__ = ()


Direction = Literal["ingress", "egress"]
BOTH_WAYS: tuple[Direction, Direction] = ("ingress", "egress")

ALL_TRAFFIC = "-1"
ANY_IPV4 = "0.0.0.0/0"

PortRange: TypeAlias = tuple[int, int]
"""The first and the last port of a range."""

_LAST_PORT = 65535
_MOST_PEERS_IN_WORDS = 4


class Passage(IntEnum):
    """Whether traffic passes. UNKNOWN: it depends on what was not looked into, or is not known yet."""

    CLOSED = 0
    UNKNOWN = 1
    OPEN = 2


@frozen
class SecurityGroupRule:
    """One protocol and range of ports that may pass in one direction, and any number of peers.

    EC2 merges all rules that have direction, protocol and ports in common, so one may name ranges of
    addresses, prefix lists and groups at once. `protocol` is `tcp`, `udp`, `icmp`, a number, or `-1` for
    all traffic; the ports are None where the protocol has none or all of them are meant. In a template
    the protocol, a port, a range or a group may be `Unknown`.
    """

    direction: Direction
    protocol: str
    first_port: int | Unknown | None
    last_port: int | Unknown | None
    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()
    prefix_lists: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def all_traffic(self) -> bool:
        """Whether every protocol passes: the only kind of rule that EFA traffic matches."""
        return self.protocol == ALL_TRAFFIC

    def tcp_passage(self, first: int, last: int) -> Passage:
        """Whether all of these TCP ports pass, to or from the peers of the rule."""
        if self.all_traffic:
            return Passage.OPEN
        if isinstance(self.protocol, Unknown):
            return Passage.UNKNOWN
        lowest = self.first_port if isinstance(self.first_port, int) else 0
        highest = self.last_port if isinstance(self.last_port, int) else _LAST_PORT
        if self.protocol != "tcp" or not lowest <= first <= last <= highest:
            return Passage.CLOSED
        return Passage.UNKNOWN if _any_unknown((self.first_port, self.last_port)) else Passage.OPEN

    def may_name(self, peer_groups: Collection[str], peer_ranges: Sequence[str] | None) -> bool:
        """Whether a peer in these groups and IPv4 ranges is among those of the rule, or may be.

        `peer_ranges` None: not known, so any range may hold the peer. Prefix lists are not looked into.
        """
        return (
            any(group in peer_groups for group in self.groups)
            or bool(self.prefix_lists)
            or _any_unknown((*self.groups, *self.ipv4, *self.ipv6))
            or _hold_some(_networks([self]), peer_ranges)
        )

    def __str__(self) -> str:
        """Such as `TCP 988 from sg-1, sg-2` or `all traffic to 0.0.0.0/0`."""
        peers = [*self.groups, *self.ipv4, *self.ipv6, *self.prefix_lists]
        more = f" and {len(peers) - _MOST_PEERS_IN_WORDS} more" if len(peers) > _MOST_PEERS_IN_WORDS else ""
        way = "from" if self.direction == "ingress" else "to"
        return f"{self._traffic} {way} {', '.join(peers[:_MOST_PEERS_IN_WORDS]) or 'nobody'}{more}"

    @property
    def _traffic(self) -> str:
        if self.all_traffic:
            return "all traffic"
        if isinstance(self.protocol, Unknown):
            return f"the protocol {self.protocol}"
        if self.first_port is None:
            return self.protocol.upper()
        same = self.last_port is None or self.last_port == self.first_port
        ports = str(self.first_port) if same else f"{self.first_port}-{self.last_port}"
        return f"{self.protocol.upper()} {ports}"


@frozen
class SecurityGroup:
    """A security group with all its rules; `vpc_id` is None where it is not known."""

    id: str
    vpc_id: str | None
    rules: tuple[SecurityGroupRule, ...]

    def towards(self, direction: Direction) -> tuple[SecurityGroupRule, ...]:
        """The rules of one direction."""
        return tuple(rule for rule in self.rules if rule.direction == direction)

    def in_words(self, direction: Direction) -> str:
        """What it lets pass in a direction, such as `all traffic to 0.0.0.0/0; TCP 988 to sg-1`."""
        return "; ".join(map(str, self.towards(direction))) or "nothing"


def passage(
    groups: Iterable[SecurityGroup],
    direction: Direction,
    ports: PortRange,
    *,
    peer_groups: Iterable[str] = (),
    peer_ranges: Sequence[str] | None = None,
) -> Passage:
    """Whether all of these TCP ports pass between the members of the groups and a peer.

    A network interface obeys all of its groups together, so each port may pass by another rule of
    another group. The peer is known by its groups, and by the IPv4 ranges in which its address may lie
    (None: not known). A reference to one of its groups opens the way, and so do ranges that together
    hold all of the peer's. A prefix list, a range that holds a part, or what only a deployment knows may
    open it. IPv6 ranges never do: the hosts talk to each other, to FSx and to endpoints over IPv4.
    """
    first, last = ports
    groups_of_peer = frozenset(peer_groups)
    rules = [rule for group in groups for rule in group.towards(direction)]
    return min(_port_passage(rules, port, groups_of_peer, peer_ranges) for port in range(first, last + 1))


def ports_in_words(ports: PortRange) -> str:
    """Such as `TCP 988` or `TCP 1018-1023`."""
    first, last = ports
    return f"TCP {first}" if first == last else f"TCP {first}-{last}"


def _port_passage(
    rules: Sequence[SecurityGroupRule],
    port: int,
    peer_groups: frozenset[str],
    peer_ranges: Sequence[str] | None,
) -> Passage:
    judged = [(rule, rule.tcp_passage(port, port)) for rule in rules]
    surely = [rule for rule, passed in judged if passed is Passage.OPEN]
    if any(not peer_groups.isdisjoint(rule.groups) for rule in surely):
        return Passage.OPEN
    if _hold_all(_networks(surely), peer_ranges):
        return Passage.OPEN
    perhaps = [rule for rule, passed in judged if passed is not Passage.CLOSED]
    if any(rule.may_name(peer_groups, peer_ranges) for rule in perhaps):
        return Passage.UNKNOWN
    return Passage.CLOSED


def _networks(rules: Iterable[SecurityGroupRule]) -> list[IPv4Network]:
    return [
        IPv4Network(cidr, strict=False)
        for rule in rules
        for cidr in rule.ipv4
        if not isinstance(cidr, Unknown)
    ]


def _hold_all(allowed: Iterable[IPv4Network], wanted: Sequence[str] | None) -> bool:
    """Whether ranges hold all addresses of others; those that are not known may be any."""
    whole = list(collapse_addresses(allowed))
    ranges = [IPv4Network(cidr, strict=False) for cidr in ([ANY_IPV4] if wanted is None else wanted)]
    return bool(ranges) and all(any(each.subnet_of(one) for one in whole) for each in ranges)


def _hold_some(allowed: Iterable[IPv4Network], wanted: Sequence[str] | None) -> bool:
    """Whether ranges hold an address of others."""
    ranges = [IPv4Network(cidr, strict=False) for cidr in ([ANY_IPV4] if wanted is None else wanted)]
    return any(each.overlaps(one) for each in ranges for one in allowed)


def _any_unknown(values: Iterable[object]) -> bool:
    return any(isinstance(value, Unknown) for value in values)


LUSTRE_TCP_PORTS: Final[tuple[PortRange, ...]] = ((988, 988), (1018, 1023))
"""The ranges between clients and servers, and among servers, both ways: servers call clients as well
(FSx for Lustre user guide, limit-access-security-groups)."""

HTTPS_PORT: Final = 443
"""The port of every AWS service."""

S3: Final = "s3"
SERVICES: Final = (S3, "ecr.api", "ecr.dkr", "logs", "monitoring", "sts", "sagemaker.api")
"""What a training job calls, by the ends of the names of their VPC endpoints, which together stand in
for a NAT gateway (SageMaker developer guide, train-vpc; ECR user guide, vpc-endpoints). Without S3 no job
starts; without the others some jobs do."""

SECRETS: Final = "secretsmanager"
"""What a job with secrets calls besides."""

SHELL: Final = "ssmmessages"
"""What the agent calls that lets a shell into a container (Systems Manager user guide,
session-manager-getting-started-privatelink)."""

RESERVED_ADDRESSES: Final = 5
"""AWS keeps the first four addresses and the last of every subnet (VPC user guide, subnet-sizing)."""


def addresses_per_host(instance_type: str) -> int:
    """Private addresses that one training host takes: 2, or with EFA 5, or one per EFA interface.

    Source: SageMaker developer guide, train-vpc (5 per EFA instance, 2 per other). From p5 on a host
    has more than 5 EFA interfaces, each with an address of its own. A type that only HyperPod has is
    counted as one with EFA.

    Raises:
        KeyError: neither training jobs nor HyperPod have the type.
    """
    facts = instance_facts(instance_type)
    if facts is None and instance_type in hyperpod_instance_types():
        return 5
    if facts is None:
        raise KeyError(instance_type)
    return max(5, facts.efa_interfaces) if facts.has_efa else 2


def efa_passage(group: SecurityGroup, direction: Direction) -> Passage:
    """Whether EFA traffic passes between the group's own members; it needs both directions.

    Only a rule of all traffic that names the group itself counts: EFA traffic is not IP traffic, so no
    range of addresses matches it, not even 0.0.0.0/0, and TCP on every port is not all traffic (EC2 user
    guide, create-efa).
    """
    judged = [Passage.CLOSED]
    for rule in group.towards(direction):
        itself = group.id in rule.groups
        if rule.all_traffic and itself:
            return Passage.OPEN
        may_be_itself = itself or any(isinstance(peer, Unknown) for peer in rule.groups)
        if may_be_itself and (rule.all_traffic or isinstance(rule.protocol, Unknown)):
            judged.append(Passage.UNKNOWN)
    return max(judged)


def lustre_ports(
    judged: Passage,
    groups: Iterable[SecurityGroup],
    direction: Direction,
    *,
    peer_groups: Iterable[str],
    peer_ranges: Sequence[str] | None,
) -> list[PortRange]:
    """Those of Lustre's port ranges that are judged so, between members of the groups and a peer.

    The peer is known as for `passage`. A range is as good as the worst of its ports.
    """
    groups, peer_groups = tuple(groups), tuple(peer_groups)
    return [
        ports
        for ports in LUSTRE_TCP_PORTS
        if passage(groups, direction, ports, peer_groups=peer_groups, peer_ranges=peer_ranges) is judged
    ]


def service_of(endpoint_service: str) -> str:
    """The end of an endpoint service's name: `ecr.api` of `com.amazonaws.us-west-2.ecr.api`.

    Services that are not AWS's keep their whole name.
    """
    _, _, region_and_service = endpoint_service.partition("amazonaws.")
    return region_and_service.partition(".")[2] or endpoint_service
