"""The network stack: what everything else stands in, and what changes least."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct
from constructs.added_subnets import AddedSubnets
from constructs.efa_security_group import EfaSecurityGroup
from constructs.service_endpoints import ServiceEndpoints, let_pass_to_buckets
from constructs.training_network import ExistingNetwork, TrainingNetwork
from constructs.weak_references import read_weakly

from launcher.cluster.specification import AWS_MANAGED, ClusterSpec


class NetworkStack(cdk.Stack):
    """VPC, training subnets, the EFA security group and the way out.

    With `removal_policy: retain` what a file system needs to stay usable outlives the stack: the VPC, the
    first zone's subnet, and the hosts' group with its rules, none of which costs anything. So it does without
    a file system in the cluster file: one that was taken out of it stands there all the same.

    Attributes:
        network: the VPC and its training subnets, new, existing, or new ones in an existing VPC.
        efa_security_group: the group of all training hosts.
    """

    def __init__(self, scope: Construct, id: str, *, spec: ClusterSpec, env: cdk.Environment) -> None:
        """Create the stack for a cluster."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Slipway cluster {spec.name}: network",
            termination_protection=_retains(spec),
        )
        self._spec = spec
        self.network = self._network(spec)
        self.efa_security_group = self._efa_security_group(spec)
        if spec.vpc.isolated:
            s3 = self.network.vpc.node.find_child("S3")
            assert isinstance(s3, ec2.GatewayVpcEndpoint)
            let_pass_to_buckets(s3, data_buckets=spec.data_buckets)
            ServiceEndpoints(
                self,
                "Endpoints",
                vpc=self.network.vpc,
                subnets=self.network.subnets,
                clients=self.efa_security_group,
                kms=spec.encryption != AWS_MANAGED,
                fsx=spec.lustre is not None,
                secrets=bool(spec.secrets),
                remote_debug=spec.remote_debug,
            )

    def vpc_id_seen_from(self, stack: cdk.Stack) -> str:
        """The VPC's id for use in another stack, which does not keep the VPC from being replaced."""
        return read_weakly(self.network.vpc.vpc_id, owner=self, reader=stack, definition=self._vpc)

    def subnet_ids_seen_from(self, stack: cdk.Stack) -> list[str]:
        """The ids of the training subnets for use in another stack, which does not keep any from going."""
        return [
            read_weakly(subnet.subnet_id, owner=self, reader=stack, definition=definition)
            for subnet, definition in zip(self.network.subnets, self._subnets(), strict=True)
        ]

    def zones_seen_from(self, stack: cdk.Stack) -> list[str]:
        """The names of the zones of the training subnets, for use in another stack."""
        return [
            read_weakly(zone, owner=self, reader=stack, definition=definition)
            for zone, definition in zip(self.network.zones, self._subnets(), strict=True)
        ]

    def group_id_seen_from(self, stack: cdk.Stack) -> str:
        """The id of the hosts' group for use in another stack, which does not keep it from going."""
        group = self.efa_security_group.security_group_id
        return read_weakly(group, owner=self, reader=stack, definition=self._vpc)

    @property
    def _vpc(self) -> str:
        """What replaces the VPC, and all that is in it, when it changes."""
        return str(self._spec.vpc.cidr or (self._spec.vpc.existing and self._spec.vpc.existing.vpc_id))

    def _subnets(self) -> list[list[str]]:
        """What replaces each training subnet when it changes; subnets that exist have their ids only."""
        spec = self._spec
        if not spec.addresses:
            return [[] for _ in self.network.subnets]
        places = zip(spec.addresses, spec.availability_zones, strict=True)
        return [[self._vpc, str(each.training), zone] for each, zone in places]

    def _network(self, spec: ClusterSpec) -> TrainingNetwork | ExistingNetwork | AddedSubnets:
        if spec.vpc.existing is not None and spec.vpc.existing.new_subnets is not None:
            added = spec.vpc.existing.new_subnets
            return AddedSubnets(
                self,
                "Network",
                vpc_id=spec.vpc.existing.vpc_id,
                region=spec.region,
                availability_zones=spec.availability_zones,
                subnet_cidrs=[str(each.training) for each in spec.addresses],
                associated_cidr=str(added.cidr) if added.associate else None,
                nat_gateway_id=added.nat_gateway_id,
                route_table_ids=added.route_tables(len(spec.availability_zones)),
                s3_endpoint=added.s3_endpoint,
                retain_first_subnet=_retains(spec),
            )
        if spec.vpc.existing is not None:
            return ExistingNetwork(
                self,
                "Network",
                vpc_id=spec.vpc.existing.vpc_id,
                subnet_zones={each.id: each.availability_zone for each in spec.vpc.existing.subnets},
                region=spec.region,
            )
        return TrainingNetwork(
            self,
            "Network",
            cidr=str(spec.vpc.cidr),
            availability_zones=spec.availability_zones,
            nat=bool(spec.vpc.nat),
            nat_per_zone=spec.vpc.nat == "per-zone",
            subnets=spec.addresses,
            removal_policy=removal_policy(spec),
            retain_first_subnet=_retains(spec),
        )

    def _efa_security_group(self, spec: ClusterSpec) -> ec2.ISecurityGroup:
        existing = spec.vpc.existing
        if existing is not None and existing.security_group_id is not None:
            return ec2.SecurityGroup.from_security_group_id(
                self, "Efa", existing.security_group_id, mutable=False
            )
        return EfaSecurityGroup(
            self,
            "Efa",
            vpc=self.network.vpc,
            isolated=spec.vpc.isolated,
            s3_prefix_list_id=spec.vpc.s3_prefix_list_id,
            retain=_retains(spec),
        )


def removal_policy(spec: ClusterSpec) -> cdk.RemovalPolicy:
    """What becomes of data when their stack is deleted.

    What is to be kept goes all the same with a deployment that fails while it creates it: a file system that
    was billed though no stack has it, or a VPC that counts towards the quota, would else stay each time
    (CloudFormation template reference, aws-attribute-deletionpolicy: RetainExceptOnCreate).
    """
    keep = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    return keep if _retains(spec) else cdk.RemovalPolicy.DESTROY


def _retains(spec: ClusterSpec) -> bool:
    """Whether what a file system stands in outlives the stack."""
    return spec.removal_policy == "retain"
