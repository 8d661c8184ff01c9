"""The training plan: everything that a backend needs to run a job, and what was found on the way.

With it what a plan consists of besides the request: where the job goes, from the job file, else from the
cluster, else to recognisable placeholders; where its checkpoints go and who moves them; whether SageMaker
Debugger is on; and the environment variables that Slipway sets. Each is decided once, for the request and for
the rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from launcher.cluster.manifest import CODE_FOLDER, Cluster, Lustre
from launcher.failure_modes import checkpoints, debugger, job_file, storage
from launcher.failure_modes.model import FailureMode, Finding, Severity, Source, Stage, any_blocks
from launcher.failure_modes.registry import finds
from launcher.jobs.job_sections import CHECKPOINT_CHANNEL
from launcher.jobs.load_job import NOTHING_REPLACED, Substitutions
from launcher.jobs.script_inputs import DEFAULT_CHECKPOINT_PATH, channel_folder
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.image_choice import VersionChoice
from launcher.planning.request_view import RequestView
from launcher.source.packaging import SOURCE_NAME
from launcher.source.tree import SourceTree


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable of the job: why it has this value, who says so, and when we last looked.

    What holds for some versions of the software alone says so in its reason.
    `overridden_by` names the user's own variable where there is one: that stands, this is not sent.
    """

    name: str
    value: str
    reason: str
    sources: tuple[Source, ...]
    overridden_by: str | None = None


# Whether a job gets SageMaker Debugger.


REGIONS_WITHOUT_DEBUGGER = frozenset(
    {
        "ap-south-2",
        "ap-southeast-3",
        "ap-southeast-4",
        "eu-central-2",
        "eu-south-2",
        "me-central-1",
        "us-gov-east-1",
        "us-iso-east-1",
        "us-isob-east-1",
    }
)
"""Regions without Debugger: DEBUGGER_UNSUPPORTED_REGIONS in sagemaker/core/fw_utils.py of the SageMaker SDK
(sagemaker 3.27.0, read on 2026-11-22). Version 2 of the SDK has the same ones: the list may be older than
what AWS offers, and regions that are newer than it are not in it."""


@dataclass(frozen=True, slots=True)
class PlannedDebugger:
    """Whether the request turns Debugger on; `conflict` is what would go wrong then, None for nothing.

    Without a conflict Debugger is off where nobody asked for it, and in tuning jobs, whose API does not
    take it.
    """

    on: bool = False
    conflict: FailureMode | None = None


def plan_debugger(job: JobSpec, checkpoints: PlannedCheckpoints | None, region: str) -> PlannedDebugger:
    """Turn Debugger on where the job asks for it, the region has it and it does no harm beside these
    checkpoints."""
    by_service = checkpoints is not None and checkpoints.by_service
    conflict = _debugger_conflict(job, by_service=by_service, region=region)
    return PlannedDebugger(job.debugger and conflict is None and job.tuning is None, conflict)


def _debugger_conflict(job: JobSpec, *, by_service: bool, region: str) -> FailureMode | None:
    """SageMaker developer guide, debugger-reference (what distributed training Debugger supports).

    `by_service` says whether SageMaker itself copies the checkpoints to S3. What counts as distributed is
    what counts for the SageMaker SDK version 2: any distribution, or several hosts.
    """
    strategy = job.distribution.strategy
    if strategy is Strategy.SMP:
        return debugger.WITH_MODEL_PARALLEL
    if by_service and (strategy is not Strategy.NONE or job.resources.instance_count > 1):
        return debugger.WITH_CHECKPOINTS
    if region in REGIONS_WITHOUT_DEBUGGER:
        return debugger.NOT_OFFERED
    return None


Request = dict[str, Any]
"""A request, with the key names of the API."""

Operation = Literal["CreateTrainingJob", "CreateHyperParameterTuningJob"]
"""What a request is sent to."""


@dataclass(frozen=True, slots=True)
class SourcePackage:
    """What must be uploaded before the request is sent.

    `source` is the user's code as it was read for the plan, `s3_uri` the prefix where it goes, packed under
    the name `archive`; with `with_boot` it is the request's `code` channel, and the boot goes there too.
    """

    source: SourceTree
    s3_uri: str
    archive: str = SOURCE_NAME
    with_boot: bool = True

    @property
    def digest(self) -> str:
        """What the code was when it was planned: the last part of its prefix."""
        return self.s3_uri.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A job, or a tuning job of several, made concrete.

    `job` is the resolved job in the job file's own keys, `spec` the job itself with the version of its
    framework that was chosen (`version_choice`, None where the file names one; both None where the file has
    errors), `region` where it goes, `request` what is sent as it is to `operation` (None where errors kept
    it from being built), `placeholders` the names of the values that stand in for what only a cluster or an
    account knows; a submission to AWS refuses while there are any. `substitutions` are the values from
    variables: `launcher.planning.show_plan` makes what people see of the plan, without them. `settings` are
    what the plan chose for the environment, with reasons, also where the user's own choice stands instead.
    `queue_arn` is the cluster's queue, through which the job may go, `bucket_owners` the accounts of the
    cluster's buckets, by their names.

    What was derived on the way is there also without a request: `processes_per_host` and `world_size`, the
    processes of all hosts of a job (None where only the user can say, and did not), `with_boot`, whether
    the boot starts the script and not the toolkit of the image, where its `checkpoints` go (None where it
    keeps none), and whether `debugger` is on.
    """

    job: dict[str, Any]
    region: str | None
    request: Request | None
    package: SourcePackage | None
    findings: tuple[Finding, ...]
    placeholders: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    processes_per_host: int | None = None
    world_size: int | None = None
    with_boot: bool = False
    checkpoints: PlannedCheckpoints | None = None
    debugger: PlannedDebugger = field(default_factory=PlannedDebugger)
    operation: Operation = "CreateTrainingJob"
    queue_arn: str | None = None
    substitutions: Substitutions = NOTHING_REPLACED
    bucket_owners: Mapping[str, str] = field(default_factory=dict)
    spec: JobSpec | None = None
    version_choice: VersionChoice | None = None

    @property
    def name(self) -> str | None:
        """The unique name of the job, with which the names of a tuning job's training jobs begin."""
        return None if self.view is None else self.view.name

    @property
    def view(self) -> RequestView | None:
        """What the request says; None where there is none."""
        return None if self.request is None else RequestView(self.request)

    @property
    def refused(self) -> bool:
        """Whether it must not be sent: a finding is an error that nobody accepted, or there is no request."""
        return self.request is None or any_blocks(self.findings)


PLACEHOLDER_ACCOUNT = "000000000000"
PLACEHOLDER_BUCKET = "placeholder"
PLACEHOLDER_REGION = "us-east-1"
PLACEHOLDER_CODE = "0" * 64
"""The digest of code that cannot be packed; a submission refuses it."""
PLACEHOLDER_LUSTRE = Lustre(
    id="fs-00000000000000000",
    mount_name="placeholder",
    subnet_id="subnet-00000000000000000",
    availability_zone="placeholder",
    security_group_id="sg-00000000000000000",
)


# Where a job goes: region, role, buckets and network, from the job file, else from the cluster. What
# neither of them knows gets a placeholder, so that a plan can be made and read without an account; a
# submission to AWS refuses while there is one.


@dataclass(frozen=True, slots=True)
class Destination:
    """The resolved places of a job. URIs end without a slash.

    `output` is the prefix to which the service appends the job's name. `code` ends in the code's digest:
    the same code lies in the same place for all jobs. `lustre` is the cluster's file system, `cluster_name`
    the cluster's name; None where there is none.
    """

    region: str
    role_arn: str
    code: str
    output: str
    subnets: tuple[str, ...]
    security_group_ids: tuple[str, ...]
    kms_key_arn: str | None
    lustre: Lustre | None
    cluster_name: str | None = None
    placeholders: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(slots=True)
class _Placeholders:
    """The placeholders used so far, and the information about each."""

    names: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def fill(self, name: str, value: str, mode: FailureMode, remedy: str) -> str:
        self.names.append(name)
        self.findings.append(
            mode.finding(
                Stage.SPEC,
                f"no {name} is known without a cluster; the plan shows the placeholder {value}",
                remedy=remedy,
                severity=Severity.INFO,
                subject=name,
            )
        )
        return value


def resolve_destination(
    job: JobSpec,
    cluster: Cluster | None,
    session_region: str | None,
    code_digest: str = PLACEHOLDER_CODE,
) -> Destination:
    """Find the places of a job: its own where it names them, else the cluster's, else placeholders.

    `session_region` is the region where neither job nor cluster names one. Each placeholder comes with a
    finding that says what is missing.
    """
    gaps = _Placeholders()
    region = _resolve_region(job, cluster, session_region, gaps)
    role = job.role_arn or (cluster.role_arn if cluster else None)
    if role is None:
        role = gaps.fill(
            "role_arn",
            f"arn:aws:iam::{PLACEHOLDER_ACCOUNT}:role/{PLACEHOLDER_BUCKET}",
            storage.ROLE_INSUFFICIENT,
            "Give `role_arn`, or `cluster`.",
        )
    output = _resolve_output(job, cluster, gaps)
    return Destination(
        region=region,
        role_arn=role,
        code=f"{f's3://{cluster.buckets.code}' if cluster else output}/{CODE_FOLDER}/{code_digest}",
        output=output,
        subnets=_resolve_subnets(job, cluster),
        security_group_ids=tuple(
            job.network.security_group_ids or (cluster.security_group_ids if cluster else [])
        ),
        kms_key_arn=cluster.kms_key_arn if cluster else None,
        lustre=_resolve_lustre(job, cluster),
        cluster_name=cluster.name if cluster else None,
        placeholders=tuple(gaps.names),
        findings=tuple(gaps.findings),
    )


@finds(Stage.SPEC, storage.LUSTRE_PATH_OUTSIDE_MOUNT)
def check_lustre(
    job: JobSpec,
    checkpoints: PlannedCheckpoints | None,
    destination: Destination,
    cluster: Cluster | None,
) -> list[Finding]:
    """What the job wants of a Lustre file system where its destination has none."""
    if destination.lustre is not None:
        return []
    owner = f"the cluster {cluster.name} has none" if cluster else "the job names no cluster"
    found = [
        storage.LUSTRE_PATH_OUTSIDE_MOUNT.at(
            ("inputs", name),
            f"the input {name} reads {source.lustre} from a Lustre file system, but {owner}",
            remedy="Name a cluster that has a file system, or read the input from S3.",
        )
        for name, source in job.inputs.items()
        if source.lustre is not None
    ]
    if checkpoints is not None and checkpoints.lustre is not None:
        for_checkpoints = storage.LUSTRE_PATH_OUTSIDE_MOUNT.at(
            ("checkpoint", "lustre"),
            f"checkpoints go to {checkpoints.lustre} on a Lustre file system, but {owner}",
            remedy="Name a cluster that has a file system, or give `checkpoint.s3_uri`.",
        )
        found.insert(0, for_checkpoints)
    return found


def _resolve_region(
    job: JobSpec, cluster: Cluster | None, session_region: str | None, gaps: _Placeholders
) -> str:
    region = job.region or (cluster.region if cluster else None) or session_region
    return region or gaps.fill(
        "region",
        PLACEHOLDER_REGION,
        job_file.INVALID_VALUE,
        "Give `region`, or `cluster`, or set AWS_REGION.",
    )


def _resolve_subnets(job: JobSpec, cluster: Cluster | None) -> tuple[str, ...]:
    """The user's subnets, else the cluster's; a job that mounts Lustre keeps to the file system's zone.

    The service places a job in any one of its subnets, and a file system is in one zone only.
    """
    if job.network.subnets or cluster is None:
        return tuple(job.network.subnets)
    near = cluster.subnets
    if cluster.lustre is not None and job.mounts_lustre:
        zone = cluster.lustre.availability_zone
        near = [subnet for subnet in cluster.subnets if subnet.availability_zone == zone] or near
    return tuple(subnet.id for subnet in near)


def _resolve_lustre(job: JobSpec, cluster: Cluster | None) -> Lustre | None:
    if cluster is None and job.cluster is not None:
        return PLACEHOLDER_LUSTRE
    return cluster.lustre if cluster else None


def _resolve_output(job: JobSpec, cluster: Cluster | None, gaps: _Placeholders) -> str:
    if job.output:
        return job.output.s3_uri.rstrip("/")
    if cluster:
        return f"s3://{cluster.buckets.output}"
    return gaps.fill(
        "bucket", f"s3://{PLACEHOLDER_BUCKET}", storage.BUCKET_UNUSABLE, "Give `output.s3_uri`, or `cluster`."
    )


# Where a job's checkpoints go, and who moves them.


@dataclass(frozen=True, slots=True)
class PlannedCheckpoints:
    """The place of a job's checkpoints.

    `local_path` is where the script writes them in the container. They are kept either below `s3_uri`, a
    prefix that ends in the job's own unique name, or in `lustre`, a directory of the cluster's file system
    in which the job has one of its own. `by_service` says whether SageMaker copies them to S3; otherwise
    the boot does, where it starts the script, else the script itself, or they are on the file system already.
    """

    local_path: str
    s3_uri: str | None = None
    lustre: str | None = None
    by_service: bool = False


@finds(Stage.SPEC, checkpoints.PREFIX_NOT_UNIQUE)
def plan_checkpoints(job: JobSpec, cluster: Cluster | None, job_name: str) -> PlannedCheckpoints | None:
    """The place of a job's checkpoints, or None where it keeps none.

    They are on by default where there is a cluster, also where its manifest was not read yet. The
    training jobs of a tuning job have one request and so one prefix, which is why the default is off there.
    `job_name` is the unique name: as every prefix ends in it, two jobs never share one.
    """
    given = job.checkpoint
    if given is None and (job.tuning is not None or (cluster is None and job.cluster is None)):
        return None
    if given is not None and given.lustre is not None:
        return PlannedCheckpoints(f"{channel_folder(CHECKPOINT_CHANNEL)}/{job_name}", lustre=given.lustre)
    base = given.s3_uri if given else None
    if base is None:
        bucket = cluster.buckets.checkpoints if cluster else f"{PLACEHOLDER_BUCKET}/checkpoints"
        base = f"s3://{bucket}"
    return PlannedCheckpoints(
        local_path=given.local_path if given else DEFAULT_CHECKPOINT_PATH,
        s3_uri=f"{base.rstrip('/')}/{job_name}",
        by_service=given is None or given.sync == "sagemaker",
    )
