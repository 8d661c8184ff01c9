"""The FSx for Lustre file system that training hosts mount, with its ports open both ways."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from constructs import Construct

from launcher.cluster.lustre import LUSTRE_TCP_PORTS
from launcher.cluster.specification import LustreSpec
from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.LUSTRE_PORTS_CLOSED,)


class TrainingFileSystem(Construct):
    """A Lustre file system in one of the training subnets, with a security group of its own.

    Lustre needs TCP 988 and 1018-1023 in both directions between the clients and the servers, and
    among the servers; with less, creation fails ("do not permit Lustre LNET network traffic on port
    988") or the mount hangs. Source: FSx for Lustre guide, limit-access-security-groups and
    troubleshooting.

    Attributes:
        security_group: the group of the file system's interfaces.
        file_system_id: such as `fs-0123456789abcdef0`.
        mount_name: the first element of every path on it.
        arn: the file system's ARN.
        subnet: the subnet it stands in; jobs that mount it run in that subnet's zone.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        clients: ec2.ISecurityGroup,
        lustre: LustreSpec,
        removal_policy: cdk.RemovalPolicy,
    ) -> None:
        """Create the file system after the rules that it needs.

        Args:
            scope: the parent construct.
            id: the construct's id.
            vpc: the VPC of the subnet.
            subnet: the one subnet that the file system stands in.
            clients: the group of the hosts that mount it; it must let IP traffic out to any address.
            lustre: deployment type, throughput, capacity and compression.
            removal_policy: whether the data outlive the stack.
        """
        super().__init__(scope, id)
        self.subnet = subnet
        self.security_group = ec2.SecurityGroup(
            self,
            "SecurityGroup",
            vpc=vpc,
            description="Lustre servers: LNET to and from the training hosts",
            allow_all_outbound=False,
            disable_inline_rules=True,
        )
        rules = self._open_ports(clients)
        resource = fsx.CfnFileSystem(
            self,
            "Resource",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type=lustre.storage_type,
            storage_capacity=lustre.capacity_gib,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[self.security_group.security_group_id],
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type=lustre.deployment,
                per_unit_storage_throughput=lustre.throughput,
                data_compression_type=lustre.compression,
                drive_cache_type="NONE" if lustre.storage_type == "HDD" else None,
            ),
        )
        resource.apply_removal_policy(removal_policy)
        # The group alone is not enough: FSx looks at its rules while it creates the file system
        # (aws-parallelcluster issue 6181).
        resource.node.add_dependency(self.security_group, *rules)

        self.file_system_id = resource.ref
        self.mount_name = resource.attr_lustre_mount_name
        self.arn = cdk.Stack.of(self).format_arn(
            service="fsx", resource="file-system", resource_name=resource.ref
        )

    def _open_ports(self, clients: ec2.ISecurityGroup) -> list[ec2.CfnSecurityGroupIngress]:
        """Add the rules of the file system's group; give back those added to the clients' group."""
        rules = []
        for first, last in LUSTRE_TCP_PORTS:
            ports = ec2.Port.tcp_range(first, last)
            for peer, who in ((clients, "training hosts"), (self.security_group, "the other servers")):
                self.security_group.add_ingress_rule(peer, ports, f"Lustre from {who}")
                self.security_group.add_egress_rule(peer, ports, f"Lustre to {who}")
            # Only ingress: a separate egress rule, added to a group that already has its way out to
            # any address, can strip that one (aws-cdk issues 987 and 22140).
            rules.append(
                ec2.CfnSecurityGroupIngress(
                    self,
                    f"ClientsFromServers{first}",
                    group_id=clients.security_group_id,
                    source_security_group_id=self.security_group.security_group_id,
                    ip_protocol="tcp",
                    from_port=first,
                    to_port=last,
                    description="Lustre from the file system",
                )
            )
        return rules
