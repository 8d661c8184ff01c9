"""The access of a cluster file: roles and keys that are there already, and the teams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from launcher.cluster.secret_ids import SECRET_ID
from launcher.cluster.section import Section, refuse
from launcher.documents.validation import refusal
from launcher.failure_modes import job_file

KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]+")
"""The ARN of a KMS key; those of aliases are not taken by IAM policies."""

MOST_DATA_BUCKETS = 100
"""With the longest names they take three of the ten managed policies that a role may have by default
(IAM user guide, reference_iam-quotas), on the side of the jobs as of those who launch."""

MOST_SECRETS = 20
"""With the longest names they take two more of those ten managed policies."""

MOST_TEAMS = 20
"""Each has a managed policy of its own; the access stack stays far below 500 resources."""

RoleArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$")
]
"""The ARN of a role, in full, with its path."""

TeamName = Annotated[str, StringConstraints(pattern=r"^[a-z](-?[a-z0-9])*$", max_length=16)]
"""Lower-case letters, digits and single hyphens: what the names of jobs and prefixes on S3 can begin with."""


class RoleSpec(Section):
    """The roles of the cluster: one that is there already, and a boundary of those that are created."""

    existing: RoleArn | None = Field(
        default=None,
        description="ARN of an execution role of the same account, for the jobs; none is created. What it "
        "lacks is told by `launch check --live`.",
    )
    permissions_boundary: (
        Annotated[
            str,
            StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[A-Za-z0-9+=,.@_/-]+$"),
        ]
        | None
    ) = Field(
        default=None,
        description="ARN of a managed policy that bounds every role that is created, those of the CDK's own "
        "functions too. It must allow what they need.",
    )

    @model_validator(mode="after")
    def _says_something(self) -> RoleSpec:
        if self.existing is None and self.permissions_boundary is None:
            raise refusal(
                "`role` names neither a role nor a boundary",
                remedy="Give `existing` or `permissions_boundary`, or leave out `role`.",
                mode=job_file.INVALID_VALUE,
            )
        return self


class TeamSpec(Section):
    """One of the teams that share the cluster."""

    launchers: list[RoleArn] = Field(
        default_factory=list,
        max_length=5,
        description="ARNs of the roles through which the team launches, in full, with their paths; as "
        "`launchers` of the cluster.",
    )


SecretId = Annotated[str, StringConstraints(pattern=SECRET_ID)]
"""A secret of AWS Secrets Manager, by its name or its ARN."""


def check_secrets(secrets: Sequence[str]) -> None:
    """Refuse a secret that is there twice."""
    for position, secret in enumerate(secrets):
        if secret in secrets[:position]:
            refuse(f"{secret!r} is there twice", remedy="Name it once.", below=(position,))


def check_secret_keys(keys: Sequence[str], *, region: str | None, secrets: Sequence[str]) -> None:
    """Refuse what is no key, a key of another region, one twice, and keys of no secret."""
    _check_keys(keys, region=region, of="secret")
    if keys and not secrets:
        refuse(
            "there is no secret that the keys could be of",
            remedy="Name the secrets in `secrets`, or leave out `secret_keys`.",
        )


def check_data_keys(keys: Sequence[str], *, region: str | None, buckets: Iterable[str]) -> None:
    """Refuse what is no key, a key of another region, one twice, and keys of no bucket."""
    _check_keys(keys, region=region, of="bucket")
    if keys and not any(buckets):
        refuse(
            "there is no bucket that the keys could be of: neither `data_buckets` nor existing `buckets`",
            remedy="Name the buckets, or leave out `data_keys`.",
        )


def _check_keys(keys: Sequence[str], *, region: str | None, of: str) -> None:
    for position, key in enumerate(keys):
        arn = KEY_ARN.fullmatch(key)
        if arn is None:
            refuse(
                f"{key!r} is not the ARN of a KMS key",
                remedy="An ARN looks like arn:aws:kms:us-west-2:123456789012:key/1234abcd-...",
                below=(position,),
            )
        elif region is not None and arn["region"] != region:
            refuse(
                f"the key is in {arn['region']}, the cluster in {region}; a {of}'s key is of its region",
                remedy=f"Name the keys of {of}s in the cluster's region.",
                below=(position,),
            )
        if key in keys[:position]:
            refuse(f"{key!r} is there twice", remedy="Name it once.", below=(position,))


def check_teams(teams: Mapping[str, TeamSpec]) -> None:
    """Refuse teams of which one's jobs or resources would look like another one's."""
    for name in teams:
        for other in teams:
            if name != other and name.replace("-", "") == other.replace("-", ""):
                refuse(
                    f"{name!r} and {other!r} differ in hyphens only, which names of resources do not have",
                    remedy="Rename one of the two teams.",
                    below=(name,),
                )
            if name.startswith(f"{other}-"):
                refuse(
                    f"the jobs of {name!r} would begin with {other + '-'!r}, as those of {other!r} do",
                    remedy="Rename one of the two teams.",
                    below=(name,),
                )
