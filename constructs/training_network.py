"""The network that training jobs run in: private subnets at addresses that stay, and a way out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from launcher.cluster.address_slots import AddressPlan, ZoneAddresses
from launcher.cluster.names import is_zone_id
from launcher.failure_modes import network
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (network.TOO_FEW_ADDRESSES, network.NO_WAY_OUT)

_TRAINING, _NAT = "training", "nat"
"""The names of the subnets, from which the CDK makes their logical ids."""


class TrainingNetwork(Construct):
    """A VPC with one private subnet per availability zone, each to be large enough for a whole job.

    A job runs in one zone, as EFA does not cross zones, so every subnet must hold all the hosts. The
    subnets lie in slots (`launcher.cluster.address_slots`) that neither another zone nor more hosts move.
    S3 is reached through a gateway endpoint, which costs nothing and keeps the training data off the
    NAT gateway; everything else leaves through one NAT gateway in the first zone, or one in each. Without
    NAT, add `ServiceEndpoints`.

    Source: SageMaker developer guide, train-vpc (default tenancy, free addresses, S3 endpoint or NAT).

    Attributes:
        vpc: the VPC.
        subnets: the private subnets, in the order of the zones.
        zones: the names of the zones; tokens where the zones were given by their ids.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cidr: str,
        availability_zones: Sequence[str],
        nat: bool,
        nat_per_zone: bool = False,
        max_hosts: int | None = None,
        subnets: Sequence[ZoneAddresses] = (),
        removal_policy: cdk.RemovalPolicy,
        retain_first_subnet: bool = False,
    ) -> None:
        """Create the VPC, its subnets and its flow log.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cidr: IPv4 range of the VPC.
            availability_zones: names of the zones, or ids such as usw2-az1; one private subnet is made
                in each. Ids mean the same zone in every account, names do not.
            nat: whether a NAT gateway, in a public subnet of its own, leads out.
            nat_per_zone: with `nat`, a gateway in each zone instead of one for all in the first.
            max_hosts: the most hosts that one zone is to hold, for which the slots are sized; by default
                the first two zones get a quarter of the VPC each, the next two an eighth, and so on.
            subnets: ranges by hand for the first zones, instead of their slots.
            removal_policy: what becomes of the flow log's records when the stack is deleted.
            retain_first_subnet: whether the VPC and the private subnet of the first zone outlive the stack,
                for a file system that does; everything that costs money goes.

        Raises:
            ValueError: the subnets do not fit into the VPC, or not beside each other.
        """
        super().__init__(scope, id)
        plan = AddressPlan(
            IPv4Network(cidr), len(availability_zones), nat=nat, max_hosts=max_hosts, given=tuple(subnets)
        )
        gateways = (len(availability_zones) if nat_per_zone else 1) if nat else 0
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=_Slots(plan),
            availability_zones=list(availability_zones),
            subnet_configuration=_subnets(nat),
            nat_gateways=gateways,
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(
                    service=ec2.GatewayVpcEndpointAwsService.S3,
                    subnets=[ec2.SubnetSelection(subnet_group_name=_TRAINING)],
                )
            },
            # Only a custom resource can empty the rules of the default group: CloudFormation can add
            # to them but not take away.
            restrict_default_security_group=True,
        )
        for subnet in (*self.vpc.private_subnets, *self.vpc.isolated_subnets, *self.vpc.public_subnets):
            _place_by_id(subnet)
        # The CDK makes a public subnet in each zone; one without a gateway would have no use.
        for zone in range(gateways + 1, len(availability_zones) + 1):
            self.vpc.node.try_remove_child(f"{_NAT}Subnet{zone}")
        self.subnets = self.vpc.select_subnets(subnet_group_name=_TRAINING).subnets
        self.zones = [_zone_name(subnet) for subnet in self.subnets]
        self._log_refused_traffic(removal_policy)
        if retain_first_subnet:
            # The custom resource, too: deleted, it would give the default group its rules back.
            closed = self.vpc.node.find_child("RestrictDefaultSecurityGroupCustomResource")
            for each in (self.vpc, self.subnets[0], closed):
                _resource(each).apply_removal_policy(cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)

    def _log_refused_traffic(self, removal_policy: cdk.RemovalPolicy) -> None:
        """Record what the rules refuse: that is what one looks for, and all else would cost."""
        records = logs.LogGroup(
            self, "FlowLog", retention=logs.RetentionDays.ONE_MONTH, removal_policy=removal_policy
        )
        self.vpc.add_flow_log(
            "Refused",
            destination=ec2.FlowLogDestination.to_cloud_watch_logs(records),
            traffic_type=ec2.FlowLogTrafficType.REJECT,
        )


class ExistingNetwork(Construct):
    """A VPC and private subnets that are there already, with the attributes of a `TrainingNetwork`.

    Nothing of theirs is changed: routes, endpoints and the flow log are whose network it is.

    Attributes:
        vpc: the VPC.
        subnets: the private subnets.
        zones: the names of their zones.
    """

    def __init__(
        self, scope: Construct, id: str, *, vpc_id: str, subnet_zones: Mapping[str, str], region: str
    ) -> None:
        """Import the network.

        Args:
            scope: the parent construct.
            id: the construct's id.
            vpc_id: id of the VPC.
            subnet_zones: the name of the availability zone of each subnet, by subnet id.
            region: the region of all of them.
        """
        super().__init__(scope, id)
        self.zones = list(subnet_zones.values())
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id=vpc_id, availability_zones=self.zones, region=region
        )
        self.subnets = [
            ec2.Subnet.from_subnet_attributes(
                self, f"Subnet{number}", subnet_id=subnet_id, availability_zone=zone
            )
            for number, (subnet_id, zone) in enumerate(subnet_zones.items(), 1)
        ]
        for subnet in self.subnets:
            cdk.Annotations.of(subnet).acknowledge_warning(
                "@aws-cdk/aws-ec2:noSubnetRouteTableId", "the routes of an existing subnet are left alone"
            )


def _resource(construct: IConstruct) -> cdk.CfnResource:
    resource = construct.node.default_child
    assert isinstance(resource, cdk.CfnResource)
    return resource


def _place_by_id(subnet: ec2.ISubnet) -> None:
    """Move the id of a zone from the property for names, where the L2 construct puts it, to its own."""
    resource = subnet.node.default_child
    assert isinstance(resource, ec2.CfnSubnet)
    if is_zone_id(subnet.availability_zone):
        resource.availability_zone_id = subnet.availability_zone
        resource.availability_zone = None


def _zone_name(subnet: ec2.ISubnet) -> str:
    resource = subnet.node.default_child
    assert isinstance(resource, ec2.CfnSubnet)
    given = subnet.availability_zone
    return resource.attr_availability_zone if is_zone_id(given) else given


@jsii.implements(ec2.IIpAddresses)
class _Slots:
    """Tells `ec2.Vpc` where each subnet lies; left alone it would pack them one after the other."""

    def __init__(self, plan: AddressPlan) -> None:
        self._network = str(plan.network)
        zones = plan.by_zone()
        self._ranges = {
            _TRAINING: [str(each.training) for each in zones],
            _NAT: [str(each.nat) for each in zones],
        }

    def allocate_vpc_cidr(self) -> ec2.VpcIpamOptions:
        return ec2.VpcIpamOptions(cidr_block=self._network)

    def allocate_subnets_cidr(
        self, *, requested_subnets: Sequence[Any], vpc_cidr: str
    ) -> ec2.SubnetIpamOptions:
        """The ranges in the order of the request: that of the zones, for each kind of subnet."""
        left = {kind: iter(ranges) for kind, ranges in self._ranges.items()}
        return ec2.SubnetIpamOptions(
            allocated_subnets=[
                ec2.AllocatedSubnet(cidr=next(left[each.configuration.name])) for each in requested_subnets
            ]
        )


def _subnets(nat: bool) -> list[ec2.SubnetConfiguration]:
    kind = ec2.SubnetType.PRIVATE_WITH_EGRESS if nat else ec2.SubnetType.PRIVATE_ISOLATED
    training = ec2.SubnetConfiguration(name=_TRAINING, subnet_type=kind)
    if not nat:
        return [training]
    public = ec2.SubnetConfiguration(
        name=_NAT, subnet_type=ec2.SubnetType.PUBLIC, map_public_ip_on_launch=False
    )
    return [training, public]
