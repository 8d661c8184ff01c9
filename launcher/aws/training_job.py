"""A training job's request, as the account remembers it."""

from __future__ import annotations

from typing import Any

from launcher.aws.errors import aws_errors


def fetch_request(sagemaker: Any, job_name: str) -> dict[str, Any]:
    """What CreateTrainingJob was called with, as far as DescribeTrainingJob shows it (it shows no tags).

    Raises AwsRefusal where there is no such job, or AWS refuses.
    """
    with aws_errors(f"describe the training job {job_name}"):
        described = sagemaker.describe_training_job(TrainingJobName=job_name)
    members = sagemaker.meta.service_model.operation_model("CreateTrainingJob").input_shape.members
    return {name: described[name] for name in members if name in described}
