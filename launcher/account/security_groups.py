"""The security groups of the account with every rule, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Literal

from launcher.aws.errors import aws_errors

Direction = Literal["ingress", "egress"]

ALL_TRAFFIC = "-1"
ANY_IPV4, ANY_IPV6 = "0.0.0.0/0", "::/0"

MOST_GROUPS_UNASKED = 200
"""One answer that is still small: EC2 would send up to 1000 groups at once, some megabytes of XML."""

_NAMES = {"6": "tcp", "17": "udp"}


@dataclass(frozen=True, slots=True)
class Permission:
    """What EC2 calls a permission: one protocol and range of ports, and any number of peers.

    One permission may hold ranges of addresses, prefix lists and groups at once; EC2 merges all rules
    that have protocol and ports in common. `protocol` is `tcp`, `udp`, `icmp`, a number, or `-1` for
    all traffic; the ports are None where the protocol has none or all of them are meant.
    """

    direction: Direction
    protocol: str
    first_port: int | None
    last_port: int | None
    ipv4: tuple[str, ...] = ()
    ipv6: tuple[str, ...] = ()
    prefix_lists: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()

    @property
    def all_traffic(self) -> bool:
        """Whether every protocol passes: the only kind of permission that EFA traffic matches."""
        return self.protocol == ALL_TRAFFIC

    def covers_tcp(self, first: int, last: int) -> bool:
        """Whether all of these TCP ports pass."""
        if self.all_traffic:
            return True
        if self.protocol != "tcp":
            return False
        return (self.first_port or 0) <= first and last <= (
            65535 if self.last_port is None else self.last_port
        )

    def covers_addresses(self, cidr: str) -> bool:
        """Whether one of the ranges holds all of these addresses; prefix lists are not looked into."""
        wanted = ip_network(cidr, strict=False)
        ranges = (ip_network(each, strict=False) for each in (*self.ipv4, *self.ipv6))
        return any(
            each.version == wanted.version
            and int(each.network_address) <= int(wanted.network_address)
            and int(wanted.broadcast_address) <= int(each.broadcast_address)
            for each in ranges
        )


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    """A security group with all its permissions."""

    id: str
    name: str
    vpc_id: str | None
    permissions: tuple[Permission, ...]

    def towards(self, direction: Direction) -> tuple[Permission, ...]:
        """The permissions of one direction."""
        return tuple(each for each in self.permissions if each.direction == direction)

    def allows_all_to_itself(self, direction: Direction) -> bool:
        """Whether all traffic passes between the group's own members, as EFA needs it.

        Only a permission that names the group counts: EFA traffic is not IP traffic, so no range of
        addresses matches it, and TCP on every port is not all traffic (EC2 user guide, create-efa).
        """
        return any(each.all_traffic and self.id in each.groups for each in self.towards(direction))

    def allows_tcp(
        self,
        direction: Direction,
        first: int,
        last: int,
        *,
        group: str | None = None,
        cidr: str | None = None,
    ) -> bool:
        """Whether these TCP ports pass to or from members of a group, or all addresses of a range."""
        return any(
            each.covers_tcp(first, last)
            and (group in each.groups or (cidr is not None and each.covers_addresses(cidr)))
            for each in self.towards(direction)
        )


def fetch_security_groups(ec2: Any, ids: Iterable[str]) -> tuple[SecurityGroup, ...]:
    """The groups with these ids, in their order; those that do not exist are left out.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return ()
    with aws_errors("describe the security groups (ec2:DescribeSecurityGroups)"):
        pages = ec2.get_paginator("describe_security_groups").paginate(
            # A filter passes over what is missing, where `GroupIds` refuses the whole call.
            Filters=[{"Name": "group-id", "Values": wanted}]
        )
        found = {
            each["GroupId"]: parse_security_group(each) for page in pages for each in page["SecurityGroups"]
        }
    return tuple(found[id_] for id_ in wanted if id_ in found)


def fetch_some_security_groups(ec2: Any) -> tuple[SecurityGroup, ...]:
    """Security groups of the region, all of them where there are no more than MOST_GROUPS_UNASKED.

    For groups whose ids another call will tell: in most accounts they are among these, and need no
    call after that one. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("describe the security groups (ec2:DescribeSecurityGroups)"):
        answer = ec2.describe_security_groups(MaxResults=MOST_GROUPS_UNASKED)
    return tuple(map(parse_security_group, answer["SecurityGroups"]))


def parse_security_group(described: Mapping[str, Any]) -> SecurityGroup:
    """A group from one element of DescribeSecurityGroups."""
    return SecurityGroup(
        id=described["GroupId"],
        name=described.get("GroupName", ""),
        vpc_id=described.get("VpcId"),
        permissions=(
            *(_permission("ingress", each) for each in described.get("IpPermissions", ())),
            *(_permission("egress", each) for each in described.get("IpPermissionsEgress", ())),
        ),
    )


def _permission(direction: Direction, described: Mapping[str, Any]) -> Permission:
    protocol = str(described["IpProtocol"])
    return Permission(
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
