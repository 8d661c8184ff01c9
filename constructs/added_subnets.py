"""Subnets for training jobs that are added to a VPC which is there already."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from launcher.cluster.names import is_zone_id
from launcher.cluster.traffic import ANY_IPV4
from launcher.failure_modes import network
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (network.NO_WAY_OUT,)


class AddedSubnets(Construct):
    """Private subnets in a VPC of somebody else's, with the attributes of a `TrainingNetwork`.

    Each zone gets one. Either each has a route table of its own, which leads to a NAT gateway of the
    VPC and, past it, to S3 through a gateway endpoint; or it is put to a route table of the VPC, whose
    routes are left alone. Nothing else of the VPC is changed: its endpoints and its flow log are whose
    network it is.

    Source: VPC user guide, vpc-nat-gateway (the route of a private subnet), vpc-endpoints-s3 (a gateway
    endpoint serves the route tables that it names; a VPC may have several) and vpc-cidr-blocks.

    Attributes:
        vpc: the VPC.
        subnets: the new subnets, in the order of the zones.
        zones: the names of the zones; tokens where the zones were given by their ids.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc_id: str,
        region: str,
        availability_zones: Sequence[str],
        subnet_cidrs: Sequence[str],
        associated_cidr: str | None = None,
        nat_gateway_id: str | None = None,
        route_table_ids: Sequence[str] = (),
        s3_endpoint: bool = True,
        retain_first_subnet: bool = False,
    ) -> None:
        """Create the subnets and their routes.

        Args:
            scope: the parent construct.
            id: the construct's id.
            vpc_id: id of the VPC.
            region: the region of the VPC.
            availability_zones: names of the zones, or ids such as usw2-az1.
            subnet_cidrs: the IPv4 range of the subnet of each zone, in their order.
            associated_cidr: a further range that is added to the VPC first, for the subnets to lie in.
            nat_gateway_id: the NAT gateway to which route tables of the subnets' own lead.
            route_table_ids: instead of it, the route table of each zone's subnet, in their order.
            s3_endpoint: whether route tables of the subnets' own get a gateway endpoint to S3.
            retain_first_subnet: whether the subnet of the first zone, with the range that was added for
                it, outlives the stack, for a file system that does.

        Raises:
            ValueError: there are not as many ranges, or route tables, as zones, or no one way out.
        """
        super().__init__(scope, id)
        _check_one_each(availability_zones, subnet_cidrs, nat_gateway_id, route_table_ids)
        reason = "the zones are given, so that nothing has to be looked up"
        cdk.Validations.of(self).acknowledge(
            cdk.Acknowledgment(id="CloudFormation-Validate::W3010", reason=reason)
        )
        self._vpc_id, self._nat_gateway_id = vpc_id, nat_gateway_id
        resources = self._new_subnets(availability_zones, subnet_cidrs, associated_cidr, retain_first_subnet)
        tables = list(route_table_ids) or [self._table(number) for number, _ in enumerate(resources, 1)]
        self._associate(resources, tables)
        if nat_gateway_id is not None and s3_endpoint:
            self._endpoint_to_s3(tables, region)
        self.zones = [
            resource.attr_availability_zone if is_zone_id(zone) else zone
            for zone, resource in zip(availability_zones, resources, strict=True)
        ]
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=vpc_id, availability_zones=self.zones, region=region
        )
        self.subnets = self._imported(resources, tables)

    def _new_subnets(
        self, zones: Sequence[str], cidrs: Sequence[str], further_range: str | None, retain_first: bool
    ) -> list[ec2.CfnSubnet]:
        block = None
        if further_range:
            block = ec2.CfnVPCCidrBlock(self, "Range", vpc_id=self._vpc_id, cidr_block=further_range)
        subnets = [
            self._subnet(number, *each, block)
            for number, each in enumerate(zip(zones, cidrs, strict=True), 1)
        ]
        if retain_first:
            for each in (subnets[0], *([block] if block else [])):
                each.apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return subnets

    def _associate(self, subnets: Sequence[ec2.CfnSubnet], tables: Sequence[str]) -> None:
        for number, (subnet, table) in enumerate(zip(subnets, tables, strict=True), 1):
            ec2.CfnSubnetRouteTableAssociation(
                self, f"Association{number}", subnet_id=subnet.ref, route_table_id=table
            )

    def _imported(self, subnets: Sequence[ec2.CfnSubnet], tables: Sequence[str]) -> list[ec2.ISubnet]:
        return [
            ec2.Subnet.from_subnet_attributes(
                self, f"Imported{number}", subnet_id=subnet.ref, availability_zone=zone, route_table_id=table
            )
            for number, (subnet, zone, table) in enumerate(zip(subnets, self.zones, tables, strict=True), 1)
        ]

    def _subnet(self, number: int, zone: str, cidr: str, block: ec2.CfnVPCCidrBlock | None) -> ec2.CfnSubnet:
        subnet = ec2.CfnSubnet(
            self,
            f"trainingSubnet{number}",
            vpc_id=self._vpc_id,
            cidr_block=cidr,
            availability_zone=None if is_zone_id(zone) else zone,
            availability_zone_id=zone if is_zone_id(zone) else None,
            map_public_ip_on_launch=False,
        )
        cdk.Tags.of(subnet).add("Name", subnet.node.path)
        if block is not None:
            subnet.add_resource_dependency(block)
        return subnet

    def _table(self, number: int) -> str:
        table = ec2.CfnRouteTable(self, f"RouteTable{number}", vpc_id=self._vpc_id)
        cdk.Tags.of(table).add("Name", table.node.path)
        ec2.CfnRoute(
            self,
            f"DefaultRoute{number}",
            route_table_id=table.ref,
            destination_cidr_block=ANY_IPV4,
            nat_gateway_id=self._nat_gateway_id,
        )
        return table.ref

    def _endpoint_to_s3(self, tables: Sequence[str], region: str) -> None:
        ec2.CfnVPCEndpoint(
            self,
            "S3",
            vpc_id=self._vpc_id,
            vpc_endpoint_type="Gateway",
            service_name=f"com.amazonaws.{region}.s3",
            route_table_ids=list(tables),
        )


def _check_one_each(
    zones: Sequence[str], cidrs: Sequence[str], nat_gateway_id: str | None, route_table_ids: Sequence[str]
) -> None:
    if len(cidrs) != len(zones):
        raise ValueError(f"{len(cidrs)} ranges for {len(zones)} zones; give one each")
    if bool(nat_gateway_id) == bool(route_table_ids) or (
        route_table_ids and len(route_table_ids) != len(zones)
    ):
        raise ValueError("give either a NAT gateway or one route table for each zone")
