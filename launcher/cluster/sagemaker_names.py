"""The names of SageMaker: what other services of AWS call it, and what it calls the hosts of a job."""

from __future__ import annotations

import re
from typing import Final

SAGEMAKER_PRINCIPAL: Final = "sagemaker.amazonaws.com"
"""Whom an execution role trusts and is passed to (SageMaker developer guide, sagemaker-roles)."""

TRAINING_LOGS: Final = "/aws/sagemaker/TrainingJobs"
"""The log group of all training jobs, and the namespace of their metrics in CloudWatch (SageMaker
developer guide, logging-cloudwatch and training-metrics)."""

TRAINING_IN_BATCH: Final = "SAGEMAKER_TRAINING"
"""The type of queues, service environments and service jobs of AWS Batch that are about training jobs
(Batch API, CreateJobQueue)."""

ECR_LAYERS: Final = "prod-{region}-starport-layer-bucket"
"""The bucket of AWS's in which ECR keeps the layers of images (ECR user guide, vpc-endpoints)."""

SHELL_ACTIONS: Final = (
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
)
"""What an execution role needs to let a shell into the containers (SageMaker developer guide,
train-remote-debugging)."""

HOST_NAME: Final = re.compile(r"algo-(\d+)")
"""A host's name, with its number."""


def host_name(number: int | str) -> str:
    """A host's name by its number, counted from 1: `algo-1` (SageMaker developer guide,
    your-algorithms-training-algo-running-container)."""
    return f"algo-{number}"


def host_in(path: str) -> str | None:
    """The host that a path or the name of a stream has in it, such as `algo-2`; the last one counts."""
    numbers = HOST_NAME.findall(path)
    return host_name(str(numbers[-1])) if numbers else None
