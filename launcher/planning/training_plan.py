"""The training plan: everything that a backend needs to run a job, and what was found on the way.

With it what a plan consists of besides the request: where the job goes, from the job file, else from the
cluster, else to recognisable placeholders; where its checkpoints go and who moves them; whether SageMaker
Debugger is on; the environment variables that Slipway sets; and whose the job is. Each is decided once, for
the request and for the rules.

What is the same for every launch of one request is its fingerprint; the name that a run gives to a request
follows from the run's id and that fingerprint, so that it is the same on every machine. The tags are the
user's, and the cluster's own, by which policies know whose job it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from launcher.cluster.manifest import Cluster, Lustre
from launcher.cluster.names import CLUSTER_TAG, CODE_FOLDER
from launcher.failure_modes import checkpoints, debugger, job_file, storage
from launcher.failure_modes.model import FailureMode, Finding, Severity, Source, Stage, any_blocks
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.jobs.job_sections import Slurm
from launcher.jobs.load_job import NOTHING_REPLACED, Substitutions
from launcher.jobs.script_inputs import CHECKPOINT_CHANNEL, DEFAULT_CHECKPOINT_PATH, channel_folder
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.finished_request import UNIQUE_LENGTH, digest_part, make_job_name, without_cluster_tag
from launcher.planning.image_choice import VersionChoice
from launcher.planning.request_view import Request, RequestView
from launcher.source.packaging import SOURCE_NAME
from launcher.source.tree import SourceTree
from launcher.text.values import list_in_words


@frozen
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


@frozen
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


Operation = Literal["CreateTrainingJob", "CreateHyperParameterTuningJob"]
"""What a request is sent to."""


@frozen
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


@frozen
class PlannedController:
    """What the controller of a cluster goes on with: jobs of one role, with records in one bucket and
    checkpoints in another."""

    role_arn: str
    records_bucket: str
    checkpoints_bucket: str


@frozen
class TrainingPlan:
    """A job, or a tuning job of several, made concrete.

    `job` is the resolved job in the job file's own keys, `spec` the job itself with the version of its
    framework that was chosen (`version_choice`, None where the file names one; both None where the file has
    errors), `region` where it goes, `request` what is sent as it is to `operation` (None where errors kept
    it from being built), `placeholders` the names of the values that stand in for what only a cluster or an
    account knows; a submission to AWS refuses while there are any. `substitutions` are the values from
    variables: `launcher.planning.show_plan` makes what people see of the plan, without them. `settings` are
    what the plan chose for the environment, with reasons, also where the user's own choice stands instead.
    `queue_arn` is the cluster's queue, through which the job may go, `controller_arn` the function that goes
    on with its managed runs, `bucket_owners` the accounts of the cluster's buckets, by their names.

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
    controller: PlannedController | None = None
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
    def slurm(self) -> Slurm | None:
        """What the job file says of Slurm, where the job is to run there."""
        return self.spec.slurm if self.spec is not None and self.spec.backend == "slurm" else None

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


@frozen
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


_UNKNOWN = "no {} is known without a cluster; the plan shows"
_GIVEN_BY = {"region": "`region` (or AWS_REGION)", "role_arn": "`role_arn`", "bucket": "`output.s3_uri`"}
"""What a placeholder stands for, and the field of the job file that gives it."""


def join_placeholders(findings: Iterable[Finding]) -> list[Finding]:
    """The findings as people read them: those about placeholders are one, in the first one's place."""
    shown = list(findings)
    about = [
        each for each in shown if not each.ignored and each.message.startswith(_UNKNOWN.format(each.subject))
    ]
    if len(about) > 1:
        names = [str(each.subject) for each in about]
        first = shown.index(about[0])
        shown = [each for each in shown if each not in about]
        message = f"{_UNKNOWN.format(list_in_words(names, 'or'))} placeholders"
        fields = list_in_words([_GIVEN_BY[name] for name in names], "and")
        shown.insert(first, replace(about[0], message=message, remedy=f"Give `cluster`, or {fields}."))
    return shown


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
                f"{_UNKNOWN.format(name)} the placeholder {value}",
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


@frozen
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


# Whose a job is, by its tags, and what makes two plans the same launch.


def job_tags(job: JobSpec, cluster_name: str | None) -> list[dict[str, str]]:
    """The tags of the request, in the API's words; the cluster's last, and none without a cluster."""
    own = {} if cluster_name is None else {CLUSTER_TAG: cluster_name}
    return [{"Key": key, "Value": value} for key, value in {**job.tags, **own}.items()]


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def check_cluster_tag(job: JobSpec, cluster: Cluster | None) -> Iterator[Finding]:
    """A tag of the user's that says of another cluster, or of none, what only the cluster's own may say.

    Nothing is found while the manifest of the job's cluster was not read.
    """
    given = job.tags.get(CLUSTER_TAG)
    if given is None or (cluster is None and job.cluster is not None):
        return
    if cluster is None:
        problem, remedy = "the job has no cluster", "Remove the tag, or name the `cluster`."
    elif given != cluster.name:
        problem, remedy = f"the job is on the cluster {cluster.name!r}", "Remove it: each job gets the tag."
    else:
        return
    yield job_file.INVALID_VALUE.at(
        ("tags", CLUSTER_TAG),
        f"the tag {CLUSTER_TAG} says {given!r}, but {problem}; policies go by this tag",
        remedy=remedy,
    )


def fingerprint(plan: TrainingPlan) -> str:
    """A digest that is the same for every plan of the same request, whatever its unique name; in hex.

    Nothing of the request can be read from it. The cluster's tag is left out: it says nothing that the
    cluster's places do not, and launchers before it knew the same request without it.
    """
    request = None if plan.request is None else without_cluster_tag(plan.request)
    content = json.dumps([plan.operation, plan.region, request], sort_keys=True)
    return hashlib.sha256(content.replace(str(plan.name), "JOB").encode()).hexdigest()


def rename_plan(plan: TrainingPlan, name: str) -> TrainingPlan:
    """The same plan under another unique name, which also stands in its prefixes."""
    if plan.name == name:
        return plan
    text = json.dumps(plan.request).replace(str(plan.name), name)
    return replace(plan, request=json.loads(text))


def name_plan_by_run(plan: TrainingPlan, run_id: str, queue: str = "") -> TrainingPlan:
    """The plan under the name that its run gives it: the same for the same run, request and queue.

    `queue` is the ARN of the queue through which it goes. A plan without a request stays as it is.
    """
    if plan.request is None:
        return plan
    base = str(plan.name)[: -UNIQUE_LENGTH - 1]
    content = json.dumps([run_id, queue, fingerprint(plan)])
    return rename_plan(plan, make_job_name(base, digest_part(hashlib.sha256(content.encode()).digest())))
