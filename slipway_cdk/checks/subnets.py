"""Subnets of templates with their routes, and the VPC endpoints that serve them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Any

from launcher.cluster.traffic import ANY_IPV4, Unknown, service_of
from slipway_cdk.checks.templates import Resource

_TARGETS = (
    "CarrierGatewayId", "CoreNetworkArn", "GatewayId", "InstanceId", "LocalGatewayId", "NatGatewayId",
    "NetworkInterfaceId", "TransitGatewayId", "VpcEndpointId", "VpcPeeringConnectionId",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TemplateSubnet:
    """A subnet of the app; `id` is the one that others name it by.

    `cidr` is its IPv4 range, None where that is not known before the deployment. `route_table` is None
    where it is left to the VPC's main table, which holds no way out unless one is added by hand.
    `settled` says that its routes are all in the app. `public`: the way out is an internet gateway, which
    serves hosts with a public address only.
    """

    id: str
    vpc_id: str | None
    cidr: str | None
    zone: str | None
    route_table: str | None
    settled: bool
    leads_out: bool
    public: bool


@dataclass(frozen=True, slots=True)
class TemplateEndpoint:
    """A VPC endpoint of the app; `service` is the last part of its service's name, such as `ecr.api`."""

    vpc_id: str
    service: str
    gateway: bool
    route_tables: tuple[str, ...]
    security_groups: tuple[str, ...]
    private_dns: bool


def subnets(resources: Iterable[Resource]) -> dict[str, TemplateSubnet]:
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
        found[resource.id] = TemplateSubnet(
            id=resource.id,
            vpc_id=properties.get("VpcId"),
            cidr=_range(properties.get("CidrBlock")),
            zone=properties.get("AvailabilityZone") or properties.get("AvailabilityZoneId"),
            route_table=table,
            settled=properties.get("VpcId") in ids and (table is None or table in ids),
            leads_out=bool(outwards),
            public=any(route.get("GatewayId") in gateways for route in outwards),
        )
    return found


def endpoints(resources: Iterable[Resource]) -> list[TemplateEndpoint]:
    """The VPC endpoints that the app creates."""
    return [
        TemplateEndpoint(
            vpc_id=str(each.properties.get("VpcId")),
            service=service_of(str(each.properties.get("ServiceName", ""))),
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
    return route.get("DestinationCidrBlock") == ANY_IPV4 and any(target in route for target in _TARGETS)


def _range(written: Any) -> str | None:
    if isinstance(written, Unknown):
        return None
    try:
        return str(IPv4Network(written))
    except ValueError:
        return None


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else ()
