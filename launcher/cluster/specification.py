"""The cluster file as a whole, `ClusterSpec`, with its sections on access, the queue and observability."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, ValidationInfo, field_validator, model_validator

from launcher.cluster.address_slots import MOST_HOSTS, ZoneAddresses
from launcher.cluster.hyperpod_section import HyperPodSpec, check_hyperpod
from launcher.cluster.lustre import is_persistent, what_is_possible
from launcher.cluster.names import (
    CLUSTER_NAME,
    REGION,
    SECRET_ID,
    WITHOUT_BUDGETS,
    WITHOUT_FSX,
    check_zones,
    is_zone_id,
)
from launcher.cluster.network_section import (
    MOST_SUBNETS,
    PlannedHosts,
    VpcSpec,
    check_room,
    check_zones_of_network,
)
from launcher.cluster.storage_section import BucketName, BucketsSpec, LustreSpec, check_zone
from launcher.documents import FilePart, field_error, refuse
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Figure, Source

KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:(?P<region>[a-z0-9-]+):[0-9]{12}:key/[A-Za-z0-9-]+")
"""The ARN of a KMS key; those of aliases are not taken by IAM policies."""

MOST_DATA_BUCKETS = 100
"""With the longest names they take three of the ten managed policies that a role may have by default
(IAM user guide, reference_iam-quotas), on the side of the jobs as of those who launch."""

MOST_SECRETS = 20
"""With the longest names they take at most one more of those ten managed policies."""

MOST_SECRET_CHARACTERS = 4000
"""Of the 8,192 that an advanced parameter of Systems Manager holds; the rest of a manifest with the most
subnets takes fewer than half."""

MOST_TEAMS = 20
"""Each has a managed policy of its own; the access stack stays far below 500 resources."""

RoleArn = Annotated[
    str, StringConstraints(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$")
]
"""The ARN of a role, in full, with its path."""

TeamName = Annotated[str, StringConstraints(pattern=r"^[a-z](-?[a-z0-9])*$", max_length=16)]
"""Lower-case letters, digits and single hyphens: what the names of jobs and prefixes on S3 can begin with."""


class RoleSpec(FilePart):
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
            raise field_error(
                "`role` names neither a role nor a boundary",
                remedy="Give `existing` or `permissions_boundary`, or leave out `role`.",
                mode=job_file.INVALID_VALUE,
            )
        return self


class TeamSpec(FilePart):
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
    characters = sum(map(len, secrets))
    if characters > MOST_SECRET_CHARACTERS:
        refuse(
            f"the names and ARNs of the secrets have {characters} characters, more than the "
            f"{MOST_SECRET_CHARACTERS} for which the manifest has room: AWS would refuse it, after all else "
            "is built",
            remedy="Name secrets of this account and region by name, which is shorter than the ARN.",
        )


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


AWS_MANAGED, NEW_KEY = "aws-managed", "new-key"
"""The values of `encryption` that are not the ARN of a key."""

_TAG_CHARACTERS = r"[\p{L}\p{Z}\p{N}_.:/=+\-@]"
"""What IAM, the strictest of the services, takes in tags (IAM API reference, Tag)."""


LOG_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180),
    *(365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""For how long CloudWatch Logs keeps a group (API reference, PutRetentionPolicy)."""

_RETENTION = Source("botocore service model logs: PutRetentionPolicy", date(2026, 11, 22))
FIGURES = (
    Figure("32", "characters of a cluster's name, a bound of our own", None),
    Figure("0.5", "a weight factor, as an example", None),
    *(Figure(str(days), "days that CloudWatch Logs can keep logs", _RETENTION) for days in LOG_DAYS),
)


class QueueSpec(FilePart):
    """A queue of AWS Batch in front of SageMaker, through which a team shares the capacity."""

    max_instances: int | None = Field(
        default=None,
        ge=1,
        description="Hosts that all jobs of the queue may use at the same time; by default those planned.",
    )
    shares: dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,254}\*?$")],
        Annotated[float, Field(ge=0.0001, le=999.9999)],
    ] = Field(
        default_factory=dict,
        description="Weight factors by share identifier (a team, or a prefix that ends in *); a lower one "
        "gets more: 0.5 gets twice the hosts of 1. Without shares, first in is first out.",
    )

    @field_validator("shares")
    @classmethod
    def _do_not_overlap(cls, shares: dict[str, float]) -> dict[str, float]:
        for name in shares:
            for prefix in shares:
                if name != prefix and prefix.endswith("*") and name.startswith(prefix[:-1]):
                    # AWS Batch API reference, ShareAttributes.
                    refuse(
                        f"{name!r} is one of {prefix!r}; share identifiers may not overlap",
                        remedy="Name each team in one share only.",
                        below=(name,),
                    )
        return shares


class ObservabilitySpec(FilePart):
    """What is watched, and who is notified."""

    email: str | None = Field(
        default=None,
        pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
        description="Address that is asked to subscribe to the topic.",
    )
    monthly_budget_usd: int | None = Field(
        default=None, ge=1, description="Warn when the region's cost of a month comes near to this."
    )
    idle_gpu_minutes: int = Field(
        default=30,
        ge=5,
        le=180,
        description="Warn when a host's GPUs do nothing for so long. CloudWatch evaluates such an alarm over "
        "the latest three hours, so a longer time would never be reached.",
    )
    free_capacity_percent: int = Field(
        default=10, ge=1, le=99, description="Warn when less of the file system is free."
    )
    job_log_days: int | None = Field(
        default=None,
        description="Days for which the logs of training jobs are kept: 1, 3, 5, 7, 14, 30, 60, 90, 120, "
        "150, 180, 365 or another number that CloudWatch Logs has. They are those of all jobs of the account "
        "in the region, as SageMaker has one log group there. Left as it is when left out.",
    )

    @field_validator("job_log_days")
    @classmethod
    def _is_a_retention(cls, days: int | None) -> int | None:
        if days is not None and days not in LOG_DAYS:
            refuse(
                f"CloudWatch Logs keeps nothing for {days} days",
                remedy=f"Use one of {', '.join(map(str, LOG_DAYS))}.",
            )
        return days


class ClusterSpec(FilePart):
    """What one cluster is to consist of."""

    model_config = ConfigDict(defer_build=True)

    name: str = Field(
        pattern=CLUSTER_NAME,
        description="Names the stacks (slipway-NAME-network ...) and the manifest "
        "(/slipway/clusters/NAME): lower-case letters, digits and hyphens, at most 32.",
    )
    region: str = Field(pattern=REGION, description="AWS region, such as us-west-2.")
    account: str | None = Field(
        default=None,
        pattern=r"^[0-9]{12}$",
        description="The AWS account, twelve digits: with credentials of another one nothing is synthesized "
        "or deployed. When left out, the account is the one whose credentials are used.",
    )
    availability_zones: list[str] = Field(
        default_factory=list,
        max_length=MOST_SUBNETS,
        description="Names of zones (us-west-2a), or ids (usw2-az1, the same in every account), with one "
        "private subnet each. A job runs in one of them, as EFA does not cross zones; the file system is in "
        "the first. Those of an existing VPC are its subnets'.",
    )
    hosts: list[PlannedHosts] = Field(
        min_length=1, description="All hosts that are to run at the same time in one zone."
    )
    max_hosts: int | None = Field(
        default=None,
        ge=1,
        le=MOST_HOSTS,
        description="The most hosts of any type that one zone is to hold, now or later: the subnets' "
        "[addresses](#addresses) are divided for so many. When left out, the first two zones get a quarter "
        "of the addresses each, the next two an eighth, and so on.",
    )
    lustre: LustreSpec | None = Field(default=None, description="No file system when left out.")
    hyperpod: HyperPodSpec | None = Field(
        default=None,
        description="A HyperPod cluster with Slurm, beside what training jobs use. It is billed for as long "
        "as it is there. None when left out.",
    )
    vpc: VpcSpec
    buckets: BucketsSpec = Field(
        default_factory=BucketsSpec,
        description="Existing buckets of the same account; by default all three are created.",
    )
    data_buckets: list[BucketName] = Field(
        default_factory=list,
        max_length=MOST_DATA_BUCKETS,
        description="Further buckets that jobs may read.",
    )
    data_keys: list[str] = Field(
        default_factory=list,
        max_length=10,
        description="ARNs of the KMS keys of `data_buckets` and of existing `buckets`, in the cluster's "
        "region. Jobs may read with them, and write where there are existing `buckets`; the keys' policies "
        "must let IAM policies of the account use them.",
    )
    secrets: list[SecretId] = Field(
        default_factory=list,
        max_length=MOST_SECRETS,
        description="Secrets of AWS Secrets Manager that jobs may read, by name (of the same account and "
        "region) or by ARN.",
    )
    secret_keys: list[str] = Field(
        default_factory=list,
        max_length=10,
        description="ARNs of the KMS keys of `secrets` that have keys of their own, in the cluster's region. "
        "Jobs may decrypt with them through Secrets Manager alone; the keys' policies must let IAM policies "
        "of the account use them.",
    )
    remote_debug: bool = Field(
        default=False, description="Whether jobs may let a shell into their containers."
    )
    role: RoleSpec | None = Field(
        default=None,
        description="An execution role with what a job needs, without a boundary, when left out.",
    )
    teams: dict[TeamName, TeamSpec] = Field(
        default_factory=dict,
        max_length=MOST_TEAMS,
        description="Teams that share the cluster, each with a policy for jobs whose names begin with the "
        "team's, as research-: see below.",
    )
    launchers: list[RoleArn] = Field(
        default_factory=list,
        max_length=5,
        description="ARNs of the roles through which people launch, in full, with their paths. The launcher "
        "policy lets them ask IAM whether they may submit a job; users may without being named.",
    )
    encryption: str = Field(
        default=AWS_MANAGED,
        description="Keys of buckets, file system and volumes: aws-managed; new-key for one of the cluster's "
        "own; or the ARN of a KMS key, whose policy must let IAM policies of the account use it.",
    )
    queue: QueueSpec | None = Field(default=None, description="No queue when left out.")
    observability: ObservabilitySpec | None = Field(default=None, description="None when left out.")
    managed: bool = Field(
        default=False,
        description="Whether there is a controller, to which runs can be handed over: a Lambda function that "
        "wakes up at the end of a job and goes on with its run. Its alarms go to the topic of "
        "`observability`, where there is one.",
    )
    removal_policy: Literal["retain", "destroy"] = Field(
        default="retain",
        description="What `cdk destroy` does to buckets, file system, key and logs. destroy deletes the "
        "file system with its data; a bucket must be empty to be deleted. retain also keeps the VPC, first "
        "subnet and hosts' group, which cost nothing and which a kept file system needs.",
    )
    tags: dict[
        Annotated[str, StringConstraints(pattern=rf"^{_TAG_CHARACTERS}+$", max_length=128)],
        Annotated[str, StringConstraints(pattern=rf"^{_TAG_CHARACTERS}+$", max_length=256)],
    ] = Field(default_factory=dict, max_length=45, description="Tags on every resource.")

    @field_validator("name")
    @classmethod
    def _is_not_what_means_no_cluster(cls, name: str) -> str:
        refuse(
            "none means no cluster in a job file" if name == "none" else None, remedy="Choose another name."
        )
        return name

    @field_validator("account", mode="before")
    @classmethod
    def _may_be_left_empty(cls, account: Any) -> Any:
        # It comes as it is written, for its leading zeros; so does YAML's null.
        return None if account in ("", "~", "null") else account

    @field_validator("availability_zones")
    @classmethod
    def _are_zones_of_the_region(cls, zones: list[str], info: ValidationInfo) -> list[str]:
        if "region" in info.data:
            check_zones(zones, info.data["region"])
        return zones

    @field_validator("lustre")
    @classmethod
    def _is_in_a_region_with_fsx(cls, lustre: LustreSpec | None, info: ValidationInfo) -> LustreSpec | None:
        region = info.data.get("region")
        if lustre is not None and region in WITHOUT_FSX:
            refuse(f"CloudFormation has no file systems in {region}", remedy="Leave out `lustre`.")
        return lustre

    @field_validator("hyperpod")
    @classmethod
    def _can_be_there(cls, hyperpod: HyperPodSpec | None, info: ValidationInfo) -> HyperPodSpec | None:
        known = info.data
        if hyperpod is not None and "lustre" in known:
            check_hyperpod(
                hyperpod, region=known.get("region"), account=known.get("account"), lustre=known["lustre"]
            )
        return hyperpod

    @field_validator("vpc")
    @classmethod
    def _has_zones(cls, vpc: VpcSpec, info: ValidationInfo) -> VpcSpec:
        if "availability_zones" not in info.data:
            return vpc
        check_zones_of_network(vpc, info.data["availability_zones"], info.data.get("region"))
        return vpc

    @field_validator("vpc")
    @classmethod
    def _holds_the_hosts(cls, vpc: VpcSpec, info: ValidationInfo) -> VpcSpec:
        known = info.data
        if {"availability_zones", "hosts", "max_hosts", "lustre", "hyperpod"} <= known.keys():
            nodes = known["hyperpod"].all_groups if known["hyperpod"] else []
            if nodes and vpc.isolated:
                refuse(
                    "there is no NAT: the nodes of `hyperpod` would reach neither Systems Manager nor what "
                    "jobs download",
                    remedy="Set `nat: true`, or use subnets with a way out (`existing`).",
                    below=("nat",),
                )
            check_room(
                vpc,
                zones=len(known["availability_zones"]),
                max_hosts=known["max_hosts"],
                # The nodes stand in one zone; which one a file system that exists has may not be known yet.
                hosts=[*known["hosts"], *(each for each in nodes if each.count)],
                lustre_gib=(known["lustre"] and known["lustre"].capacity_gib) or 0,
            )
        return vpc

    @field_validator("encryption")
    @classmethod
    def _is_a_key(cls, encryption: str, info: ValidationInfo) -> str:
        if encryption == AWS_MANAGED:
            return encryption
        arn = KEY_ARN.fullmatch(encryption)
        if encryption != NEW_KEY and arn is None:
            refuse(
                f"{encryption!r} is neither {AWS_MANAGED} nor {NEW_KEY} nor the ARN of a KMS key",
                remedy="An ARN looks like arn:aws:kms:us-west-2:123456789012:key/1234abcd-...",
            )
        region = info.data.get("region")
        if arn is not None and region and arn["region"] != region:
            refuse(
                f"the key is in {arn['region']}, the cluster in {region}; KMS keys serve their region only",
                remedy=f"Use a key of {region}.",
            )
        lustre = info.data.get("lustre")
        if lustre is not None and lustre.deployment and not is_persistent(lustre.deployment):
            refuse(
                f"a {lustre.deployment} file system is always encrypted with FSx's own key",
                remedy=what_is_possible(),
            )
        return encryption

    @field_validator("observability")
    @classmethod
    def _has_a_budget_where_there_are_any(
        cls, observability: ObservabilitySpec | None, info: ValidationInfo
    ) -> ObservabilitySpec | None:
        region = info.data.get("region")
        if observability is not None and observability.monthly_budget_usd and region in WITHOUT_BUDGETS:
            refuse(
                f"CloudFormation has no budgets in {region}",
                remedy="Leave it out; a budget made by hand in the billing console counts this region too.",
                below=("monthly_budget_usd",),
            )
        return observability

    @field_validator("data_keys")
    @classmethod
    def _are_keys_of_buckets(cls, keys: list[str], info: ValidationInfo) -> list[str]:
        if {"buckets", "data_buckets"} <= info.data.keys():
            buckets = (*info.data["buckets"].existing, *info.data["data_buckets"])
            check_data_keys(keys, region=info.data.get("region"), buckets=buckets)
        return keys

    @field_validator("secrets")
    @classmethod
    def _are_named_once(cls, secrets: list[str]) -> list[str]:
        check_secrets(secrets)
        return secrets

    @field_validator("secret_keys")
    @classmethod
    def _are_keys_of_secrets(cls, keys: list[str], info: ValidationInfo) -> list[str]:
        if "secrets" in info.data:
            check_secret_keys(keys, region=info.data.get("region"), secrets=info.data["secrets"])
        return keys

    @field_validator("teams")
    @classmethod
    def _are_told_apart(cls, teams: dict[str, TeamSpec]) -> dict[str, TeamSpec]:
        check_teams(teams)
        return teams

    @field_validator("tags")
    @classmethod
    def _are_not_reserved(cls, tags: dict[str, str]) -> dict[str, str]:
        for key in tags:
            if key.lower().startswith("aws:"):
                refuse(
                    f"{key!r} begins with aws:, which AWS keeps to itself", remedy="Rename it.", below=(key,)
                )
        return tags

    @model_validator(mode="after")
    def _has_the_zone_of_the_file_system(self) -> ClusterSpec:
        if self.lustre is not None and self.lustre.existing is not None:
            check_zone(self.lustre.existing, self.zones)
            if self.hyperpod is not None and len(self.zones) > 1 and any(map(is_zone_id, self.zones)):
                refuse(
                    "in which of these zones the file system is, where HyperPod's nodes must stand, is not "
                    "known by their ids",
                    remedy="Name the zones: us-west-2a, not usw2-az1.",
                    below=("availability_zones",),
                )
        return self

    @property
    def addresses(self) -> list[ZoneAddresses]:
        """The ranges of the new subnets, in the order of the zones; none where all are there already."""
        plan = self.vpc.address_plan(len(self.availability_zones), self.max_hosts)
        return plan.by_zone() if plan else []

    @property
    def zones(self) -> list[str]:
        """The names, or the ids, of the zones in which hosts stand."""
        existing = self.vpc.existing.subnets if self.vpc.existing else []
        return self.availability_zones or [each.availability_zone for each in existing]

    @property
    def file_system_zone(self) -> str | None:
        """The zone that the file system stands in; None of one that exists where that is not known."""
        existing = self.lustre.existing if self.lustre else None
        return self.zones[0] if existing is None else existing.availability_zone

    @property
    def file_system_subnet(self) -> int:
        """The position of the subnet in that zone, among those of the zones."""
        zone = self.file_system_zone
        return self.zones.index(zone) if zone in self.zones else 0

    @property
    def key_arn(self) -> str | None:
        """The ARN of an existing key, or None."""
        return self.encryption if self.encryption not in (AWS_MANAGED, NEW_KEY) else None

    @property
    def queue_instances(self) -> int:
        """How many hosts the jobs of the queue may use at the same time."""
        asked = self.queue.max_instances if self.queue else None
        return asked or sum(each.count for each in self.hosts)
