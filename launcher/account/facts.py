"""What the AWS account really holds for one job: plain data, gathered before anything judges it.

Storage (buckets, places in them, the Lustre file system), identities (the role, and what IAM lets a principal
do, by simulation), capacity (the image, the quotas of hosts, the jobs that use them), and `AccountFacts` of
them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import unquote

from launcher.account.network import Endpoint, NetworkAcl, RouteTable, Subnet
from launcher.cluster.names import CLUSTER_TAG
from launcher.cluster.traffic import SecurityGroup
from launcher.facts import read_data_file
from launcher.failure_modes.model import AwsRefusal
from launcher.frozen import frozen
from launcher.jobs.script_inputs import CHECKPOINT_URI_VARIABLE
from launcher.text.values import ImageReference


@frozen
class Bucket:
    """A bucket that exists, and its region."""

    name: str
    region: str


@frozen
class BucketEncryption:
    """How what is put into a bucket is encrypted where the writer says nothing.

    `algorithm` is `AES256`, `aws:kms` or `aws:kms:dsse`, None where the bucket sets nothing (S3 then
    uses AES256).
    """

    algorithm: str | None
    kms_key_arn: str | None


def parse_bucket_encryption(answer: Mapping[str, Any]) -> BucketEncryption:
    """The encryption from S3's answer; an empty one means that nothing is set."""
    rules = answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", ())
    default: Mapping[str, Any] = next(
        (rule.get("ApplyServerSideEncryptionByDefault", {}) for rule in rules), {}
    )
    return BucketEncryption(default.get("SSEAlgorithm"), default.get("KMSMasterKeyID"))


MOST_LISTED = 1000
"""What one answer holds at most (S3 API reference, ListObjectsV2, MaxKeys)."""


@frozen
class Prefix:
    """A place in S3 that the job reads.

    `objects` and `size_bytes` are those of the first objects there, in the order of their keys, at most
    MOST_LISTED; with `more` there are others, and both are lower bounds.
    """

    uri: str
    objects: int
    size_bytes: int = 0
    more: bool = False


_SERVING = frozenset({"AVAILABLE", "UPDATING"})


@frozen
class DataRepositoryAssociation:
    """A link between a path on the file system and a prefix in S3."""

    id: str
    lifecycle: str
    path: str
    s3_uri: str
    failure: str | None = None


@frozen
class FileSystem:
    """An FSx for Lustre file system.

    `lifecycle` is FSx's own word, such as CREATING or AVAILABLE, and `failure` what FSx says about one
    that failed. `security_group_ids` are those of its network interfaces; None, like every other None
    here, means that it is not known: FSx names mount name, VPC and interfaces only once they exist.
    """

    id: str
    lifecycle: str
    mount_name: str | None
    vpc_id: str | None
    subnet_id: str | None
    availability_zone: str | None
    security_group_ids: tuple[str, ...] | None
    deployment: str | None
    storage_type: str | None
    capacity_gib: int | None
    throughput: int | None
    compression: str | None
    version: str | None
    efa: bool
    kms_key_arn: str | None
    failure: str | None = None

    @property
    def serves(self) -> bool:
        """Whether it can be mounted now; one that is being updated still serves."""
        return self.lifecycle in _SERVING


def parse_file_system(
    described: Mapping[str, Any],
    *,
    subnet: Subnet | None = None,
    interfaces: Sequence[Mapping[str, Any]] = (),
) -> FileSystem:
    """A file system from what FSx and EC2 describe of it."""
    lustre = described.get("LustreConfiguration", {})
    groups = dict.fromkeys(group["GroupId"] for each in interfaces for group in each.get("Groups", ()))
    zone = next((each["AvailabilityZone"] for each in interfaces if "AvailabilityZone" in each), None)
    return FileSystem(
        id=described["FileSystemId"],
        lifecycle=described.get("Lifecycle", "UNKNOWN"),
        mount_name=lustre.get("MountName"),
        vpc_id=described.get("VpcId") or (subnet.vpc_id if subnet else None),
        subnet_id=next(iter(described.get("SubnetIds", ())), None),
        availability_zone=subnet.availability_zone if subnet else zone,
        security_group_ids=tuple(groups) if interfaces else None,
        deployment=lustre.get("DeploymentType"),
        storage_type=described.get("StorageType"),
        capacity_gib=described.get("StorageCapacity"),
        throughput=lustre.get("PerUnitStorageThroughput"),
        compression=lustre.get("DataCompressionType"),
        version=described.get("FileSystemTypeVersion"),
        efa=bool(lustre.get("EfaEnabled", False)),
        kms_key_arn=described.get("KmsKeyId"),
        failure=(described.get("FailureDetails") or {}).get("Message"),
    )


def parse_association(described: Mapping[str, Any]) -> DataRepositoryAssociation:
    """An association from one element of DescribeDataRepositoryAssociations."""
    return DataRepositoryAssociation(
        id=described["AssociationId"],
        lifecycle=described.get("Lifecycle", "UNKNOWN"),
        path=described.get("FileSystemPath", "/"),
        s3_uri=described.get("DataRepositoryPath", ""),
        failure=(described.get("FailureDetails") or {}).get("Message"),
    )


PolicyDocument = Mapping[str, Any]


@frozen
class Role:
    """A role; `trust` is the document that says who takes it on.

    What its policies amount to is asked of IAM (`launcher.account.facts`), not read here.
    """

    arn: str
    name: str
    trust: PolicyDocument

    @property
    def trusted(self) -> tuple[str, ...]:
        """The principals of the statements that allow taking the role on: services, ARNs, `*`."""
        found: dict[str, None] = {}
        for statement in _list(self.trust.get("Statement")):
            principal = statement.get("Principal", {})
            values = principal.values() if isinstance(principal, Mapping) else [principal]
            if statement.get("Effect") == "Allow":
                found |= dict.fromkeys(name for value in values for name in _list(value))
        return tuple(found)


def parse_role(described: Mapping[str, Any]) -> Role:
    """A role from what GetRole answers."""
    trust = _document(described.get("AssumeRolePolicyDocument", {}))
    return Role(described["Arn"], described["RoleName"], trust)


def _document(described: Any) -> PolicyDocument:
    """A policy: IAM sends it percent-encoded, which the SDK undoes in most answers."""
    if isinstance(described, str):
        described = json.loads(unquote(described))
    document: PolicyDocument = described
    return document


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


@frozen
class Permissions:
    """What IAM's simulation says a principal may not do: (action, resource) pairs.

    `denied` is certain for what the principal's own policies decide. `undecided` holds what they do
    not allow but the resource's policy may, as KMS keys often do: the simulation does not read those.
    """

    principal: str
    denied: tuple[tuple[str, str], ...]
    undecided: tuple[tuple[str, str], ...] = ()


@frozen
class Check:
    """Actions that a principal needs on each of some resources, in one simulation.

    `context` holds the condition keys that the real calls carry; where `resource_may_allow`, a policy
    of the resource's own is enough to allow them.
    """

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    context: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    resource_may_allow: bool = False


@frozen
class Decision:
    """IAM's word on one action and one resource; `explicit` where a statement denies it."""

    action: str
    resource: str
    allowed: bool
    explicit: bool
    resource_may_allow: bool = False


def parse_evaluation(evaluated: Mapping[str, Any], *, resource_may_allow: bool = False) -> Iterator[Decision]:
    """The decisions of one element of EvaluationResults: its resources', or its own without any."""
    action = evaluated["EvalActionName"]
    single = {
        "EvalResourceName": evaluated.get("EvalResourceName", "*"),
        "EvalResourceDecision": evaluated["EvalDecision"],
    }
    for each in evaluated.get("ResourceSpecificResults") or [single]:
        word = each["EvalResourceDecision"]
        yield Decision(
            action=action,
            resource=each["EvalResourceName"],
            allowed=word == "allowed",
            explicit=word == "explicitDeny",
            resource_may_allow=resource_may_allow,
        )


def permissions_of(principal: str, decisions: Iterable[Decision]) -> Permissions:
    """What these decisions leave a principal without."""
    denied: dict[tuple[str, str], None] = {}
    undecided: dict[tuple[str, str], None] = {}
    for each in decisions:
        if not each.allowed:
            certain = each.explicit or not each.resource_may_allow
            (denied if certain else undecided)[(each.action, each.resource)] = None
    return Permissions(principal, tuple(denied), tuple(undecided))


def principal_of(caller_arn: str) -> str | None:
    """The user or role that a caller acts as; None where there is none to simulate.

    The session of a role has an ARN of its own, which names the role but not its path: for a role with
    a path what is returned here is not yet its ARN. The root user and federated users have no policies
    that IAM could simulate. Source: IAM user guide, reference_identifiers (ARNs of sessions).
    """
    prefix, service, _, account, resource = caller_arn.split(":", 5)[1:]
    kind, _, name = resource.partition("/")
    if service == "iam" and kind == "user":
        return caller_arn
    if service == "sts" and kind == "assumed-role":
        return f"arn:{prefix}:iam::{account}:role/{name.partition('/')[0]}"
    return None


_ABSENT = frozenset(
    {"ImageNotFound", "ImageTagDoesNotMatchDigest", "InvalidImageDigest", "InvalidImageTag"},
)


@frozen
class Image:
    """A training image in a registry; `exists` is false where the registry has no such tag or digest.

    `region` is that of the registry, None where the URI does not say.
    """

    uri: str
    exists: bool
    region: str | None = None


def parse_image(reference: ImageReference, answer: Mapping[str, Any]) -> Image:
    """The image from what BatchGetImage answers.

    Raises AwsRefusal where ECR has the image but cannot hand it out.
    """
    for failure in answer.get("failures", ()):
        if failure.get("failureCode") in _ABSENT:
            return Image(reference.uri, False, reference.region)
        raise AwsRefusal(
            f"ECR cannot hand out the image {reference.uri}: {failure.get('failureCode')}: "
            f"{failure.get('failureReason', '')}.",
            "Correct what the message names, then try again.",
        )
    return Image(reference.uri, bool(answer.get("images")), reference.region)


@frozen
class RunningJob:
    """A training job that has not ended; `checkpoints` is its prefix on S3, None without one.

    `hosts` counts the instances of its type; a job of several instance groups names no type here. `cluster`
    is the value of the cluster's tag, None on a job without it.
    """

    name: str
    status: str
    checkpoints: str | None
    instance_type: str | None = None
    hosts: int = 0
    spot: bool = False
    keeps_hosts: bool = False
    role_arn: str | None = None
    subnet_ids: tuple[str, ...] = ()
    cluster: str | None = None


def parse_running_job(described: Mapping[str, Any]) -> RunningJob:
    """A job from one result of Search, or from DescribeTrainingJob."""
    resources = described.get("ResourceConfig", {})
    return RunningJob(
        name=described["TrainingJobName"],
        status=described.get("TrainingJobStatus", "InProgress"),
        checkpoints=described.get("CheckpointConfig", {}).get("S3Uri")
        or described.get("Environment", {}).get(CHECKPOINT_URI_VARIABLE),
        # Where the service chooses the type, the job has none before that.
        instance_type=resources.get("SelectedInstanceType") or resources.get("InstanceType"),
        hosts=int(resources.get("SelectedInstanceCount") or resources.get("InstanceCount", 0)),
        spot=bool(described.get("EnableManagedSpotTraining", False)),
        keeps_hosts=bool(resources.get("KeepAlivePeriodInSeconds", 0)),
        role_arn=described.get("RoleArn"),
        subnet_ids=tuple(described.get("VpcConfig", {}).get("Subnets", ())),
        cluster=next((tag["Value"] for tag in described.get("Tags", ()) if tag["Key"] == CLUSTER_TAG), None),
    )


Use = Literal["training job", "spot training job", "training warm pool"]


@frozen
class Quota:
    """How many hosts of a type the account may use in training jobs at the same time.

    `name` is the quota's in Service Quotas, `code` its code there; `in_use` counts the hosts of running
    training jobs of the region.
    """

    name: str
    code: str
    limit: float
    in_use: int


@frozen
class ServiceQuota:
    """A quota as Service Quotas knows it."""

    name: str
    code: str
    limit: float


def quota_name(instance_type: str, use: Use) -> str:
    """The name under which Service Quotas knows how many hosts of a type a use may have."""
    return f"{instance_type} for {use} usage"


def known_code(name: str) -> str | None:
    """The code of a quota that comes with the launcher, None for others.

    Codes are the same in all accounts and regions. A quota that was fetched by its code has its name,
    so a wrong code is noticed.
    """
    return _codes().get(name)


def hosts_in_use(jobs: Iterable[RunningJob], instance_type: str, use: Use) -> int:
    """The hosts of these jobs that count against a quota."""
    return sum(job.hosts for job in jobs if job.instance_type == instance_type and _counts(job, use))


def parse_quota(described: Mapping[str, Any]) -> ServiceQuota:
    """A quota from what Service Quotas describes of it."""
    return ServiceQuota(described["QuotaName"], described["QuotaCode"], float(described["Value"]))


def _counts(job: RunningJob, use: Use) -> bool:
    """Whether a job's hosts count against the quota of a use."""
    if use == "training warm pool":
        return job.keeps_hosts
    return job.spot == (use == "spot training job")


@cache
def _codes() -> dict[str, str]:
    """Code by name; the file groups the codes by use, then by instance type."""
    return {
        f"{instance_type} for {use} usage": code
        for use, codes in read_data_file(__file__, "quota_codes.json")["codes"].items()
        for instance_type, code in codes.items()
    }


@frozen
class Unverified:
    """A fact that could not be had.

    `what` names it for a person (`the subnets`), `permission` the IAM action that it needs
    (`ec2:DescribeSubnets`), `reason` what came instead: AWS's refusal, or no answer in time.
    """

    what: str
    permission: str
    reason: str


__all__ = [
    "AccountFacts",
    "Fact",
    "Image",
    "Permissions",
    "Prefix",
    "Quota",
    "RunningJob",
    "Unverified",
]


T = TypeVar("T")
Fact: TypeAlias = T | Unverified
"""What was found, or why it could not be looked at."""


@frozen
class AccountFacts:
    """All that the live rules look at.

    A fact that the job does not need is None: no VPC, no file system, an image outside of ECR. What was
    asked for by id and does not exist is missing from its tuple, or None where it is a single thing.
    `permissions` says what the policies of `role` amount to, `caller` whether the caller may pass the role.
    The job itself is not among `running_jobs`. `warm_pool_quota` is there where the job keeps its hosts.
    `offered_in` holds the availability zones that offer the instance type.
    """

    region: str
    subnets: Fact[tuple[Subnet, ...]] | None = None
    groups: Fact[tuple[SecurityGroup, ...]] | None = None
    route_tables: Fact[tuple[RouteTable, ...]] | None = None
    endpoints: Fact[tuple[Endpoint, ...]] | None = None
    endpoint_groups: Fact[tuple[SecurityGroup, ...]] | None = None
    acls: Fact[tuple[NetworkAcl, ...]] | None = None
    file_system: Fact[FileSystem | None] | None = None
    associations: Fact[tuple[DataRepositoryAssociation, ...]] | None = None
    file_system_groups: Fact[tuple[SecurityGroup, ...]] | None = None
    buckets: Mapping[str, Fact[Bucket | None]] = field(default_factory=dict)
    encryption: Mapping[str, Fact[BucketEncryption]] = field(default_factory=dict)
    prefixes: Mapping[str, Fact[Prefix]] = field(default_factory=dict)
    role: Fact[Role | None] | None = None
    permissions: Fact[Permissions] | None = None
    caller: Fact[Permissions] | None = None
    image: Fact[Image] | None = None
    quota: Fact[Quota | None] | None = None
    warm_pool_quota: Fact[Quota | None] | None = None
    running_jobs: Fact[tuple[RunningJob, ...]] | None = None
    offered_in: Fact[frozenset[str]] | None = None
