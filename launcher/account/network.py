"""The network of the account, as plain data: subnets, routes, endpoints, network ACLs, and security
groups."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from ipaddress import ip_network
from typing import Any, Literal, TypeVar

from launcher.cluster.traffic import (
    ALL_TRAFFIC,
    ANY_IPV4,
    Direction,
    SecurityGroup,
    SecurityGroupRule,
    service_of,
)
from launcher.frozen import frozen

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


_TCP = "6"


@frozen
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
        about_tcp = self.protocol in (ALL_TRAFFIC, _TCP)
        return about_tcp and self.first_tcp <= last and first <= self.last_tcp

    @property
    def first_tcp(self) -> int:
        """The first TCP port that it is about."""
        return 0 if self.protocol == ALL_TRAFFIC or self.first_port is None else self.first_port

    @property
    def last_tcp(self) -> int:
        """The last TCP port that it is about."""
        return 65535 if self.protocol == ALL_TRAFFIC or self.last_port is None else self.last_port


@frozen
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


RouteKind = Literal["local", "nat", "internet", "endpoint", "other"]

_TARGETS = (
    "GatewayId", "NatGatewayId", "TransitGatewayId", "NetworkInterfaceId", "InstanceId",
    "VpcPeeringConnectionId", "EgressOnlyInternetGatewayId", "CarrierGatewayId", "LocalGatewayId",
    "CoreNetworkArn",
)  # fmt: skip
_DESTINATIONS = ("DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId")
_KINDS: Mapping[str, RouteKind] = {"local": "local", "nat-": "nat", "igw-": "internet", "vpce-": "endpoint"}


@frozen
class Subnet:
    """A subnet; `free_addresses` is what EC2 counts now, its own reserved addresses taken off."""

    id: str
    vpc_id: str
    availability_zone: str
    cidr: str
    free_addresses: int


@frozen
class Route:
    """One route; the destination is an IPv4 or IPv6 range, or a prefix list.

    `active` is false for a black hole, which is what a deleted gateway leaves.
    """

    destination: str
    target: str
    kind: RouteKind
    active: bool


@frozen
class RouteTable:
    """A route table; the main one serves all subnets of its VPC that no other names."""

    id: str
    vpc_id: str
    main: bool
    subnet_ids: tuple[str, ...]
    routes: tuple[Route, ...]


@frozen
class Endpoint:
    """A VPC endpoint; `service` is the end of its service's name, such as `s3` or `ecr.api`.

    `type` is `Gateway`, `Interface` or another of EC2's; `state` is in lower case.
    """

    id: str
    vpc_id: str
    service: str
    type: str
    state: str
    private_dns: bool
    subnet_ids: tuple[str, ...]
    route_table_ids: tuple[str, ...]
    security_group_ids: tuple[str, ...]

    @property
    def available(self) -> bool:
        """Whether traffic passes through it now."""
        return self.state == "available"


_InVpc = TypeVar("_InVpc", RouteTable, Endpoint)


@frozen
class WayOut:
    """One way by which a subnet's hosts leave it.

    `reaches` is `any` for a route to every address, else the service that an endpoint leads to;
    `through` is the id of the gateway or endpoint. Whether the security groups on the way let the
    traffic pass is another matter.
    """

    reaches: str
    through: str
    kind: RouteKind


@frozen
class NetworkState:
    """What was found of the network that a job names; what does not exist is not in it."""

    subnets: tuple[Subnet, ...] = ()
    groups: tuple[SecurityGroup, ...] = ()
    route_tables: tuple[RouteTable, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
    acls: tuple[NetworkAcl, ...] = ()

    def subnet(self, subnet_id: str) -> Subnet | None:
        """The subnet with this id, if it exists."""
        return next((each for each in self.subnets if each.id == subnet_id), None)

    def group(self, group_id: str) -> SecurityGroup | None:
        """The security group with this id, if it exists."""
        return next((each for each in self.groups if each.id == group_id), None)

    def route_table(self, subnet_id: str) -> RouteTable | None:
        """The table that a subnet's traffic follows: its own, else the main one of its VPC."""
        for table in self.route_tables:
            if subnet_id in table.subnet_ids:
                return table
        subnet = self.subnet(subnet_id)
        vpc_id = subnet.vpc_id if subnet else None
        return next((each for each in self.route_tables if each.main and each.vpc_id == vpc_id), None)

    def acl(self, subnet_id: str) -> NetworkAcl | None:
        """The network ACL of a subnet: each has exactly one."""
        return next((each for each in self.acls if subnet_id in each.subnet_ids), None)

    def ways_out(self, subnet_id: str) -> tuple[WayOut, ...]:
        """How the hosts of a subnet get out: active routes to any IPv4 address, and the endpoints.

        A gateway endpoint serves the subnets of its route tables, an interface endpoint with private
        names the whole VPC.
        """
        subnet, table = self.subnet(subnet_id), self.route_table(subnet_id)
        ways = [
            WayOut("any", route.target, route.kind)
            for route in (table.routes if table else ())
            if route.destination == ANY_IPV4 and route.active and route.kind != "local"
        ]
        for endpoint in self.endpoints:
            if endpoint.type == "Gateway":
                serves = table is not None and table.id in endpoint.route_table_ids
            else:
                serves = subnet is not None and subnet.vpc_id == endpoint.vpc_id and endpoint.private_dns
            if serves and endpoint.available:
                ways.append(WayOut(endpoint.service, endpoint.id, "endpoint"))
        return tuple(ways)


def serving(
    own: Iterable[RouteTable], main: Iterable[RouteTable], vpc_ids: Container[str]
) -> tuple[RouteTable, ...]:
    """The tables that serve the subnets of these VPCs: their own, and the VPCs' main ones."""
    tables = {table.id: table for table in (*within(own, vpc_ids), *within(main, vpc_ids))}
    return tuple(tables.values())


def within(found: Iterable[_InVpc], vpc_ids: Container[str]) -> tuple[_InVpc, ...]:
    """What is in one of these VPCs."""
    return tuple(each for each in found if each.vpc_id in vpc_ids)


def parse_subnet(described: Mapping[str, Any]) -> Subnet:
    """A subnet from one element of DescribeSubnets."""
    return Subnet(
        id=described["SubnetId"],
        vpc_id=described["VpcId"],
        availability_zone=described["AvailabilityZone"],
        cidr=described.get("CidrBlock", ""),
        free_addresses=int(described["AvailableIpAddressCount"]),
    )


def parse_route_table(described: Mapping[str, Any]) -> RouteTable:
    """A route table from one element of DescribeRouteTables."""
    associations = described.get("Associations", ())
    return RouteTable(
        id=described["RouteTableId"],
        vpc_id=described["VpcId"],
        main=any(each.get("Main", False) for each in associations),
        subnet_ids=tuple(each["SubnetId"] for each in associations if "SubnetId" in each),
        routes=tuple(map(_route, described.get("Routes", ()))),
    )


def parse_endpoint(described: Mapping[str, Any]) -> Endpoint:
    """An endpoint from one element of DescribeVpcEndpoints."""
    return Endpoint(
        id=described["VpcEndpointId"],
        vpc_id=described["VpcId"],
        service=service_of(described["ServiceName"]),
        type=described.get("VpcEndpointType") or "Gateway",
        state=str(described.get("State", "")).lower(),
        private_dns=bool(described.get("PrivateDnsEnabled", False)),
        subnet_ids=tuple(described.get("SubnetIds", ())),
        route_table_ids=tuple(described.get("RouteTableIds", ())),
        security_group_ids=tuple(each["GroupId"] for each in described.get("Groups", ())),
    )


def _route(described: Mapping[str, Any]) -> Route:
    target = next((described[key] for key in _TARGETS if described.get(key)), "")
    kind: RouteKind = next((kind for prefix, kind in _KINDS.items() if target.startswith(prefix)), "other")
    return Route(
        destination=next((described[key] for key in _DESTINATIONS if described.get(key)), ""),
        target=target,
        kind=kind,
        active=described.get("State", "active") == "active",
    )
