"""The FSx for Lustre file system that training hosts mount, with its ports open both ways."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.mounted_file_system import MountedFileSystem
from constructs.weak_references import read_weakly

from launcher.cluster.storage_section import AssociationSpec, LustreSpec, numbered_weekday
from launcher.cluster.traffic import LUSTRE_TCP_PORTS
from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.LUSTRE_PORTS_CLOSED,)


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
        lustre: LustreSpec,
        encryption_key: kms.IKey | None = None,
        buckets: Mapping[str, s3.IBucket] | None = None,
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
            lustre: deployment type, throughput, capacity and what goes with them.
            encryption_key: the key of the data on it, persistent types only; by default FSx's own.
            buckets: the buckets that links name by `bucket`, such as checkpoints.
            removal_policy: whether the data outlive the stack, with the group, the rules and the links that
                they are reached by.
        """
        if lustre.deployment is None:
            raise ValueError("an existing file system is not created: use its ids as they are")
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
        if lustre.efa:
            groups.append(clients.security_group_id)
            self._open_efa()
        resource = self._create(lustre, groups, encryption_key)
        resource.apply_removal_policy(removal_policy)
        # The group alone is not enough: FSx looks at its rules while it creates the file system
        # (aws-parallelcluster issue 6181).
        resource.node.add_dependency(self.security_group, *rules)
        self.file_system_id = resource.ref
        self.mount_name = resource.attr_lustre_mount_name
        self._resource = resource
        self._capacity_gib = lustre.capacity_gib
        self._elastic = lustre.intelligent_tiering is not None
        self._link(lustre.associations, buckets or {})
        if removal_policy is not cdk.RemovalPolicy.DESTROY:
            self._keep_what_it_needs(removal_policy)

    def _create(
        self, lustre: LustreSpec, groups: list[str], encryption_key: kms.IKey | None
    ) -> fsx.CfnFileSystem:
        return fsx.CfnFileSystem(
            self,
            "Resource",
            file_system_type="LUSTRE",
            file_system_type_version="2.15",
            storage_type=lustre.storage_type,
            storage_capacity=lustre.capacity_gib,
            subnet_ids=[self.subnet.subnet_id],
            security_group_ids=groups,
            kms_key_id=encryption_key.key_arn if encryption_key else None,
            lustre_configuration=_configuration(lustre),
        )

    def _open_efa(self) -> None:
        everything = ec2.Port.all_traffic()
        self.security_group.add_ingress_rule(self.security_group, everything, "EFA from the servers")
        self.security_group.add_egress_rule(self.security_group, everything, "EFA to the servers")

    def seen_from(self, stack: cdk.Stack) -> MountedFileSystem:
        """The file system for use in a stack, which is not its own as a rule.

        Another stack reads it weakly, so that it can go, or another can take its place, in one deployment.
        """

        def value(own: str, definition: object = None) -> str:
            return read_weakly(own, owner=cdk.Stack.of(self), reader=stack, definition=definition)

        # FSx and CloudFormation replace a file system for some changes, and not always for the same ones
        # (update behaviour of AWS::FSx::FileSystem): any change is taken for one.
        definition = self._resource._cfn_properties
        return MountedFileSystem(
            file_system_id=value(self.file_system_id, definition),
            mount_name=value(self.mount_name, definition),
            subnet_id=self.subnet.subnet_id,
            security_group_id=value(self.security_group.security_group_id),
            capacity_gib=self._capacity_gib,
            elastic=self._elastic,
        )

    def _keep_what_it_needs(self, removal_policy: cdk.RemovalPolicy) -> None:
        """Let group, rules and links outlive the stack as well: without them the data are out of reach.

        A link that is replaced is deleted all the same, as no two may lead to one folder.
        """
        for construct in self.node.find_all():
            if isinstance(construct, cdk.CfnResource):
                construct.apply_removal_policy(removal_policy)
            if isinstance(construct, fsx.CfnDataRepositoryAssociation):
                construct.cfn_options.update_replace_policy = cdk.CfnDeletionPolicy.DELETE

    def _link(self, associations: list[AssociationSpec], buckets: Mapping[str, s3.IBucket]) -> None:
        for number, each in enumerate(associations, 1):
            fsx.CfnDataRepositoryAssociation(
                self,
                f"Association{number}",
                file_system_id=self.file_system_id,
                file_system_path=each.path,
                data_repository_path=each.s3_uri or f"s3://{buckets[str(each.bucket)].bucket_name}",
                batch_import_meta_data_on_create=each.import_on_create,
                s3=fsx.CfnDataRepositoryAssociation.S3Property(
                    auto_import_policy=fsx.CfnDataRepositoryAssociation.AutoImportPolicyProperty(
                        events=[event.upper() for event in each.auto_import]
                    )
                    if each.auto_import
                    else None,
                    auto_export_policy=fsx.CfnDataRepositoryAssociation.AutoExportPolicyProperty(
                        events=[event.upper() for event in each.auto_export]
                    )
                    if each.auto_export
                    else None,
                )
                if each.auto_import or each.auto_export
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


def _configuration(lustre: LustreSpec) -> fsx.CfnFileSystem.LustreConfigurationProperty:
    iops = lustre.metadata.iops if lustre.metadata else None
    tiering = lustre.intelligent_tiering
    return fsx.CfnFileSystem.LustreConfigurationProperty(
        deployment_type=lustre.deployment,
        per_unit_storage_throughput=lustre.throughput,
        data_compression_type=lustre.compression,
        drive_cache_type="NONE" if lustre.storage_type == "HDD" else None,
        efa_enabled=lustre.efa or None,
        metadata_configuration=fsx.CfnFileSystem.MetadataConfigurationProperty(
            mode="AUTOMATIC" if iops is None else "USER_PROVISIONED", iops=iops
        )
        if lustre.metadata
        else None,
        throughput_capacity=tiering.throughput_mbps if tiering else None,
        data_read_cache_configuration=fsx.CfnFileSystem.DataReadCacheConfigurationProperty(
            sizing_mode=_SIZING[tiering.read_cache.mode], size_gib=tiering.read_cache.gib
        )
        if tiering
        else None,
        weekly_maintenance_start_time=numbered_weekday(lustre.maintenance) if lustre.maintenance else None,
        daily_automatic_backup_start_time=lustre.backup.start if lustre.backup else None,
        automatic_backup_retention_days=lustre.backup.retention_days if lustre.backup else None,
        copy_tags_to_backups=True if lustre.backup else None,
    )


_SIZING = {
    "none": "NO_CACHE",
    "proportional": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY",
    "sized": "USER_PROVISIONED",
}
