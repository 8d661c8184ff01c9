"""The FSx for Lustre file system that training hosts mount, with its ports open both ways."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from constructs import Construct

from launcher.cluster.lustre import Deployment, storage_type
from launcher.cluster.traffic import LUSTRE_TCP_PORTS
from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.LUSTRE_PORTS_CLOSED,)

Change = Literal["new", "changed", "deleted"]
"""What happens to a file or object."""


@dataclass(frozen=True, slots=True)
class S3Link:
    """A folder of the file system that mirrors an S3 prefix: a data repository association.

    Where a KMS key of yours encrypts the bucket, the key's policy must let FSx's service-linked role in
    (FSx for Lustre guide, s3-server-side-encryption-support).

    Attributes:
        path: the folder, such as `/data`.
        s3_uri: the bucket or prefix, such as `s3://bucket/prefix`, in the file system's region.
        import_on_create: whether the names of what is in S3 already appear at once.
        auto_import: changes in S3 that appear on the file system by themselves.
        auto_export: changes on the file system that are written to S3; `deleted` deletes objects too.
    """

    path: str
    s3_uri: str
    import_on_create: bool = True
    auto_import: Sequence[Change] = ()
    auto_export: Sequence[Change] = ()


class TrainingFileSystem(Construct):
    """A Lustre file system in one of the training subnets, with a security group of its own.

    Lustre needs TCP 988 and 1018-1023 in both directions between the clients and the servers, and
    among the servers; with less, creation fails ("do not permit Lustre LNET network traffic on port
    988") or the mount hangs. Source: FSx for Lustre guide, limit-access-security-groups and
    troubleshooting.

    A file system with EFA stands in the clients' group too, whose rules to and from itself are what
    EFA between clients and servers needs; IP rules do not match it.

    Attributes:
        security_group: the group of the file system's interfaces.
        file_system_id: such as `fs-0123456789abcdef0`.
        mount_name: the first element of every path on it.
        subnet: the subnet it stands in; jobs that mount it run in that subnet's zone.
        resource: what CloudFormation makes.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        clients: ec2.ISecurityGroup,
        clients_reach_any_address: bool = True,
        configuration: fsx.CfnFileSystem.LustreConfigurationProperty,
        capacity_gib: int | None = None,
        encryption_key: kms.IKey | None = None,
        links: Sequence[S3Link] = (),
        removal_policy: cdk.RemovalPolicy,
    ) -> None:
        """Create the file system after the rules that it needs, and its links to S3 after that.

        Args:
            scope: the parent construct.
            id: the construct's id.
            vpc: the VPC of the subnet.
            subnet: the one subnet that the file system stands in.
            clients: the group of the hosts that mount it.
            clients_reach_any_address: whether that group lets all IP traffic out; if not, it gets the
                rules that lead to the servers.
            configuration: deployment type, throughput and what goes with them, as the CDK has them.
            capacity_gib: its size; none on Intelligent-Tiering.
            encryption_key: the key of the data on it, persistent types only; by default FSx's own.
            links: folders that mirror prefixes in S3.
            removal_policy: whether the data outlive the stack, with the group, the rules and the links that
                they are reached by.
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
        rules = self._open_ports(clients, clients_reach_any_address)
        groups = [self.security_group.security_group_id]
        if configuration.efa_enabled:
            groups.append(clients.security_group_id)
            self._open_efa()
        self.resource = self._create(configuration, capacity_gib, groups, encryption_key)
        self.resource.apply_removal_policy(removal_policy)
        # The group alone is not enough: FSx looks at its rules while it creates the file system
        # (aws-parallelcluster issue 6181).
        self.resource.node.add_dependency(self.security_group, *rules)
        self.file_system_id = self.resource.ref
        self.mount_name = self.resource.attr_lustre_mount_name
        self._link(links)
        if removal_policy is not cdk.RemovalPolicy.DESTROY:
            self._keep_what_it_needs(removal_policy)

    def _create(
        self,
        configuration: fsx.CfnFileSystem.LustreConfigurationProperty,
        capacity_gib: int | None,
        groups: list[str],
        encryption_key: kms.IKey | None,
    ) -> fsx.CfnFileSystem:
        return fsx.CfnFileSystem(
            self,
            "Resource",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type=_storage_type(configuration),
            storage_capacity=capacity_gib,
            subnet_ids=[self.subnet.subnet_id],
            security_group_ids=groups,
            kms_key_id=encryption_key.key_arn if encryption_key else None,
            lustre_configuration=configuration,
        )

    def _open_efa(self) -> None:
        everything = ec2.Port.all_traffic()
        self.security_group.add_ingress_rule(self.security_group, everything, "EFA from the servers")
        self.security_group.add_egress_rule(self.security_group, everything, "EFA to the servers")

    def _keep_what_it_needs(self, removal_policy: cdk.RemovalPolicy) -> None:
        """Let group, rules and links outlive the stack as well: without them the data are out of reach.

        A link that is replaced is deleted all the same, as no two may lead to one folder.
        """
        for construct in self.node.find_all():
            if isinstance(construct, cdk.CfnResource):
                construct.apply_removal_policy(removal_policy)
            if isinstance(construct, fsx.CfnDataRepositoryAssociation):
                construct.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.DELETE

    def _link(self, links: Iterable[S3Link]) -> None:
        association = fsx.CfnDataRepositoryAssociation
        for number, each in enumerate(links, 1):
            imported, exported = (
                [change.upper() for change in changes] for changes in (each.auto_import, each.auto_export)
            )
            association(
                self,
                f"Association{number}",
                file_system_id=self.file_system_id,
                file_system_path=each.path,
                data_repository_path=each.s3_uri,
                batch_import_meta_data_on_create=each.import_on_create,
                s3=association.S3Property(
                    auto_import_policy=association.AutoImportPolicyProperty(events=imported)
                    if imported
                    else None,
                    auto_export_policy=association.AutoExportPolicyProperty(events=exported)
                    if exported
                    else None,
                )
                if imported or exported
                else None,
            )

    def _open_ports(
        self, clients: ec2.ISecurityGroup, clients_reach_any_address: bool
    ) -> list[ec2.CfnSecurityGroupIngress | ec2.CfnSecurityGroupEgress]:
        """Add the rules of the file system's group; give back those added to the clients' group."""
        rules: list[ec2.CfnSecurityGroupIngress | ec2.CfnSecurityGroupEgress] = []
        for first, last in LUSTRE_TCP_PORTS:
            ports = ec2.Port.tcp_range(first, last)
            for peer, who in ((clients, "training hosts"), (self.security_group, "the other servers")):
                self.security_group.add_ingress_rule(peer, ports, f"Lustre from {who}")
                self.security_group.add_egress_rule(peer, ports, f"Lustre to {who}")
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
            if not clients_reach_any_address:
                # Only then: a separate egress rule, added to a group that already has its way out to
                # any address, can strip that one (aws-cdk issues 987 and 22140).
                rules.append(
                    ec2.CfnSecurityGroupEgress(
                        self,
                        f"ClientsToServers{first}",
                        group_id=clients.security_group_id,
                        destination_security_group_id=self.security_group.security_group_id,
                        ip_protocol="tcp",
                        from_port=first,
                        to_port=last,
                        description="Lustre to the file system",
                    )
                )
        return rules


def _storage_type(configuration: fsx.CfnFileSystem.LustreConfigurationProperty) -> str:
    """The storage that the type and the throughput stand for: there is no choice but these."""
    if configuration.throughput_capacity is not None:
        return "INTELLIGENT_TIERING"
    offered: tuple[Deployment, ...] = get_args(Deployment)
    deployment = next((each for each in offered if each == configuration.deployment_type), None)
    if deployment is None:
        raise ValueError(
            f"FSx has no deployment_type {configuration.deployment_type!r}; use one of {', '.join(offered)}"
        )
    throughput = configuration.per_unit_storage_throughput
    return storage_type(deployment, None if throughput is None else int(throughput))
