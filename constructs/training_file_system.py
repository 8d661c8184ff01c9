"""The Lustre file system of a cluster file, and how the other stacks of the cluster see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.mounted_file_system import MountedFileSystem
from constructs.weak_references import read_weakly

from launcher.cluster.storage_section import LustreSpec, numbered_weekday
from slipway_cdk.training_file_system import PREVENTS, S3Link, TrainingFileSystem

__all__ = ["PREVENTS", "ClusterFileSystem", "TrainingFileSystem"]


class ClusterFileSystem(TrainingFileSystem):
    """A training file system as the section `lustre` of a cluster file describes it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        clients: ec2.ISecurityGroup,
        clients_reach_any_address: bool,
        lustre: LustreSpec,
        encryption_key: kms.IKey | None,
        buckets: Mapping[str, s3.IBucket],
        removal_policy: cdk.RemovalPolicy,
    ) -> None:
        """Create it; `buckets` are those that links name by `bucket`, the rest is the base's."""
        if lustre.deployment is None:
            raise ValueError("an existing file system is not created: use its ids as they are")
        super().__init__(
            scope,
            id,
            vpc=vpc,
            subnet=subnet,
            clients=clients,
            clients_reach_any_address=clients_reach_any_address,
            configuration=_configuration(lustre),
            capacity_gib=lustre.capacity_gib,
            encryption_key=encryption_key,
            links=list(_links(lustre, buckets)),
            removal_policy=removal_policy,
        )
        self._lustre = lustre

    def seen_from(self, stack: cdk.Stack) -> MountedFileSystem:
        """The file system for use in a stack, which is not its own as a rule.

        Another stack reads it weakly, so that it can go, or another can take its place, in one deployment.
        """

        def value(own: str, definition: object = None) -> str:
            return read_weakly(own, owner=cdk.Stack.of(self), reader=stack, definition=definition)

        # FSx and CloudFormation replace a file system for some changes, and not always for the same ones
        # (update behaviour of AWS::FSx::FileSystem): any change is taken for one.
        definition = self.resource._cfn_properties
        return MountedFileSystem(
            file_system_id=value(self.file_system_id, definition),
            mount_name=value(self.mount_name, definition),
            subnet_id=self.subnet.subnet_id,
            security_group_id=value(self.security_group.security_group_id),
            capacity_gib=self._lustre.capacity_gib,
            elastic=self._lustre.intelligent_tiering is not None,
        )


def _links(lustre: LustreSpec, buckets: Mapping[str, s3.IBucket]) -> Iterator[S3Link]:
    for each in lustre.associations:
        yield S3Link(
            path=each.path,
            s3_uri=each.s3_uri or f"s3://{buckets[str(each.bucket)].bucket_name}",
            import_on_create=each.import_on_create,
            auto_import=each.auto_import,
            auto_export=each.auto_export,
        )


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
