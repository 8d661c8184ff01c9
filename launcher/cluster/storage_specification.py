"""The storage of a cluster file: the Lustre file system, its links to S3, and the buckets."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from launcher.cluster.lustre import (
    MOST_ASSOCIATIONS,
    Deployment,
    capacity_problem,
    efa_problem,
    is_persistent,
    metadata_problem,
    overlapping_paths,
    storage_type,
    throughput_problem,
    what_is_possible,
)
from launcher.cluster.section import BucketName, Section, refuse
from launcher.text.uris import BUCKET_NAME

Event = Literal["new", "changed", "deleted"]
"""What happens to a file or object."""


class LustreMetadata(Section):
    """The metadata servers' capacity; `automatic` grows with the file system."""

    iops: int | None = Field(
        default=None,
        description="Metadata IOPS: 1500, 3000, 6000 or a multiple of 12000 up to 192000. FSx chooses when "
        "left out.",
    )


class LustreBackup(Section):
    """Daily automatic backups; persistent types without associations only."""

    retention_days: int = Field(ge=1, le=90, description="Days for which a backup is kept.")


class AssociationSpec(Section):
    """A folder of the file system that mirrors an S3 prefix.

    Its bucket must be in the cluster's region: FSx refuses others, but only while it creates the link.
    """

    path: str = Field(
        pattern=r"^/[^\x00\x85\u2028\u2029\r\n]*$", max_length=4096, description="Folder, such as /data."
    )
    s3_uri: str = Field(
        pattern=rf"^s3://{BUCKET_NAME}(/[^\x00\x85\u2028\u2029\r\n]*)?$",
        max_length=4357,
        description="Bucket or prefix, such as s3://bucket/prefix.",
    )
    import_on_create: bool = Field(
        default=True,
        description="Whether the names of what is in S3 already appear at once. FSx itself would leave "
        "them out unless asked, and a job would find an empty folder.",
    )
    auto_import: list[Event] = Field(
        default_factory=list, description="Changes in S3 that appear on the file system by themselves."
    )
    auto_export: list[Event] = Field(
        default_factory=list,
        description="Changes on the file system that are written to S3. `deleted` deletes objects too.",
    )


class LustreSpec(Section):
    """The FSx for Lustre file system, in the first availability zone."""

    deployment: Deployment = Field(description="SCRATCH_2 for work in progress, PERSISTENT_2 to keep.")
    throughput: int | None = Field(
        default=None,
        validate_default=True,
        description="MB/s per TiB; persistent types only: 125, 250, 500 or 1000 on PERSISTENT_2.",
    )
    capacity_gib: int = Field(description="GiB: 1200 or a multiple of 2400 on the SSD types in use today.")
    compression: Literal["LZ4", "NONE"] = Field(
        default="LZ4", description="LZ4 compresses on the servers, which also saves disk throughput."
    )
    metadata: LustreMetadata | None = Field(
        default=None, description="`automatic` or {iops: N}; PERSISTENT_2 only."
    )
    efa: bool = Field(
        default=False,
        description="EFA between clients and servers, for EC2 and HyperPod clients: their set-up needs root "
        "on the host, which a training job does not have.",
    )
    backup: LustreBackup | None = Field(default=None, description="No automatic backups when left out.")
    associations: list[AssociationSpec] = Field(
        default_factory=list, max_length=MOST_ASSOCIATIONS, description="Links to S3, at most eight."
    )

    @field_validator("throughput")
    @classmethod
    def _goes_with_the_deployment(cls, throughput: int | None, info: ValidationInfo) -> int | None:
        if "deployment" in info.data:
            _refuse(throughput_problem(info.data["deployment"], throughput))
        return throughput

    @field_validator("capacity_gib")
    @classmethod
    def _exists(cls, capacity_gib: int, info: ValidationInfo) -> int:
        if {"deployment", "throughput"} <= info.data.keys():
            _refuse(capacity_problem(info.data["deployment"], info.data["throughput"], capacity_gib))
        return capacity_gib

    @field_validator("metadata", mode="before")
    @classmethod
    def _may_be_automatic(cls, metadata: Any) -> Any:
        if isinstance(metadata, str):
            if metadata != "automatic":
                _refuse(f"{metadata!r} is neither `automatic` nor {{iops: N}}")
            return {}
        return metadata

    @field_validator("metadata")
    @classmethod
    def _has_metadata_servers(cls, metadata: LustreMetadata | None, info: ValidationInfo) -> Any:
        if metadata is not None and "deployment" in info.data:
            _refuse(metadata_problem(info.data["deployment"], metadata.iops))
        return metadata

    @field_validator("efa")
    @classmethod
    def _can_have_efa(cls, efa: bool, info: ValidationInfo) -> bool:
        known = info.data
        if efa and "deployment" in known:
            problem = efa_problem(
                known["deployment"],
                known.get("throughput"),
                known.get("capacity_gib", 0),
                metadata=known.get("metadata", True) is not None,
            )
            _refuse(problem)
        return efa

    @field_validator("backup")
    @classmethod
    def _can_be_backed_up(cls, backup: LustreBackup | None, info: ValidationInfo) -> LustreBackup | None:
        deployment = info.data.get("deployment")
        if backup is not None and deployment is not None and not is_persistent(deployment):
            _refuse(f"{deployment} cannot be backed up; only persistent types can")
        return backup

    @field_validator("associations")
    @classmethod
    def _can_be_linked(
        cls, associations: list[AssociationSpec], info: ValidationInfo
    ) -> list[AssociationSpec]:
        if not associations:
            return associations
        if info.data.get("deployment") == "SCRATCH_1":
            _refuse("SCRATCH_1 cannot be linked to S3; every other type can")
        if info.data.get("backup") is not None:
            # FSx API reference, CreateBackup.
            _refuse("a file system that is linked to S3 cannot be backed up; leave out one of the two")
        overlap = overlapping_paths([each.path for each in associations])
        if overlap is not None:
            first, second = (associations[position].path for position in overlap)
            refuse(
                f"{second!r} overlaps with {first!r}; FSx links a folder to one place in S3 only",
                remedy="Use folders of which none lies in another; / can only be the one association.",
                below=(overlap[1], "path"),
            )
        places = [each.s3_uri.rstrip("/") for each in associations]
        for position, place in enumerate(places):
            if place in places[:position]:
                refuse(
                    f"{place!r} is linked twice; FSx wants a place in S3 of its own for each folder",
                    remedy="Link it once.",
                    below=(position, "s3_uri"),
                )
        return associations

    @property
    def storage_type(self) -> Literal["SSD", "HDD"]:
        """The storage that the deployment type and throughput stand for."""
        return storage_type(self.deployment, self.throughput)


class BucketsSpec(Section):
    """Buckets of the cluster's account that exist already; those that are left out are created."""

    code: BucketName | None = Field(default=None, description="What the launcher uploads and jobs read.")
    checkpoints: BucketName | None = Field(default=None, description="What jobs write and resume from.")
    output: BucketName | None = Field(default=None, description="Model artifacts.")

    @property
    def existing(self) -> list[str]:
        """The names of those that exist already."""
        return [name for name in (self.code, self.checkpoints, self.output) if name is not None]


def _refuse(problem: str | None) -> None:
    refuse(problem, remedy=what_is_possible())
