"""The tags of a job: the user's, and the cluster's own, by which policies know whose job it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from launcher.cluster.manifest import CLUSTER_TAG, Cluster
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec


def job_tags(job: JobSpec, cluster_name: str | None) -> list[dict[str, str]]:
    """The tags of the request, in the API's words; the cluster's last, and none without a cluster."""
    own = {} if cluster_name is None else {CLUSTER_TAG: cluster_name}
    return [{"Key": key, "Value": value} for key, value in {**job.tags, **own}.items()]


def without_cluster_tag(request: dict[str, Any]) -> dict[str, Any]:
    """The request as it would be without the cluster's tag: what the user asked for."""
    kept = [tag for tag in request.get("Tags", ()) if tag["Key"] != CLUSTER_TAG]
    rest = {key: value for key, value in request.items() if key != "Tags"}
    return {**rest, "Tags": kept} if kept else rest


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def foreign_cluster_tag(job: JobSpec, cluster: Cluster | None) -> Iterator[Finding]:
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
