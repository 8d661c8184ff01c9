"""Where a job goes: region, role, buckets and network, from the job file, else from the cluster.

What neither of them knows gets a recognisable placeholder, so that a plan can be made and read
without an account; a submission to AWS refuses while there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from launcher.cluster.manifest import CODE_FOLDER, Cluster, Lustre
from launcher.failure_modes import job_file, storage
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.checkpoints import PlannedCheckpoints
from launcher.planning.placeholders import (
    PLACEHOLDER_ACCOUNT,
    PLACEHOLDER_BUCKET,
    PLACEHOLDER_CODE,
    PLACEHOLDER_LUSTRE,
    PLACEHOLDER_REGION,
)


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
class _Gaps:
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
    gaps = _Gaps()
    region = _region(job, cluster, session_region, gaps)
    role = job.role_arn or (cluster.role_arn if cluster else None)
    if role is None:
        role = gaps.fill(
            "role_arn",
            f"arn:aws:iam::{PLACEHOLDER_ACCOUNT}:role/{PLACEHOLDER_BUCKET}",
            storage.ROLE_INSUFFICIENT,
            "Give `role_arn`, or `cluster`.",
        )
    output = _output(job, cluster, gaps)
    return Destination(
        region=region,
        role_arn=role,
        code=f"{f's3://{cluster.buckets.code}' if cluster else output}/{CODE_FOLDER}/{code_digest}",
        output=output,
        subnets=_subnets(job, cluster),
        security_group_ids=tuple(
            job.network.security_group_ids or (cluster.security_group_ids if cluster else [])
        ),
        kms_key_arn=cluster.kms_key_arn if cluster else None,
        lustre=_lustre(job, cluster),
        cluster_name=cluster.name if cluster else None,
        placeholders=tuple(gaps.names),
        findings=tuple(gaps.findings),
    )


@finds(Stage.SPEC, storage.LUSTRE_PATH_OUTSIDE_MOUNT)
def missing_lustre(
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


def _region(job: JobSpec, cluster: Cluster | None, session_region: str | None, gaps: _Gaps) -> str:
    region = job.region or (cluster.region if cluster else None) or session_region
    return region or gaps.fill(
        "region",
        PLACEHOLDER_REGION,
        job_file.INVALID_VALUE,
        "Give `region`, or `cluster`, or set AWS_REGION.",
    )


def _subnets(job: JobSpec, cluster: Cluster | None) -> tuple[str, ...]:
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


def _lustre(job: JobSpec, cluster: Cluster | None) -> Lustre | None:
    if cluster is None and job.cluster is not None:
        return PLACEHOLDER_LUSTRE
    return cluster.lustre if cluster else None


def _output(job: JobSpec, cluster: Cluster | None, gaps: _Gaps) -> str:
    if job.output:
        return job.output.s3_uri.rstrip("/")
    if cluster:
        return f"s3://{cluster.buckets.output}"
    return gaps.fill(
        "bucket", f"s3://{PLACEHOLDER_BUCKET}", storage.BUCKET_UNUSABLE, "Give `output.s3_uri`, or `cluster`."
    )
