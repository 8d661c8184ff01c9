"""The storage of a cluster file: the Lustre file system, new or existing, its links to S3, and the
buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from launcher.cluster import lustre
from launcher.cluster.lustre import (
    MOST_ASSOCIATIONS,
    Deployment,
    IntelligentTiering,
    capacity_problem,
    efa_problem,
    is_persistent,
    metadata_problem,
    overlapping_paths,
    storage_type,
    throughput_problem,
    tiered_metadata_problem,
    what_is_possible,
)
from launcher.cluster.names import is_zone_id
from launcher.documents import FilePart, refuse
from launcher.failure_modes import storage
from launcher.failure_modes.model import Figure, Path
from launcher.text.values import BUCKET_NAME

BucketName = Annotated[str, StringConstraints(pattern=f"^{BUCKET_NAME}$"), Field(description="Bucket name.")]
"""The name of a bucket that exists."""

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9]"

TimeOfDay = Annotated[str, StringConstraints(pattern=rf"^{_TIME}$")]
"""Such as `03:00`."""

TimeOfWeek = Annotated[str, StringConstraints(pattern=rf"^({'|'.join(_DAYS)}) {_TIME}$")]
"""Such as `sun 03:00`."""


def numbered_weekday(time: str) -> str:
    """`sun 03:00` as FSx writes it, `7:03:00`; 1 is Monday.

    Source: FSx API reference, CreateFileSystemLustreConfiguration (WeeklyMaintenanceStartTime).
    """
    day, time_of_day = time.split(" ")
    return f"{_DAYS.index(day) + 1}:{time_of_day}"


IN_FULL = (
    "existing: {id: fs-..., mount_name: ..., subnet_id: subnet-..., availability_zone: ..., "
    "security_group_id: sg-...}"
)
"""How a file system is named in full, for remedies."""


class ExistingFileSystem(FilePart):
    """A file system that the cluster uses as it is: nothing is created for it, and nothing changed.

    Its ports must be open to the cluster's hosts; those of a file system that the cluster itself kept are.
    """

    id: str = Field(pattern=r"^fs-[0-9a-f]{8,17}$", description="Id, such as fs-0123456789abcdef0.")
    mount_name: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9_-]{1,8}$",
        description="Mount name. Alone, the id is enough: the rest is looked up at synthesis.",
    )
    subnet_id: str | None = Field(
        default=None, pattern=r"^subnet-[0-9a-f]{8,17}$", description="The subnet that it stands in."
    )
    availability_zone: str | None = Field(
        default=None, pattern=r"^[a-z0-9-]+$", description="Name of that subnet's zone, one of the cluster's."
    )
    security_group_id: str | None = Field(
        default=None, pattern=r"^sg-[0-9a-f]{8,17}$", description="The group of its interfaces."
    )

    @model_validator(mode="after")
    def _is_the_id_or_everything(self) -> ExistingFileSystem:
        missing = [name for name, value in self if value is None]
        if missing and not self.to_be_looked_up:
            refuse(
                f"{', '.join(missing)} missing: a file system is named by its id, or in full",
                remedy=f"Write `existing: {self.id}`, or `{IN_FULL}`.",
            )
        return self

    @property
    def to_be_looked_up(self) -> bool:
        """Whether only the id is known."""
        return (self.mount_name, self.subnet_id, self.availability_zone, self.security_group_id) == (
            None,
        ) * 4


def check_zone(existing: ExistingFileSystem, zones: Sequence[str]) -> None:
    """Refuse a file system in a zone in which no job of the cluster runs.

    Where the zone is not known yet, or the cluster's are given by their ids, that is told when the file
    system is looked up.
    """
    zone = existing.availability_zone
    if zone is not None and zone not in zones and not any(map(is_zone_id, zones)):
        refuse(
            f"{existing.id} is in {zone}, but the cluster's jobs run in {', '.join(zones)}: a job that "
            "mounts it must run in its zone",
            remedy=f"Add {zone} to the zones of the cluster, or use a file system in one of them.",
            mode=storage.LUSTRE_IN_ANOTHER_ZONE,
            below=("lustre", "existing", "availability_zone"),
        )


FIGURES = (*lustre.FIGURES, Figure("14", "days that old versions are kept, a bound of our own", None))

Event = Literal["new", "changed", "deleted"]
"""What happens to a file or object."""


class LustreMetadata(FilePart):
    """The metadata servers' capacity; `automatic` grows with the file system."""

    iops: int | None = Field(
        default=None,
        description="Metadata IOPS: 1500, 3000, 6000 or a multiple of 12000 up to 192000. FSx chooses when "
        "left out.",
    )


class LustreBackup(FilePart):
    """Daily automatic backups; persistent types without associations only."""

    retention_days: int = Field(ge=1, le=90, description="Days for which a backup is kept.")
    start: TimeOfDay | None = Field(
        default=None, description="When it begins, in UTC, such as 03:00. FSx chooses when left out."
    )


class AssociationSpec(FilePart):
    """A folder of the file system that mirrors an S3 prefix.

    Its bucket must be in the cluster's region: FSx refuses others, but only while it creates the link.
    """

    path: str = Field(
        pattern=r"^/[^\x00\x85\u2028\u2029\r\n]*$", max_length=4096, description="Folder, such as /data."
    )
    s3_uri: str | None = Field(
        default=None,
        pattern=rf"^s3://{BUCKET_NAME}(/[^\x00\x85\u2028\u2029\r\n]*)?$",
        max_length=4357,
        description="Bucket or prefix, such as s3://bucket/prefix. Where a KMS key of yours encrypts it, the "
        "key's policy must let FSx in ([what it takes](../cluster-life.md#permissions)).",
    )
    bucket: Literal["checkpoints", "output"] | None = Field(
        default=None,
        description="Instead of `s3_uri`: a bucket of the cluster, whose name need not be known before it is "
        "deployed.",
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

    @model_validator(mode="after")
    def _has_one_place_in_s3(self) -> AssociationSpec:
        if (self.s3_uri is None) == (self.bucket is None):
            both = "are both given" if self.s3_uri else "are both missing"
            refuse(
                f"`s3_uri` and `bucket` {both}; FSx links a folder to one place in S3",
                remedy="Give `s3_uri: s3://bucket/prefix`, or `bucket: checkpoints` for the cluster's own.",
            )
        return self


class LustreSpec(FilePart):
    """The FSx for Lustre file system, in the first availability zone, or one that exists."""

    existing: ExistingFileSystem | None = Field(
        default=None,
        description="A file system that is there already, instead of a new one: its id, or in full. No other "
        "field goes with it.",
    )
    deployment: Deployment | None = Field(
        default=None,
        validate_default=True,
        description="SCRATCH_2 for work in progress, PERSISTENT_2 to keep. Required for a new one.",
    )
    intelligent_tiering: IntelligentTiering | None = Field(
        default=None,
        description="Storage that grows by itself, instead of a capacity; PERSISTENT_2 with "
        "`metadata: {iops: 6000}` or 12000 only.",
    )
    throughput: int | None = Field(
        default=None,
        validate_default=True,
        description="MB/s per TiB; persistent types only: 125, 250, 500 or 1000 on PERSISTENT_2.",
    )
    capacity_gib: int | None = Field(
        default=None,
        validate_default=True,
        description="GiB: 1200 or a multiple of 2400 on the SSD types in use today. Required for a new one.",
    )
    compression: Literal["LZ4", "NONE"] = Field(
        default="LZ4", description="LZ4 compresses on the servers, which also saves disk throughput."
    )
    metadata: LustreMetadata | None = Field(
        default=None,
        validate_default=True,
        description="`automatic` or {iops: N}; PERSISTENT_2 only.",
    )
    efa: bool = Field(
        default=False,
        description="EFA between clients and servers, for EC2 and HyperPod clients: their set-up needs root "
        "on the host, which a training job does not have.",
    )
    backup: LustreBackup | None = Field(default=None, description="No automatic backups when left out.")
    maintenance: TimeOfWeek | None = Field(
        default=None,
        description="When FSx may maintain it, half an hour a week in UTC, such as sun 03:00: it does not "
        "answer for some of it. FSx chooses when left out.",
    )
    associations: list[AssociationSpec] = Field(
        default_factory=list,
        max_length=MOST_ASSOCIATIONS,
        description="Links to S3, at most eight. With `removal_policy: retain`, one that is taken out stays "
        "on the file system until it is deleted in FSx.",
    )

    @field_validator("existing", mode="before")
    @classmethod
    def _may_be_an_id(cls, existing: Any) -> Any:
        return {"id": existing} if isinstance(existing, str) else existing

    @field_validator("deployment")
    @classmethod
    def _is_given_for_a_new_one(cls, deployment: Deployment | None, info: ValidationInfo) -> Any:
        existing = info.data.get("existing")
        if deployment is None and "existing" in info.data and existing is None:
            _refuse("is missing")
        if deployment is not None and existing is not None:
            _refuse_beside(existing)
        return deployment

    @field_validator("intelligent_tiering")
    @classmethod
    def _can_be_tiered(cls, tiering: IntelligentTiering | None, info: ValidationInfo) -> Any:
        deployment = info.data.get("deployment")
        if tiering is not None and deployment not in (None, "PERSISTENT_2"):
            _refuse(f"{deployment} has no Intelligent-Tiering; only PERSISTENT_2 has")
        return tiering

    @field_validator("throughput")
    @classmethod
    def _goes_with_the_deployment(cls, throughput: int | None, info: ValidationInfo) -> int | None:
        if info.data.get("intelligent_tiering") is not None:
            if throughput is not None:
                _refuse("Intelligent-Tiering has `throughput_mbps` instead; leave this out")
        elif "intelligent_tiering" in info.data and info.data.get("deployment") is not None:
            _refuse(throughput_problem(info.data["deployment"], throughput))
        return throughput

    @field_validator("capacity_gib")
    @classmethod
    def _exists(cls, capacity_gib: int | None, info: ValidationInfo) -> int | None:
        if info.data.get("intelligent_tiering") is not None:
            if capacity_gib is not None:
                _refuse("Intelligent-Tiering has no capacity, as it grows by itself; leave this out")
        elif (
            info.data.get("deployment") is not None
            and {"intelligent_tiering", "throughput"} <= info.data.keys()
        ):
            if capacity_gib is None:
                _refuse("is missing")
            else:
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
        if info.data.get("intelligent_tiering") is not None:
            _refuse(tiered_metadata_problem(metadata.iops if metadata else None))
        elif metadata is not None and info.data.get("deployment") is not None:
            _refuse(metadata_problem(info.data["deployment"], metadata.iops))
        return metadata

    @field_validator("efa")
    @classmethod
    def _can_have_efa(cls, efa: bool, info: ValidationInfo) -> bool:
        known = info.data
        if efa and known.get("deployment") is not None:
            problem = efa_problem(
                known["deployment"],
                known.get("throughput"),
                known.get("capacity_gib") or 0,
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
        if info.data.get("intelligent_tiering") is not None:
            # FSx API reference, DataRepositoryAssociation.
            _refuse("a file system on Intelligent-Tiering cannot be linked to S3; leave out one of the two")
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
        places = [each.s3_uri.rstrip("/") if each.s3_uri else each.bucket for each in associations]
        for position, place in enumerate(places):
            if place in places[:position]:
                refuse(
                    f"{place!r} is linked twice; FSx wants a place in S3 of its own for each folder",
                    remedy="Link it once.",
                    below=(position, "s3_uri" if associations[position].s3_uri else "bucket"),
                )
        return associations

    @model_validator(mode="after")
    def _is_new_or_existing(self) -> LustreSpec:
        fields = type(self).model_fields
        others = [name for name in fields if name != "existing"]
        given = [
            name
            for name in others
            if getattr(self, name) != fields[name].get_default(call_default_factory=True)
        ]
        if self.existing is not None and given:
            _refuse_beside(self.existing, below=(given[0],))
        return self

    @property
    def storage_type(self) -> Literal["SSD", "HDD", "INTELLIGENT_TIERING"]:
        """The storage that the deployment type and throughput stand for."""
        if self.intelligent_tiering is not None:
            return "INTELLIGENT_TIERING"
        return "SSD" if self.deployment is None else storage_type(self.deployment, self.throughput)


class BucketsSpec(FilePart):
    """Buckets of the cluster's account that exist already; those that are left out are created."""

    code: BucketName | None = Field(default=None, description="What the launcher uploads and jobs read.")
    checkpoints: BucketName | None = Field(default=None, description="What jobs write and resume from.")
    output: BucketName | None = Field(default=None, description="Model artifacts.")
    checkpoint_versions: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="How many old versions of a checkpoint are kept for more than a day, for checkpoints "
        "that are written over and over. By default all are; none is kept for more than 14 days.",
    )

    @field_validator("checkpoint_versions")
    @classmethod
    def _is_of_a_new_bucket(cls, versions: int | None, info: ValidationInfo) -> int | None:
        existing = info.data.get("checkpoints")
        if versions is not None and existing is not None:
            refuse(
                f"{existing} exists, and nothing of it is changed",
                remedy="Leave it out, and give the bucket a lifecycle rule yourself.",
            )
        return versions

    @property
    def existing(self) -> list[str]:
        """The names of those that exist already."""
        return [name for name in (self.code, self.checkpoints, self.output) if name is not None]


def _refuse_beside(existing: ExistingFileSystem, below: Path = ()) -> None:
    refuse(
        f"{existing.id} exists, and nothing of it is changed",
        remedy="Leave it out: only a new file system takes it. One that is there is changed in FSx.",
        below=below,
    )


def _refuse(problem: str | None) -> None:
    refuse(problem, remedy=what_is_possible())
