"""The SageMaker SDK's own resource of a job, for those who have the SDK and ask for it."""

from __future__ import annotations

from typing import Any

from launcher.failure_modes.refusal import Refusal
from launcher.planning.training_plan import Operation


def sdk_resource(name: str, operation: Operation, region: str | None) -> Any:
    """The SDK's TrainingJob, or HyperParameterTuningJob, of a job that is there.

    Raises Refusal where version 3 of the SDK cannot be imported, which takes a second where it can.
    """
    try:
        from sagemaker.core.resources import HyperParameterTuningJob, TrainingJob
    except ImportError as error:
        raise Refusal(
            f"the SageMaker SDK, version 3, cannot be imported: {error}. The job {name} is not affected.",
            "Install the package's extra `sdk`, or `sagemaker>=3.27`; all else that the job's handle does "
            "needs no SDK.",
        ) from error
    if operation == "CreateTrainingJob":
        return TrainingJob.get(training_job_name=name, region=region)
    return HyperParameterTuningJob.get(hyper_parameter_tuning_job_name=name, region=region)
