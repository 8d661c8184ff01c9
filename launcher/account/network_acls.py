"""The network ACLs of the account: what a subnet lets in and out, whatever the security groups say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from launcher.cluster.security_groups import ALL_TRAFFIC, Direction

_TCP = "6"


@dataclass(frozen=True, slots=True)
class NetworkAclEntry:
    """One entry; the first that matches, in the order of the numbers, decides.

    `protocol` is a number as text, or `-1` for all; the ports are None where the protocol has none.
    """

    number: int
    direction: Direction
    allows: bool
    protocol: str
    cidr: str
    first_port: int | None = None
    last_port: int | None = None

    def touches_tcp(self, first: int, last: int) -> bool:
        """Whether the entry is about at least one of these TCP ports."""
        return self._about_tcp and self.first_tcp <= last and first <= self.last_tcp

    @property
    def _about_tcp(self) -> bool:
        return self.protocol in (ALL_TRAFFIC, _TCP)

    @property
    def first_tcp(self) -> int:
        """The first TCP port that it is about."""
        return 0 if self.protocol == ALL_TRAFFIC or self.first_port is None else self.first_port

    @property
    def last_tcp(self) -> int:
        """The last TCP port that it is about."""
        return 65535 if self.protocol == ALL_TRAFFIC or self.last_port is None else self.last_port


@dataclass(frozen=True, slots=True)
class NetworkAcl:
    """A network ACL with its entries in the order in which EC2 evaluates them."""

    id: str
    vpc_id: str
    subnet_ids: tuple[str, ...]
    entries: tuple[NetworkAclEntry, ...]


def parse_network_acl(described: Mapping[str, Any]) -> NetworkAcl:
    """A network ACL from one element of DescribeNetworkAcls. ValueError for an entry without a range."""
    entries = [_entry(each) for each in described.get("Entries", ())]
    return NetworkAcl(
        id=described["NetworkAclId"],
        vpc_id=described["VpcId"],
        subnet_ids=tuple(
            each["SubnetId"] for each in described.get("Associations", ()) if "SubnetId" in each
        ),
        entries=tuple(sorted(entries, key=lambda each: each.number)),
    )


def _entry(described: Mapping[str, Any]) -> NetworkAclEntry:
    ports = described.get("PortRange") or {}
    return NetworkAclEntry(
        number=int(described["RuleNumber"]),
        direction="egress" if described.get("Egress") else "ingress",
        allows=described["RuleAction"] == "allow",
        protocol=str(described["Protocol"]),
        cidr=_network(described.get("CidrBlock") or described.get("Ipv6CidrBlock")),
        first_port=ports.get("From"),
        last_port=ports.get("To"),
    )


def _network(cidr: str | None) -> str:
    ip_network(cidr or "", strict=False)
    return cidr or ""
