"""What AWS says of a file system that the cluster file names by its id, asked for at synthesis."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from launcher.cluster.files import ClusterFileError
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.storage_section import IN_FULL, ExistingFileSystem

_SERVING = ("AVAILABLE", "UPDATING")
"""The states in which it can be mounted (FSx API reference, FileSystem, Lifecycle)."""


def with_file_system_in_full(spec: ClusterSpec, *, fsx: Any, ec2: Any) -> ClusterSpec:
    """The cluster with all that is to be known of its existing file system, or as it is if that is known.

    Args:
        spec: the cluster file.
        fsx: a client of FSx in the cluster's region.
        ec2: a client of EC2 there.

    Raises:
        ClusterFileError: there is no such Lustre file system, it cannot be mounted, it stands in a zone
            without jobs, or AWS cannot be asked.
    """
    if spec.lustre is None or spec.lustre.existing is None or not spec.lustre.existing.to_be_looked_up:
        return spec
    id_ = spec.lustre.existing.id
    try:
        described = fsx.describe_file_systems(FileSystemIds=[id_])["FileSystems"][0]
        _check(described)
        subnet = ec2.describe_subnets(SubnetIds=described["SubnetIds"])["Subnets"][0]
        interfaces = ec2.describe_network_interfaces(
            NetworkInterfaceIds=described["NetworkInterfaceIds"][:1]
        )["NetworkInterfaces"]
    except (ClientError, BotoCoreError) as error:
        raise not_looked_up(id_, error) from error
    subnets = [] if spec.vpc.existing is None else spec.vpc.existing.subnets
    zones = spec.availability_zones or [each.availability_zone for each in subnets]
    if not {subnet["AvailabilityZone"], subnet["AvailabilityZoneId"]} & set(zones):
        raise ClusterFileError(
            f"lustre.existing: {id_} is in {subnet['AvailabilityZone']} ({subnet['AvailabilityZoneId']}), "
            f"but the cluster's jobs run in {', '.join(zones)}: a job that mounts it must run in its zone. "
            "Add that zone to the cluster, or use a file system in one of its zones."
        )
    existing = ExistingFileSystem(
        id=id_,
        mount_name=described["LustreConfiguration"]["MountName"],
        subnet_id=subnet["SubnetId"],
        availability_zone=subnet["AvailabilityZone"],
        security_group_id=_group(spec, id_, interfaces),
    )
    return spec.model_copy(update={"lustre": spec.lustre.model_copy(update={"existing": existing})})


def not_looked_up(id_: str, error: Exception) -> ClusterFileError:
    """What to say where AWS could not be asked about a file system."""
    return ClusterFileError(
        f"lustre.existing: {id_} could not be looked up: {error}. Use credentials that may call "
        "fsx:DescribeFileSystems, ec2:DescribeSubnets and ec2:DescribeNetworkInterfaces, or name it in full: "
        f"`{IN_FULL}`."
    )


def _check(described: Any) -> None:
    id_, kind, state = (described[key] for key in ("FileSystemId", "FileSystemType", "Lifecycle"))
    if kind != "LUSTRE":
        raise ClusterFileError(
            f"lustre.existing: {id_} is a file system of type {kind}, and training jobs mount Lustre only. "
            "Name one of type LUSTRE."
        )
    if state not in _SERVING:
        raise ClusterFileError(
            f"lustre.existing: {id_} is {state}, so no job could mount it. Wait until it is AVAILABLE, or "
            "see in the FSx console why it is not."
        )


def _group(spec: ClusterSpec, id_: str, interfaces: Any) -> str:
    """The group of its interfaces; one with EFA may stand in that of the hosts, too."""
    hosts = spec.vpc.existing.security_group_id if spec.vpc.existing else None
    groups = [group["GroupId"] for each in interfaces for group in each["Groups"]]
    others = [group for group in groups if group != hosts] or groups
    if len(others) != 1:
        raise ClusterFileError(
            f"lustre.existing: the interfaces of {id_} stand in {len(others)} security groups "
            f"({', '.join(others) or 'none'}), so which one is the servers' is not known. Name it in full: "
            f"`{IN_FULL}`."
        )
    return str(others[0])
