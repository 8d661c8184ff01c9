"""Security groups, and whether they let traffic pass: one judgement for accounts and for templates.

An account holds groups and rules as EC2 describes them. A synthesized template holds the same, but for
values that only its deployment knows: these are `Unknown`, and what depends on one is neither open nor
closed. Rules add up: what passes by several of them together passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Network, collapse_addresses
from typing import Literal, TypeAlias

from launcher.cluster.unknown import Unknown

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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
