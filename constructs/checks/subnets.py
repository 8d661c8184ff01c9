"""Subnets of templates with their routes, and the VPC endpoints that serve them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from constructs.checks.templates import Resource, Unknown

_TARGETS = (
    "CarrierGatewayId", "CoreNetworkArn", "GatewayId", "InstanceId", "LocalGatewayId", "NatGatewayId",
    "NetworkInterfaceId", "TransitGatewayId", "VpcEndpointId", "VpcPeeringConnectionId",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Subnet:
    """A subnet of the app.

    `route_table` is None where it is left to the VPC's main table, which holds no way out unless one
    is added by hand. `settled` says that its routes are all in the app. `public`: the way out is an
    internet gateway, which serves hosts with a public address only.
    """

    resource: Resource
    vpc: str | None
    cidr: str | None
    zone: str | None
    route_table: str | None
    settled: bool
    leads_out: bool
    public: bool

    @property
    def id(self) -> str:
        """The id that others name it by."""
        return self.resource.id


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A VPC endpoint; `service` is the last part of its service's name, such as `ecr.api`."""

    vpc: str
    service: str
    gateway: bool
    route_tables: tuple[str, ...]
    security_groups: tuple[str, ...]
    private_dns: bool


def subnets(resources: Iterable[Resource]) -> dict[str, Subnet]:
    """The subnets that the app creates, by id."""
    resources = list(resources)
    ids = {resource.id for resource in resources}
    tables = {
        each.properties.get("SubnetId"): each.properties.get("RouteTableId")
        for each in _of_type(resources, "AWS::EC2::SubnetRouteTableAssociation")
    }
    routes: dict[Any, list[Mapping[str, Any]]] = {}
    for route in _of_type(resources, "AWS::EC2::Route"):
        routes.setdefault(route.properties.get("RouteTableId"), []).append(route.properties)
    gateways = {each.id for each in _of_type(resources, "AWS::EC2::InternetGateway")}
    found = {}
    for resource in _of_type(resources, "AWS::EC2::Subnet"):
        properties, table = resource.properties, tables.get(resource.id)
        outwards = [route for route in routes.get(table, []) if _leads_anywhere(route)]
        found[resource.id] = Subnet(
            resource=resource,
            vpc=properties.get("VpcId"),
            cidr=_known(properties.get("CidrBlock")),
            zone=properties.get("AvailabilityZone") or properties.get("AvailabilityZoneId"),
            route_table=table,
            settled=properties.get("VpcId") in ids and (table is None or table in ids),
            leads_out=bool(outwards),
            public=any(route.get("GatewayId") in gateways for route in outwards),
        )
    return found


def endpoints(resources: Iterable[Resource]) -> list[Endpoint]:
    """The VPC endpoints that the app creates."""
    return [
        Endpoint(
            vpc=str(each.properties.get("VpcId")),
            service=_service(str(each.properties.get("ServiceName", ""))),
            gateway=each.properties.get("VpcEndpointType", "Gateway") == "Gateway",
            route_tables=_texts(each.properties.get("RouteTableIds")),
            security_groups=_texts(each.properties.get("SecurityGroupIds")),
            private_dns=each.properties.get("PrivateDnsEnabled") not in (None, False, "false"),
        )
        for each in _of_type(resources, "AWS::EC2::VPCEndpoint")
    ]


def _of_type(resources: Iterable[Resource], type_: str) -> list[Resource]:
    return [resource for resource in resources if resource.type == type_]


def _leads_anywhere(route: Mapping[str, Any]) -> bool:
    return route.get("DestinationCidrBlock") == "0.0.0.0/0" and any(target in route for target in _TARGETS)


def _known(value: Any) -> str | None:
    return value if isinstance(value, str) and not isinstance(value, Unknown) else None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()


def _service(name: str) -> str:
    """`ecr.api` of `com.amazonaws.us-west-2.ecr.api`, whether the region is known or not."""
    _, _, region_and_service = name.partition("amazonaws.")
    return region_and_service.partition(".")[2] or name
