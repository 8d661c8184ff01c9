"""The network stack: what everything else stands in, and what changes least."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from constructs.efa_security_group import EfaSecurityGroup
from constructs.service_endpoints import ServiceEndpoints
from constructs.training_network import TrainingNetwork

from launcher.cluster.specification import ClusterSpec


class NetworkStack(cdk.Stack):
    """VPC, training subnets, the EFA security group and the way out.

    Attributes:
        network: the VPC and its training subnets.
        efa_security_group: the group of all training hosts.
    """

    def __init__(self, scope: Construct, id: str, *, spec: ClusterSpec, env: cdk.Environment) -> None:
        """Create the stack for a cluster."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: network")
        self.network = TrainingNetwork(
            self,
            "Network",
            cidr=str(spec.vpc.cidr),
            availability_zones=spec.availability_zones,
            subnet_prefix_length=spec.subnet_prefix_length,
            nat=spec.vpc.nat,
            removal_policy=cdk.RemovalPolicy[spec.removal_policy.upper()],
        )
        self.efa_security_group = EfaSecurityGroup(self, "Efa", vpc=self.network.vpc)
        if not spec.vpc.nat:
            ServiceEndpoints(
                self,
                "Endpoints",
                vpc=self.network.vpc,
                subnets=self.network.subnets,
                clients=self.efa_security_group,
            )
