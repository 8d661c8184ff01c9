"""The storage of the account, as plain data: buckets, places in them, and the Lustre file system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.account.network import Subnet


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket that exists, and its region."""

    name: str
    region: str


@dataclass(frozen=True, slots=True)
class BucketEncryption:
    """How what is put into a bucket is encrypted where the writer says nothing.

    `algorithm` is `AES256`, `aws:kms` or `aws:kms:dsse`, None where the bucket sets nothing (S3 then
    uses AES256).
    """

    algorithm: str | None
    kms_key_arn: str | None


def parse_bucket_encryption(answer: Mapping[str, Any]) -> BucketEncryption:
    """The encryption from S3's answer; an empty one means that nothing is set."""
    rules = answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", ())
    default: Mapping[str, Any] = next(
        (rule.get("ApplyServerSideEncryptionByDefault", {}) for rule in rules), {}
    )
    return BucketEncryption(default.get("SSEAlgorithm"), default.get("KMSMasterKeyID"))


MOST_LISTED = 1000
"""What one answer holds at most (S3 API reference, ListObjectsV2, MaxKeys)."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A place in S3 that the job reads.

    `objects` and `size_bytes` are those of the first objects there, in the order of their keys, at most
    MOST_LISTED; with `more` there are others, and both are lower bounds.
    """

    uri: str
    objects: int
    size_bytes: int = 0
    more: bool = False


_SERVING = frozenset({"AVAILABLE", "UPDATING"})


@dataclass(frozen=True, slots=True)
class DataRepositoryAssociation:
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
    here, means that it is not known: FSx names mount name, VPC and interfaces only once they exist.
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


def parse_association(described: Mapping[str, Any]) -> DataRepositoryAssociation:
    """An association from one element of DescribeDataRepositoryAssociations."""
    return DataRepositoryAssociation(
        id=described["AssociationId"],
        lifecycle=described.get("Lifecycle", "UNKNOWN"),
        path=described.get("FileSystemPath", "/"),
        s3_uri=described.get("DataRepositoryPath", ""),
        failure=(described.get("FailureDetails") or {}).get("Message"),
    )
