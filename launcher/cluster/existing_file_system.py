"""A Lustre file system that exists already, as the cluster file names it: by its id, or in full."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from launcher.cluster.section import Section, refuse
from launcher.cluster.zones import is_zone_id
from launcher.failure_modes import storage

IN_FULL = (
    "existing: {id: fs-..., mount_name: ..., subnet_id: subnet-..., availability_zone: ..., "
    "security_group_id: sg-...}"
)
"""How a file system is named in full, for remedies."""


class ExistingFileSystem(Section):
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
