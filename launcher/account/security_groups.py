"""The security groups of the account, with every rule that EC2 describes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.cluster.security_groups import Direction, SecurityGroup, SecurityGroupRule

_NAMES = {"6": "tcp", "17": "udp"}


def parse_security_group(described: Mapping[str, Any]) -> SecurityGroup:
    """A group from one element of DescribeSecurityGroups."""
    return SecurityGroup(
        id=described["GroupId"],
        vpc_id=described.get("VpcId"),
        rules=(
            *(_rule("ingress", each) for each in described.get("IpPermissions", ())),
            *(_rule("egress", each) for each in described.get("IpPermissionsEgress", ())),
        ),
    )


def _rule(direction: Direction, described: Mapping[str, Any]) -> SecurityGroupRule:
    protocol = str(described["IpProtocol"])
    return SecurityGroupRule(
        direction=direction,
        protocol=_NAMES.get(protocol, protocol),
        first_port=_port(described.get("FromPort")),
        last_port=_port(described.get("ToPort")),
        ipv4=_each(described, "IpRanges", "CidrIp"),
        ipv6=_each(described, "Ipv6Ranges", "CidrIpv6"),
        prefix_lists=_each(described, "PrefixListIds", "PrefixListId"),
        groups=_each(described, "UserIdGroupPairs", "GroupId"),
    )


def _each(described: Mapping[str, Any], list_: str, key: str) -> tuple[str, ...]:
    return tuple(each[key] for each in described.get(list_, ()) if key in each)


def _port(described: Any) -> int | None:
    return None if described is None or int(described) == -1 else int(described)
