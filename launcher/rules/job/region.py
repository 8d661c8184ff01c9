"""The region of a job and that of its cluster."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import storage
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, storage.BUCKET_UNUSABLE)
def job_is_in_its_clusters_region(subject: JobSubject) -> Iterator[Finding]:
    """A cluster's buckets, subnets and file system are of one region, and so is the job."""
    cluster, region = subject.cluster, subject.job.region
    if cluster is None or region is None or region == cluster.region:
        return
    of_lustre = " and its file system" if cluster.lustre is not None else ""
    yield storage.BUCKET_UNUSABLE.at(
        ("region",),
        f"the job is to run in {region}, but the buckets{of_lustre} of the cluster {cluster.name} are in "
        f"{cluster.region}: SageMaker would refuse them",
        remedy=f"Leave `region` out, which means {cluster.region}, or name a cluster in {region}.",
    )
