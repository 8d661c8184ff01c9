"""The training jobs of a region that have not ended, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.cluster.manifest import CLUSTER_TAG
from launcher.jobs.checkpoint import CHECKPOINT_URI_VARIABLE


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
