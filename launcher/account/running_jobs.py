"""The training jobs of a region that have not ended, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.errors import aws_errors

_NOT_ENDED = ("InProgress", "Stopping")
_PAGE = 100
"""The most that SageMaker's Search answers at once."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A training job that has not ended; `checkpoints` is its prefix on S3, None without one.

    `hosts` counts the instances of its type; a job of several instance groups names no type here.
    """

    name: str
    status: str
    checkpoints: str | None
    instance_type: str | None = None
    hosts: int = 0
    spot: bool = False
    keeps_hosts: bool = False


def fetch_running_jobs(sagemaker: Any) -> tuple[RunningJob, ...]:
    """All training jobs of the region that have not ended, the newest first, a hundred to a call.

    SageMaker's Search tells prefix and hosts of each at once; ListTrainingJobs knows neither, and would
    need a call for every job. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("look for running training jobs (sagemaker:Search)"):
        pages = sagemaker.get_paginator("search").paginate(
            Resource="TrainingJob",
            SearchExpression={
                "Operator": "Or",
                "Filters": [
                    {"Name": "TrainingJobStatus", "Operator": "Equals", "Value": status}
                    for status in _NOT_ENDED
                ],
            },
            SortBy="CreationTime",
            SortOrder="Descending",
            PaginationConfig={"PageSize": _PAGE},
        )
        return tuple(
            parse_running_job(each["TrainingJob"])
            for page in pages
            for each in page["Results"]
            if "TrainingJob" in each
        )


def parse_running_job(described: Mapping[str, Any]) -> RunningJob:
    """A job from one result of Search, or from DescribeTrainingJob."""
    resources = described.get("ResourceConfig", {})
    return RunningJob(
        name=described["TrainingJobName"],
        status=described.get("TrainingJobStatus", "InProgress"),
        checkpoints=described.get("CheckpointConfig", {}).get("S3Uri"),
        instance_type=resources.get("InstanceType"),
        hosts=int(resources.get("InstanceCount", 0)),
        spot=bool(described.get("EnableManagedSpotTraining", False)),
        keeps_hosts=bool(resources.get("KeepAlivePeriodInSeconds", 0)),
    )
