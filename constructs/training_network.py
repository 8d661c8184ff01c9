"""The network that training jobs run in: private subnets sized for the hosts, and a way out."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_logs as logs
from constructs import Construct

from launcher.cluster.specification import NAT_PREFIX_LENGTH
from launcher.failure_modes import network
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (network.TOO_FEW_ADDRESSES, network.NO_WAY_OUT)

_TRAINING = "training"


class TrainingNetwork(Construct):
    """A VPC with one private subnet per availability zone, each large enough for a whole job.

    A job runs in one zone, as EFA does not cross zones, so every subnet must hold all the hosts.
    S3 is reached through a gateway endpoint, which costs nothing and keeps the training data off the
    NAT gateway; everything else leaves through one NAT gateway in the first zone. Without NAT, add
    `ServiceEndpoints`.

    Source: SageMaker developer guide, train-vpc (default tenancy, free addresses, S3 endpoint or NAT).

    Attributes:
        vpc: the VPC.
        subnets: the private subnets, in the order of the zones.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cidr: str,
        availability_zones: Sequence[str],
        subnet_prefix_length: int,
        nat: bool,
        removal_policy: cdk.RemovalPolicy,
    ) -> None:
        """Create the VPC, its subnets and its flow log.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cidr: IPv4 range of the VPC.
            availability_zones: names of the zones; one private subnet is made in each.
            subnet_prefix_length: size of each private subnet, such as 24.
            nat: whether a NAT gateway, in a public subnet of its own, leads out.
            removal_policy: what becomes of the flow log's records when the stack is deleted.
        """
        super().__init__(scope, id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            ip_addresses=ec2.IpAddresses.cidr(cidr),
            availability_zones=list(availability_zones),
            subnet_configuration=_subnets(subnet_prefix_length, nat),
            nat_gateways=1 if nat else 0,
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)
            },
            # Only a custom resource can empty the rules of the default group: CloudFormation can add
            # to them but not take away.
            restrict_default_security_group=True,
        )
        self.subnets = self.vpc.select_subnets(subnet_group_name=_TRAINING).subnets
        self._log_refused_traffic(removal_policy)

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


def _subnets(prefix_length: int, nat: bool) -> list[ec2.SubnetConfiguration]:
    kind = ec2.SubnetType.PRIVATE_WITH_EGRESS if nat else ec2.SubnetType.PRIVATE_ISOLATED
    training = ec2.SubnetConfiguration(name=_TRAINING, subnet_type=kind, cidr_mask=prefix_length)
    if not nat:
        return [training]
    public = ec2.SubnetConfiguration(
        name="nat",
        subnet_type=ec2.SubnetType.PUBLIC,
        cidr_mask=NAT_PREFIX_LENGTH,
        map_public_ip_on_launch=False,
    )
    return [training, public]
