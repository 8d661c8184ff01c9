"""Where a job's checkpoints go, and who moves them: decided once, for the request and for the rules."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.cluster.manifest import Cluster
from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.checkpoint import CHECKPOINT_CHANNEL
from launcher.jobs.container_paths import DEFAULT_CHECKPOINT_PATH, channel_folder
from launcher.jobs.specification import JobSpec
from launcher.planning.placeholders import PLACEHOLDER_BUCKET


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
def planned_checkpoints(job: JobSpec, cluster: Cluster | None, job_name: str) -> PlannedCheckpoints | None:
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
