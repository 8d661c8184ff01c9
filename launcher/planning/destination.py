"""Where a job goes: region, role, buckets and network, from the job file, else from the cluster.

What neither of them knows gets a recognisable placeholder, so that a plan can be made and read
without an account; a submission to AWS refuses while there is one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from launcher.cluster.manifest import Cluster, Lustre
from launcher.failure_modes import checkpoints, job_file, storage
from launcher.failure_modes.model import FailureMode, Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec

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


@dataclass(frozen=True, slots=True)
class Destination:
    """The resolved places of a job. URIs end without a slash.

    `output` is the prefix that the service appends the job's name to; `checkpoints` holds it already.
    `code` ends in the code's digest: the same code lies in the same place for all jobs. `checkpoints` is
    None where none go to S3: there are none, or they stay on the file system. `lustre` is the cluster's.
    """

    region: str
    role_arn: str
    code: str
    output: str
    checkpoints: str | None
    subnets: tuple[str, ...]
    security_group_ids: tuple[str, ...]
    kms_key_arn: str | None
    lustre: Lustre | None
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
    job_name: str,
    session_region: str | None,
    code_digest: str = PLACEHOLDER_CODE,
) -> Destination:
    """Find the places of a job; placeholders come with an information each."""
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
        code=f"{f's3://{cluster.buckets.code}' if cluster else output}/code/{code_digest}",
        output=output,
        checkpoints=checkpoint_prefix(job, cluster, job_name),
        subnets=_subnets(job, cluster),
        security_group_ids=tuple(
            job.network.security_group_ids or (cluster.security_group_ids if cluster else [])
        ),
        kms_key_arn=cluster.kms_key_arn if cluster else None,
        lustre=_lustre(job, cluster),
        placeholders=tuple(gaps.names),
        findings=tuple(gaps.findings),
    )


@finds(Stage.SPEC, checkpoints.PREFIX_NOT_UNIQUE)
def checkpoint_prefix(job: JobSpec, cluster: Cluster | None, job_name: str) -> str | None:
    """The checkpoint prefix, which always ends in the job's own unique name.

    Two jobs can therefore never share one. Checkpoints are on by default where there is a cluster,
    also where its manifest was not read yet;
    None where there is none, or they go to a Lustre file system. The training jobs of a tuning job
    have one request and so one prefix, which is why there the default is none.
    """
    if job.checkpoint is None and job.tuning is not None:
        return None
    if job.checkpoint is not None and job.checkpoint.lustre is not None:
        return None
    base = job.checkpoint.s3_uri if job.checkpoint else None
    if base is None:
        if cluster is not None:
            base = f"s3://{cluster.buckets.checkpoints}"
        elif job.checkpoint is not None or job.cluster is not None:
            base = f"s3://{PLACEHOLDER_BUCKET}/checkpoints"
        else:
            return None
    return f"{base.rstrip('/')}/{job_name}"


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
