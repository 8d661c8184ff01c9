"""The cluster manifest: what `cdk deploy` provisioned, in the one shape that the launcher reads.

The stacks write it as JSON into the SSM parameter `/slipway/clusters/NAME`; the launcher reads it
by name or from a file. Nobody copies ids by hand.
"""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from launcher.documents import DocumentError, read_document
from launcher.text.regular_files import cache_folder, file_mode, replace_file


class _ManifestPart(BaseModel):
    # Built when first used: most jobs are checked without a manifest.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ClusterSubnet(_ManifestPart):
    """A private subnet that training jobs run in."""

    id: str
    availability_zone: str


class Buckets(_ManifestPart):
    """Bucket names (not URIs, not ARNs) for the three kinds of objects."""

    code: str
    checkpoints: str
    output: str


class Lustre(_ManifestPart):
    """The FSx for Lustre file system; `mount_name` is the first element of every DirectoryPath."""

    id: str
    mount_name: str
    subnet_id: str
    availability_zone: str
    security_group_id: str


class HyperPod(_ManifestPart):
    """A HyperPod cluster with Slurm; `entry_group` is the instance group on whose nodes one logs in."""

    cluster_arn: str
    entry_group: str


_ROLE = re.compile(r"arn:[^:]+:iam::(?P<account>\d{12}):role/")


class Cluster(_ManifestPart):
    """What is provisioned under one name.

    `secrets` are those that the cluster file lets jobs read, `controller_arn` is the function that goes on
    with runs that are handed over to it.
    """

    name: str
    region: str
    vpc_id: str
    subnets: list[ClusterSubnet] = Field(min_length=1)
    security_group_ids: list[str] = Field(min_length=1)
    role_arn: str
    buckets: Buckets
    kms_key_arn: str | None = None
    lustre: Lustre | None = None
    queue_arn: str | None = None
    topic_arn: str | None = None
    controller_arn: str | None = None
    hyperpod: HyperPod | None = None
    secrets: list[str] = Field(default_factory=list)

    @property
    def bucket_owners(self) -> dict[str, str]:
        """The account of each of the cluster's buckets, by its name: that of the role, as for all of it.

        Empty for a role that is none: AWS refuses that itself.
        """
        role = _ROLE.match(self.role_arn)
        names = (self.buckets.code, self.buckets.checkpoints, self.buckets.output)
        return dict.fromkeys(names, role["account"]) if role else {}


class ManifestError(Exception):
    """A manifest file is not there or not what it should be, or cannot be written."""


def is_path(reference: str) -> bool:
    """Whether a job's `cluster` is a manifest's path (a slash or .json, .yaml) and not a name."""
    return "/" in reference or reference.endswith((".json", ".yaml"))


def load_manifest(path: Path) -> Cluster:
    """Read a manifest file (JSON or YAML). Raises ManifestError, naming the file and the field."""
    try:
        return Cluster.model_validate(read_document(path, ()).data)
    except OSError as error:
        raise ManifestError(f"the cluster manifest {path} cannot be read: {error.strerror}") from error
    except DocumentError as error:
        raise ManifestError(f"{path} is not a cluster manifest: {error.message}") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ManifestError(f"{path} is not a cluster manifest: {field or 'file'}: {first['msg']}") from error


def cached_manifest(name: str) -> Cluster | None:
    """The manifest of a cluster as last read from AWS, or None.

    Raises ManifestError for a file that cannot be used.
    """
    folder = _clusters_folder()
    path = folder / f"{name}.json" if folder else None
    return load_manifest(path) if path and file_mode(path) else None


def cached_manifests() -> list[Cluster]:
    """All manifests that were read from AWS on this machine; unreadable files are passed over."""
    found = []
    folder = _clusters_folder()
    for path in sorted(folder.glob("*.json")) if folder else ():
        try:
            found.append(load_manifest(path))
        except ManifestError:
            continue  # Of another version; a submission to that cluster reads it again.
    return found


def cache_manifest(cluster: Cluster) -> None:
    """Keep a manifest for planning without AWS. Raises ManifestError where it cannot be kept."""
    folder = _clusters_folder()
    if folder is None:
        raise ManifestError("this user has no home folder")
    try:
        replace_file(folder / f"{cluster.name}.json", cluster.model_dump_json(indent=2))
    except OSError as error:
        raise ManifestError(f"{folder} cannot be written: {error.strerror}") from error


def _clusters_folder() -> Path | None:
    """Where the manifests are kept; None for a user without a home."""
    try:
        return cache_folder() / "clusters"
    except FileNotFoundError:
        return None
