"""What a job names in the account: all that must be looked at before it is submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.text.uris import split_uri


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one job names; of a tuning job, what each of its training jobs names.

    The service may take one of `other_types` instead of `instance_type`. `shell` says that one may be
    opened in the containers.

    `reads` and `writes` are the S3 URIs that the job's role reads and writes, `looked_into` those that
    should hold something, or nothing, before it starts: the inputs and the checkpoints, not the code
    that is not yet uploaded. `image` is None where an algorithm is named instead. `bucket_owners` are the
    accounts that own the cluster's buckets, by their names; whose the others are is not known. `tags` are
    the job's own, `secrets` the names or ARNs of those that the role reads.
    """

    region: str
    job_name: str
    role_arn: str
    instance_type: str
    instance_count: int
    spot: bool
    warm_pool: bool
    training_plan: bool
    image: str | None
    subnet_ids: tuple[str, ...]
    group_ids: tuple[str, ...]
    file_system_id: str | None
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    looked_into: tuple[str, ...]
    output_keys: tuple[str, ...]
    volume_keys: tuple[str, ...]
    bucket_owners: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    other_types: tuple[str, ...] = ()
    shell: bool = False

    @property
    def buckets(self) -> tuple[str, ...]:
        """The names of all buckets that the job names."""
        return tuple(dict.fromkeys(split_uri(uri)[0] for uri in (*self.reads, *self.writes)))

    @property
    def partition(self) -> str:
        """The part of AWS that the role's ARN names, such as `aws` or `aws-cn`."""
        return self.role_arn.split(":")[1]

    @property
    def account(self) -> str:
        """The id of the role's account, which must be the job's."""
        return self.role_arn.split(":")[4]
