"""The cluster manifest: what `cdk deploy` provisioned, in the one shape that the launcher reads.

The stacks write it as JSON into the SSM parameter `/slipway/clusters/NAME`; the launcher reads it
by name or from a file. Nobody copies ids by hand.
"""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

CODE_FOLDER = "code"
"""Below it lies a job's code in its bucket, in a folder that is named by the code's digest."""

CLUSTER_TAG = "slipway:cluster"
"""The tag with the cluster's name, on all that was provisioned for it and on every job that runs on it."""


def manifest_parameter_name(cluster_name: str) -> str:
    """The SSM parameter that holds the manifest of a cluster."""
    return f"/slipway/clusters/{cluster_name}"


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


_ROLE = re.compile(r"arn:[^:]+:iam::(?P<account>\d{12}):role/")


class Cluster(_ManifestPart):
    """What is provisioned under one name; `secrets` are those that the cluster file lets jobs read."""

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
    secrets: list[str] = Field(default_factory=list)

    @property
    def bucket_owners(self) -> dict[str, str]:
        """The account of each of the cluster's buckets, by its name: that of the role, as for all of it.

        Empty for a role that is none: AWS refuses that itself.
        """
        role = _ROLE.match(self.role_arn)
        names = (self.buckets.code, self.buckets.checkpoints, self.buckets.output)
        return dict.fromkeys(names, role["account"]) if role else {}
