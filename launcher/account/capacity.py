"""What the account lets a job have, as plain data: the image, the quotas of hosts, and the jobs that use
them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from launcher.cluster.manifest import CLUSTER_TAG
from launcher.facts import read_data_file
from launcher.failure_modes.refusal import AwsRefusal
from launcher.jobs.job_sections import CHECKPOINT_URI_VARIABLE

_URI = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\."
    r"(?:amazonaws\.com(?:\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn)/"
    r"(?P<repository>[a-z0-9._/-]+?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_ABSENT = frozenset(
    {"ImageNotFound", "ImageTagDoesNotMatchDigest", "InvalidImageDigest", "InvalidImageTag"},
)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """What an image's URI in ECR says; without a tag and a digest the tag is `latest`."""

    uri: str
    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class Image:
    """A training image in a registry; `exists` is false where the registry has no such tag or digest.

    `region` is that of the registry, None where the URI does not say.
    """

    uri: str
    exists: bool
    region: str | None = None


def parse_image_uri(uri: str) -> ImageReference | None:
    """The parts of an image's URI; None where it is not in ECR.

    Source: ECR user guide, registries (the endpoints `dkr.ecr` and, over IPv4 and IPv6, `dkr-ecr`).
    """
    match = _URI.fullmatch(uri)
    if match is None:
        return None
    tag = match["tag"] or (None if match["digest"] else "latest")
    return ImageReference(uri, match["account"], match["region"], match["repository"], tag, match["digest"])


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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Quota:
    """How many hosts of a type the account may use in training jobs at the same time.

    `name` is the quota's in Service Quotas, `code` its code there; `in_use` counts the hosts of running
    training jobs of the region.
    """

    name: str
    code: str
    limit: float
    in_use: int


@dataclass(frozen=True, slots=True)
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
