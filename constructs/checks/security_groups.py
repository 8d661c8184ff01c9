"""Security groups of templates: inline rules, rules of their own and EC2's default, in one shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from typing import Any, Literal

from constructs.checks.templates import Resource, Unknown

Direction = Literal["ingress", "egress"]

ANY_ADDRESS = "0.0.0.0/0"

_TYPES: Mapping[str, Direction] = {
    "AWS::EC2::SecurityGroupIngress": "ingress",
    "AWS::EC2::SecurityGroupEgress": "egress",
}
_INLINE: Mapping[Direction, str] = {"ingress": "SecurityGroupIngress", "egress": "SecurityGroupEgress"}
_GROUPS = ("SourceSecurityGroupId", "DestinationSecurityGroupId")
_LISTS = ("SourcePrefixListId", "DestinationPrefixListId")
_LAST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `protocol` is `-1` for all traffic; the ports count for TCP and UDP only."""

    direction: Direction
    protocol: str
    first: int
    last: int
    groups: tuple[str, ...] = ()
    cidrs: tuple[str, ...] = ()
    prefix_lists: tuple[str, ...] = ()

    @property
    def all_traffic(self) -> bool:
        """Whether every protocol passes: the only kind of rule that EFA traffic matches."""
        return self.protocol == "-1"

    @property
    def wide(self) -> bool:
        """Whether all traffic, or at least all of TCP, passes."""
        return self.covers_tcp(1, _LAST_PORT)

    def covers_tcp(self, first: int, last: int) -> bool:
        """Whether these TCP ports pass."""
        if self.all_traffic or isinstance(self.protocol, Unknown):
            return True
        return self.protocol == "tcp" and self.first <= first and last <= self.last

    def names(self, group: str) -> bool:
        """Whether the peer is this group, or may be."""
        return group in self.groups or any(isinstance(peer, Unknown) for peer in self.groups)

    def touches(self, network: str | None) -> bool:
        """Whether an address of the network (None: not known) is among the peers, or may be."""
        return bool(self.prefix_lists) or any(_overlap(cidr, network) for cidr in self.cidrs)

    def __str__(self) -> str:
        ports = f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"
        traffic = "all traffic" if self.all_traffic else f"{self.protocol} {ports}"
        peers = ", ".join((*self.groups, *self.cidrs, *self.prefix_lists)) or "nobody"
        return f"{traffic} {'from' if self.direction == 'ingress' else 'to'} {peers}"


@dataclass(frozen=True, slots=True)
class Group:
    """A security group of the app with all its rules."""

    resource: Resource
    vpc: str | None
    rules: tuple[Rule, ...]

    @property
    def id(self) -> str:
        """The id that rules name it by."""
        return self.resource.id

    def towards(self, direction: Direction) -> list[Rule]:
        """The rules of one direction."""
        return [rule for rule in self.rules if rule.direction == direction]

    def allows_all_to_itself(self, direction: Direction) -> bool:
        """Whether a rule of all traffic names the group itself, as EFA needs it.

        Neither a CIDR nor TCP on every port will do. A rule that only the deployment knows counts.
        """
        return any(
            (rule.all_traffic or isinstance(rule.protocol, Unknown)) and rule.names(self.id)
            for rule in self.towards(direction)
        )

    def described(self, direction: Direction) -> str:
        """The rules of one direction in words, the group called `itself`."""
        return "; ".join(str(rule).replace(self.id, "itself") for rule in self.towards(direction)) or "none"


def security_groups(resources: Iterable[Resource]) -> dict[str, Group]:
    """The groups that the app creates, by id, with the rules that stand on their own put to them."""
    resources = list(resources)
    apart: dict[str, list[Rule]] = {}
    for resource in resources:
        if resource.type in _TYPES:
            rule = _rule(_TYPES[resource.type], resource.properties)
            apart.setdefault(str(resource.properties.get("GroupId")), []).append(rule)
    found = {}
    for resource in resources:
        if resource.type == "AWS::EC2::SecurityGroup":
            rules = [*_inline(resource.properties), *apart.get(resource.id, [])]
            if not any(rule.direction == "egress" for rule in rules):
                # EC2 adds it to a group that is created without egress; the first rule of one's own,
                # inline or not, takes it away (CloudFormation reference, AWS::EC2::SecurityGroup).
                rules.append(Rule("egress", "-1", 0, _LAST_PORT, cidrs=(ANY_ADDRESS,)))
            found[resource.id] = Group(resource, resource.properties.get("VpcId"), tuple(rules))
    return found


def _inline(properties: Mapping[str, Any]) -> Iterator[Rule]:
    for direction, name in _INLINE.items():
        rules = properties.get(name, [])
        for written in rules if isinstance(rules, list) else [rules]:
            yield _rule(direction, written)


def _rule(direction: Direction, written: Any) -> Rule:
    if not isinstance(written, Mapping):
        # An `Fn::If` in the place of a rule.
        unknown = Unknown(str(written))
        return Rule(direction, unknown, 0, _LAST_PORT, (unknown,), (ANY_ADDRESS,))
    return Rule(
        direction,
        _protocol(written.get("IpProtocol", "-1")),
        _port(written.get("FromPort"), 0),
        _port(written.get("ToPort"), _LAST_PORT),
        tuple(written[name] for name in _GROUPS if name in written),
        tuple(written[name] for name in ("CidrIp", "CidrIpv6") if name in written),
        tuple(written[name] for name in _LISTS if name in written),
    )


def _protocol(written: Any) -> str:
    if isinstance(written, Unknown):
        return written
    return {"all": "-1", "6": "tcp", "17": "udp"}.get(str(written).lower(), str(written).lower())


def _port(written: Any, otherwise: int) -> int:
    # A port that only the deployment knows is taken for the widest.
    known = isinstance(written, int) or (isinstance(written, str) and written.isdigit())
    return int(written) if known and int(written) >= 0 else otherwise


def _overlap(cidr: str, network: str | None) -> bool:
    try:
        here, there = ip_network(cidr), ip_network(network or ANY_ADDRESS)
    except ValueError:
        return True  # Not known before the deployment.
    return isinstance(here, IPv4Network) and isinstance(there, IPv4Network) and here.overlaps(there)
