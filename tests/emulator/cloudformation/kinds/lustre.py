"""FSx for Lustre: file systems that are AVAILABLE at once, their interfaces, and their links to S3."""

from __future__ import annotations

import functools
from typing import Any
from uuid import uuid4

import botocore.session
from moto.fsx.models import FileSystem, fsx_backends

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import Kind, Properties, Refused, Resource, as_list, tags_of

# One every 2.4 TiB or so in FSx; one is enough to hold a subnet and its groups.
INTERFACES = 1

# What CloudFormation's resource specification says to update by replacement (causesReplacement in the data
# with which `cdk diff` works).
FIXED = frozenset(
    {
        "CopyTagsToBackups", "DeploymentType", "DriveCacheType", "ExportPath", "ImportPath",
        "ImportedFileChunkSize", "PerUnitStorageThroughput",
    }
)  # fmt: skip


class LustreFileSystem(FileSystem):
    """An FSx for Lustre file system that is AVAILABLE at once and has a mount name and interfaces."""

    def __init__(self, account: Account, properties: Properties) -> None:
        self.type_version = properties.get("FileSystemTypeVersion")
        super().__init__(
            account_id=account.id,
            region_name=account.region,
            file_system_type=properties["FileSystemType"],
            # Intelligent-Tiering has no size of its own.
            storage_capacity=int(properties.get("StorageCapacity", 0)),
            storage_type=properties.get("StorageType", "SSD"),
            subnet_ids=properties["SubnetIds"],
            security_group_ids=properties.get("SecurityGroupIds", []),
            tags=as_list(tags_of(properties)),
            kms_key_id=properties.get("KmsKeyId"),
            windows_configuration=None,
            lustre_configuration=dict(properties["LustreConfiguration"]),
            ontap_configuration=None,
            open_zfs_configuration=None,
            backend=fsx_backends[account.id][account.region],
        )
        self.backend.file_systems[self.file_system_id] = self
        self.links: dict[
            str, tuple[str, str]
        ] = {}  # folder and place in S3 of its associations, by their ids
        ec2 = account.client("ec2")
        made = [
            ec2.create_network_interface(
                SubnetId=self.subnet_ids[0],
                Groups=list(self.security_group_ids),
                Description=f"Created by Amazon FSx ({self.file_system_id})",
            )
            for _ in range(INTERFACES)
        ]
        self.interfaces = [each["NetworkInterface"]["NetworkInterfaceId"] for each in made]
        self.vpc_id = made[0]["NetworkInterface"]["VpcId"]

    @property
    def mount_name(self) -> str:
        return self.file_system_id.removeprefix("fs-")

    def to_dict(self) -> dict[str, Any]:
        described = super().to_dict()
        described.pop("SecurityGroupIds", None)  # FSx never tells them: they are those of the interfaces
        described["LustreConfiguration"] = {**described["LustreConfiguration"], "MountName": self.mount_name}
        if self.type_version:
            described["FileSystemTypeVersion"] = self.type_version
        return {
            **described,
            "Lifecycle": "AVAILABLE",
            "NetworkInterfaceIds": self.interfaces,
            "VpcId": self.vpc_id,
        }


class LustreFileSystemKind(Kind):
    type = "AWS::FSx::FileSystem"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        made = LustreFileSystem(account, properties)
        attributes = {
            "LustreMountName": made.mount_name,
            "DNSName": made.dns_name,
            "ResourceARN": made.resource_arn,
        }
        return Resource(made.file_system_id, properties, attributes)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        made = fsx_backends[account.id][account.region].file_systems[old.physical_id]
        capacity, deployment = properties.get("StorageCapacity"), _lustre(properties).get("DeploymentType")
        if capacity is not None and int(capacity) != made.storage_capacity:
            if int(capacity) < made.storage_capacity:
                raise Refused(
                    f"BadRequest: The storage capacity {capacity} GiB must be greater than the current "
                    f"storage capacity of {made.storage_capacity} GiB."
                )
            if deployment == "SCRATCH_1":
                raise Refused("BadRequest: The storage capacity of SCRATCH_1 can't be increased.")
            made.storage_capacity = int(capacity)
        self._check(made.lustre_configuration, _lustre(properties))
        made.lustre_configuration = dict(_lustre(properties))
        made.type_version = properties.get("FileSystemTypeVersion")
        tagger = made.backend.tagger
        tagger.delete_all_tags_for_resource(made.resource_arn)
        tagger.tag_resource(made.resource_arn, as_list(tags_of(properties)))

    def delete(self, account: Account, old: Resource) -> None:
        made = fsx_backends[account.id][account.region].file_systems.pop(old.physical_id)
        for interface in made.interfaces:
            account.client("ec2").delete_network_interface(NetworkInterfaceId=interface)

    def _check(self, before: Properties, after: Properties) -> None:
        """FSx's refusals, by the references of UpdateFileSystem and of its metadata configuration."""
        for key in sorted({*before, *after} - _changeable()):
            if before.get(key) != after.get(key):
                raise Refused(f"BadRequest: {key} of a file system cannot be changed.")
        speeds = [int(each.get("ThroughputCapacity") or 0) for each in (before, after)]
        if speeds[1] < speeds[0]:
            raise Refused(f"BadRequest: ThroughputCapacity can only be increased from {speeds[0]} MB/s.")
        old, new = (each.get("MetadataConfiguration") for each in (before, after))
        if (old is None) != (new is None):
            raise Refused("BadRequest: A metadata configuration is given when the file system is created.")
        if old and new and (new.get("Iops") or 0) < (old.get("Iops") or 0) and new["Mode"] != "AUTOMATIC":
            raise Refused("BadRequest: Metadata IOPS cannot be decreased.")

    def also_create_only(self, old: Properties, new: Properties) -> list[str]:
        """What is fixed within LustreConfiguration, into which the schema does not look."""
        before, after = _lustre(old), _lustre(new)
        nested = [f"LustreConfiguration/{key}" for key in sorted(FIXED) if before.get(key) != after.get(key)]
        version = "FileSystemTypeVersion"
        return [*nested, *([version] if old.get(version) != new.get(version) else [])]


class DataRepositoryAssociation(Kind):
    type = "AWS::FSx::DataRepositoryAssociation"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        # moto knows no associations; the file system that they need must stand all the same.
        file_systems = fsx_backends[account.id][account.region].file_systems
        if properties["FileSystemId"] not in file_systems:
            raise Refused(f"FileSystemNotFound: File system '{properties['FileSystemId']}' does not exist.")
        links, path = file_systems[properties["FileSystemId"]].links, properties["FileSystemPath"]
        place = str(properties["DataRepositoryPath"]).rstrip("/")
        for taken, taken_place in links.values():
            if _within(path, taken) or _within(taken, path):
                raise Refused(f"BadRequest: The file system path {path} overlaps with {taken}.")
            if place == taken_place:
                raise Refused(f"BadRequest: The data repository path {place} is linked already.")
        id_ = f"dra-{uuid4().hex[:17]}"
        links[id_] = path, place
        attributes = {"AssociationId": id_, "ResourceARN": account.arn("fsx", f"association/{id_}")}
        return Resource(id_, properties, attributes)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        """Nobody asks moto for associations: what one is like is known to the stack alone."""

    def delete(self, account: Account, old: Resource) -> None:
        made = fsx_backends[account.id][account.region].file_systems.get(old.properties["FileSystemId"])
        if made is not None:
            del made.links[old.physical_id]


def _within(path: str, other: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{other.rstrip('/')}/")


def _lustre(properties: Properties) -> Properties:
    found: Properties = properties.get("LustreConfiguration", {})
    return found


@functools.cache
def _changeable() -> frozenset[str]:
    """What UpdateFileSystem takes of a Lustre configuration."""
    model = botocore.session.get_session().get_service_model("fsx")
    request = model.operation_model("UpdateFileSystem").input_shape
    return frozenset(request.members["LustreConfiguration"].members)
