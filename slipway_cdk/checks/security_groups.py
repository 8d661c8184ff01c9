"""Security groups of templates: inline rules, rules of their own and EC2's default, in one shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_network
from typing import Any

from launcher.cluster.traffic import (
    ALL_TRAFFIC,
    ANY_IPV4,
    Direction,
    SecurityGroup,
    SecurityGroupRule,
    Unknown,
)
from slipway_cdk.checks.templates import Resource

_TYPES: Mapping[str, Direction] = {
    "AWS::EC2::SecurityGroupIngress": "ingress",
    "AWS::EC2::SecurityGroupEgress": "egress",
}
_INLINE: Mapping[Direction, str] = {"ingress": "SecurityGroupIngress", "egress": "SecurityGroupEgress"}
_GROUPS = ("SourceSecurityGroupId", "DestinationSecurityGroupId")
_LISTS = ("SourcePrefixListId", "DestinationPrefixListId")
_PROTOCOLS = {"all": ALL_TRAFFIC, "6": "tcp", "17": "udp"}


def security_groups(resources: Iterable[Resource]) -> dict[str, SecurityGroup]:
    """The groups that the app creates, by id, with the rules that stand on their own put to them."""
    resources = list(resources)
    apart: dict[str, list[SecurityGroupRule]] = {}
    for resource in resources:
        if resource.type in _TYPES:
            rule = _rule(_TYPES[resource.type], resource.properties)
            apart.setdefault(str(resource.properties.get("GroupId")), []).append(rule)
    found = {}
    for resource in resources:
        if resource.type == "AWS::EC2::SecurityGroup":
            rules = [*_inline(resource.properties), *apart.get(resource.id, [])]
            if not any(rule.direction == "egress" for rule in rules):
                # EC2 adds it to a group that is created without egress. It is not counted on where there
                # are rules of one's own: inline ones keep it from being added, and the first one that is
                # separate has been seen to take it away (aws-cdk issue 987).
                rules.append(SecurityGroupRule("egress", ALL_TRAFFIC, None, None, ipv4=(ANY_IPV4,)))
            found[resource.id] = SecurityGroup(resource.id, resource.properties.get("VpcId"), tuple(rules))
    return found


def _inline(properties: Mapping[str, Any]) -> Iterator[SecurityGroupRule]:
    for direction, name in _INLINE.items():
        rules = properties.get(name, [])
        for written in rules if isinstance(rules, list) else [rules]:
            yield _rule(direction, written)


def _rule(direction: Direction, written: Any) -> SecurityGroupRule:
    if not isinstance(written, Mapping):
        # An `Fn::If` in the place of a rule.
        unknown = Unknown(str(written))
        return SecurityGroupRule(direction, unknown, None, None, ipv4=(unknown,), groups=(unknown,))
    ranges = [_range(written[name]) for name in ("CidrIp", "CidrIpv6") if name in written]
    return SecurityGroupRule(
        direction,
        _protocol(written.get("IpProtocol", ALL_TRAFFIC)),
        _port(written.get("FromPort")),
        _port(written.get("ToPort")),
        ipv4=tuple(each for each in ranges if ":" not in each or isinstance(each, Unknown)),
        ipv6=tuple(each for each in ranges if ":" in each and not isinstance(each, Unknown)),
        prefix_lists=tuple(written[name] for name in _LISTS if name in written),
        groups=tuple(written[name] for name in _GROUPS if name in written),
    )


def _protocol(written: Any) -> str:
    if isinstance(written, Unknown):
        return written
    return _PROTOCOLS.get(str(written).lower(), str(written).lower())


def _port(written: Any) -> int | Unknown | None:
    """A port; None for -1, which means all of them."""
    if isinstance(written, int) or (isinstance(written, str) and written.isdigit()):
        return int(written) if int(written) >= 0 else None
    return None if written in (None, "-1") else Unknown(str(written))


def _range(written: Any) -> str:
    """A range of addresses; what is not one may become one by the deployment."""
    try:
        return str(ip_network(written))
    except ValueError:
        return Unknown(str(written))
