"""A Lustre file system of the account, as plain data: its state, its place and its links to S3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.account.network import Subnet
from launcher.aws.errors import aws_errors

_SERVING = frozenset({"AVAILABLE", "UPDATING"})


@dataclass(frozen=True, slots=True)
class Association:
    """A link between a path on the file system and a prefix in S3."""

    id: str
    lifecycle: str
    path: str
    s3_uri: str
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class FileSystem:
    """An FSx for Lustre file system.

    `lifecycle` is FSx's own word, such as CREATING or AVAILABLE, and `failure` what FSx says about one
    that failed. `security_group_ids` are those of its network interfaces; None, like every other None
    here, means that it is not known: FSx tells mount name, VPC and interfaces only once they exist.
    """

    id: str
    lifecycle: str
    mount_name: str | None
    vpc_id: str | None
    subnet_id: str | None
    availability_zone: str | None
    security_group_ids: tuple[str, ...] | None
    deployment: str | None
    storage_type: str | None
    capacity_gib: int | None
    throughput: int | None
    compression: str | None
    version: str | None
    efa: bool
    kms_key_arn: str | None
    failure: str | None = None

    @property
    def serves(self) -> bool:
        """Whether it can be mounted now; one that is being updated still serves."""
        return self.lifecycle in _SERVING


def describe_file_system(fsx: Any, file_system_id: str) -> Mapping[str, Any] | None:
    """What FSx says of a file system, for `parse_file_system`; None if there is none of that id.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"describe the file system {file_system_id} (fsx:DescribeFileSystems)"):
        try:
            answer = fsx.describe_file_systems(FileSystemIds=[file_system_id])
        except fsx.exceptions.FileSystemNotFound:
            return None
    found: list[Mapping[str, Any]] = answer["FileSystems"]
    return found[0] if found else None


def fetch_interfaces(ec2: Any, ids: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """The network interfaces with these ids, as EC2 describes them: a file system may have hundreds.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(_INTERFACES):
        return tuple(
            each
            for start in range(0, len(ids), _MOST_FILTER_VALUES)
            for page in ec2.get_paginator("describe_network_interfaces").paginate(
                Filters=[
                    {"Name": "network-interface-id", "Values": list(ids[start : start + _MOST_FILTER_VALUES])}
                ]
            )
            for each in page["NetworkInterfaces"]
        )


def fetch_some_interfaces(ec2: Any, subnet_ids: Sequence[str]) -> tuple[Mapping[str, Any], ...]:
    """Interfaces in these subnets, all of them where there are no more than MOST_INTERFACES_UNASKED.

    A file system that is where it should be has its interfaces in the subnets of the job; so most of
    the time no call is needed after FSx told their ids. Raises AwsRefusal as the others do.
    """
    with aws_errors(_INTERFACES):
        answer = ec2.describe_network_interfaces(
            Filters=[{"Name": "subnet-id", "Values": list(subnet_ids)}], MaxResults=MOST_INTERFACES_UNASKED
        )
    return tuple(answer["NetworkInterfaces"])


def fetch_associations(fsx: Any, file_system_id: str) -> tuple[Association, ...]:
    """The links of a file system to S3, whatever their state; the oldest type, SCRATCH_1, has none.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("describe the data repository associations (fsx:DescribeDataRepositoryAssociations)"):
        return tuple(parse_association(each) for page in _pages(fsx, file_system_id) for each in page)


def parse_file_system(
    described: Mapping[str, Any],
    *,
    subnet: Subnet | None = None,
    interfaces: Sequence[Mapping[str, Any]] = (),
) -> FileSystem:
    """A file system from what FSx and EC2 describe of it."""
    lustre = described.get("LustreConfiguration", {})
    groups = dict.fromkeys(group["GroupId"] for each in interfaces for group in each.get("Groups", ()))
    zone = next((each["AvailabilityZone"] for each in interfaces if "AvailabilityZone" in each), None)
    return FileSystem(
        id=described["FileSystemId"],
        lifecycle=described.get("Lifecycle", "UNKNOWN"),
        mount_name=lustre.get("MountName"),
        vpc_id=described.get("VpcId") or (subnet.vpc_id if subnet else None),
        subnet_id=next(iter(described.get("SubnetIds", ())), None),
        availability_zone=subnet.availability_zone if subnet else zone,
        security_group_ids=tuple(groups) if interfaces else None,
        deployment=lustre.get("DeploymentType"),
        storage_type=described.get("StorageType"),
        capacity_gib=described.get("StorageCapacity"),
        throughput=lustre.get("PerUnitStorageThroughput"),
        compression=lustre.get("DataCompressionType"),
        version=described.get("FileSystemTypeVersion"),
        efa=bool(lustre.get("EfaEnabled", False)),
        kms_key_arn=described.get("KmsKeyId"),
        failure=(described.get("FailureDetails") or {}).get("Message"),
    )


def parse_association(described: Mapping[str, Any]) -> Association:
    """An association from one element of DescribeDataRepositoryAssociations."""
    return Association(
        id=described["AssociationId"],
        lifecycle=described.get("Lifecycle", "UNKNOWN"),
        path=described.get("FileSystemPath", "/"),
        s3_uri=described.get("DataRepositoryPath", ""),
        failure=(described.get("FailureDetails") or {}).get("Message"),
    )


def _pages(fsx: Any, file_system_id: str) -> Iterator[list[Mapping[str, Any]]]:
    """The pages of associations; the SDK has no paginator for them."""
    token: dict[str, str] = {}
    while True:
        answer = fsx.describe_data_repository_associations(
            Filters=[{"Name": "file-system-id", "Values": [file_system_id]}], **token
        )
        yield answer["Associations"]
        if not answer.get("NextToken"):
            return
        token = {"NextToken": answer["NextToken"]}


_INTERFACES = "describe the file system's network interfaces (ec2:DescribeNetworkInterfaces)"

MOST_INTERFACES_UNASKED = 200
"""One answer that is still small: EC2 would send up to 1000 interfaces at once."""

_MOST_FILTER_VALUES = 200
"""EC2 user guide: a filter takes at most 200 values."""
