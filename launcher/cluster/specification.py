"""The cluster file: what is to be provisioned, `clusters/NAME.yaml`, typed and validated.

`ClusterSpec` is its schema and its documentation, `launcher.cluster.cluster_files` reads the file. What comes
out of the deployment is `launcher.cluster.manifest.Cluster`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationInfo, field_validator, model_validator

from launcher.cluster.access_specification import (
    KEY_ARN,
    MOST_DATA_BUCKETS,
    MOST_SECRETS,
    MOST_TEAMS,
    RoleArn,
    RoleSpec,
    SecretId,
    TeamName,
    TeamSpec,
    check_data_keys,
    check_secret_keys,
    check_secrets,
    check_teams,
)
from launcher.cluster.address_slots import MOST_HOSTS, ZoneAddresses
from launcher.cluster.existing_file_system import check_zone
from launcher.cluster.existing_vpc import MOST_SUBNETS
from launcher.cluster.lustre import is_persistent, what_is_possible
from launcher.cluster.network_specification import PlannedHosts, VpcSpec
from launcher.cluster.operation_specification import ObservabilitySpec, QueueSpec
from launcher.cluster.regions import REGION, WITHOUT_BUDGETS, WITHOUT_FSX
from launcher.cluster.room_for_hosts import check_room, check_zones_of_network
from launcher.cluster.section import BucketName, Section, refuse
from launcher.cluster.stack_names import CLUSTER_NAME
from launcher.cluster.storage_specification import BucketsSpec, LustreSpec
from launcher.cluster.zones import check_zones
from launcher.failure_modes.model import Figure

FIGURES = (Figure("32", "characters of a cluster's name, a bound of our own", None),)

AWS_MANAGED, NEW_KEY = "aws-managed", "new-key"
"""The values of `encryption` that are not the ARN of a key."""

_TAG_CHARACTERS = r"[\p{L}\p{Z}\p{N}_.:/=+\-@]"
"""What IAM, the strictest of the services, takes in tags (IAM API reference, Tag)."""


class ClusterSpec(Section):
    """What one cluster is to consist of."""

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
        if {"availability_zones", "hosts", "max_hosts", "lustre"} <= known.keys():
            check_room(
                vpc,
                zones=len(known["availability_zones"]),
                max_hosts=known["max_hosts"],
                hosts=known["hosts"],
                lustre_gib=_capacity(known["lustre"]),
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
            existing = self.vpc.existing.subnets if self.vpc.existing else []
            zones = self.availability_zones or [each.availability_zone for each in existing]
            check_zone(self.lustre.existing, zones)
        return self

    @property
    def addresses(self) -> list[ZoneAddresses]:
        """The ranges of the new subnets, in the order of the zones; none where all are there already."""
        plan = self.vpc.address_plan(len(self.availability_zones), self.max_hosts)
        return plan.by_zone() if plan else []

    @property
    def key_arn(self) -> str | None:
        """The ARN of an existing key, or None."""
        return self.encryption if self.encryption not in (AWS_MANAGED, NEW_KEY) else None

    @property
    def queue_instances(self) -> int:
        """How many hosts the jobs of the queue may use at the same time."""
        asked = self.queue.max_instances if self.queue else None
        return asked or sum(each.count for each in self.hosts)


def _capacity(lustre: LustreSpec | None) -> int:
    return 0 if lustre is None or lustre.capacity_gib is None else lustre.capacity_gib
