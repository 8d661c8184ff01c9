"""A tuning job: the CreateHyperParameterTuningJob request around a training job's.

Its API describes a training job with fewer words than CreateTrainingJob has (botocore service model,
HyperParameterTrainingJobDefinition): no command for the container, no Debugger and no profiler. So the
image's own toolkit starts the script in every strategy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.jobs.tuning import Range, Tuning
from launcher.planning.naming import MAX_TUNING_JOB_NAME_LENGTH
from launcher.planning.strategies.toolkit import json_text
from launcher.planning.training_plan import Request

_DEFINED_ALIKE = (
    "RoleArn", "InputDataConfig", "VpcConfig", "OutputDataConfig", "ResourceConfig", "StoppingCondition",
    "EnableManagedSpotTraining", "EnableNetworkIsolation", "EnableInterContainerTrafficEncryption",
    "CheckpointConfig", "RetryStrategy", "Environment",
)  # fmt: skip
"""The parts of a CreateTrainingJob request that a training job definition has too."""

_ALGORITHM_ALIKE = ("TrainingImage", "TrainingInputMode", "MetricDefinitions")
"""The same of its AlgorithmSpecification."""

_SCALING = {
    "auto": "Auto",
    "linear": "Linear",
    "logarithmic": "Logarithmic",
    "reverse-logarithmic": "ReverseLogarithmic",
}


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def not_tunable(job: JobSpec, name: str) -> Iterator[Finding]:
    """What keeps a job from being tuned as it is described; nothing for one without `tuning`."""
    if job.tuning is None:
        return
    if len(name) > MAX_TUNING_JOB_NAME_LENGTH:
        room = MAX_TUNING_JOB_NAME_LENGTH - (len(name) - len(job.name))
        yield job_file.INVALID_VALUE.at(
            ("name",),
            f"{job.name!r} has {len(job.name)} characters; the name of a tuning job may have "
            f"{MAX_TUNING_JOB_NAME_LENGTH}, of which {room} are left beside the unique part",
            remedy=f"Shorten `name` to {room} characters.",
        )
    if job.checkpoint is not None and job.checkpoint.resume_from is not None:
        yield job_file.INVALID_VALUE.at(
            ("checkpoint", "resume_from"),
            "the training jobs are all created by the service, so that no checkpoint can be copied for "
            "them: each would start from the beginning",
            remedy="Remove `resume_from`, or give the checkpoint to the script as an input.",
        )
    for path, what in _for_training_jobs_alone(job):
        yield job_file.INVALID_VALUE.at(
            path,
            f"the API of tuning jobs has no {what}: the training jobs would run without it",
            remedy=f"Remove `{dotted(path)}`, or launch the job without `tuning`.",
        )


def _for_training_jobs_alone(job: JobSpec) -> Iterator[tuple[Path, str]]:
    """What the job asks for and HyperParameterTrainingJobDefinition has no member for."""
    if job.resources.instance_choice == "service":
        yield (
            ("resources", "instance_choice"),
            "choice of the instance type by the service that AWS documents",
        )
    if job.resources.infra_check:
        yield ("resources", "infra_check"), "health check of the hosts"
    if job.debug.remote:
        yield ("debug", "remote"), "shell in the containers"
    if job.mlflow is not None:
        yield ("mlflow",), "MLflow"


def tuning_request(tuning: Tuning, training: Request) -> Request:
    """The request for a tuning job around the CreateTrainingJob request of one of its jobs."""
    algorithm = training["AlgorithmSpecification"]
    request: Request = {
        "HyperParameterTuningJobName": training["TrainingJobName"],
        "HyperParameterTuningJobConfig": _config(tuning),
        "TrainingJobDefinition": {
            "StaticHyperParameters": training.get("HyperParameters", {}),
            "AlgorithmSpecification": {key: algorithm[key] for key in _ALGORITHM_ALIKE if key in algorithm},
            **{key: training[key] for key in _DEFINED_ALIKE if key in training},
        },
    }
    if "Tags" in training:
        request["Tags"] = training["Tags"]
    return request


def _config(tuning: Tuning) -> dict[str, Any]:
    config: dict[str, Any] = {
        "Strategy": tuning.strategy,
        "HyperParameterTuningJobObjective": {
            "Type": tuning.objective.goal.capitalize(),
            "MetricName": tuning.objective.metric,
        },
        "ResourceLimits": {"MaxParallelTrainingJobs": tuning.parallel},
        "ParameterRanges": _ranges(tuning),
        "TrainingJobEarlyStoppingType": "Auto" if tuning.early_stopping else "Off",
    }
    # A grid is tried as a whole: its number of jobs follows from the values.
    if tuning.max_jobs is not None and tuning.strategy != "Grid":
        config["ResourceLimits"]["MaxNumberOfTrainingJobs"] = tuning.max_jobs
    if tuning.max_runtime is not None:
        config["ResourceLimits"]["MaxRuntimeInSeconds"] = tuning.max_runtime
    if tuning.hyperband is not None:
        bounds = {"MinResource": tuning.hyperband.min_resource, "MaxResource": tuning.hyperband.max_resource}
        given = {key: value for key, value in bounds.items() if value is not None}
        config["StrategyConfig"] = {"HyperbandStrategyConfig": given}
    if tuning.random_seed is not None:
        config["RandomSeed"] = tuning.random_seed
    return config


def _ranges(tuning: Tuning) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for name, varied in tuning.ranges.items():
        key = f"{varied.kind.capitalize()}ParameterRanges"
        kinds.setdefault(key, []).append({"Name": name, **_range(varied)})
    return kinds


def _range(varied: Range) -> dict[str, Any]:
    """In the API's words: all values are texts, those of a list as the toolkit decodes them."""
    if varied.values is not None:
        return {"Values": [json_text(value) for value in varied.values]}
    return {
        "MinValue": str(varied.min),
        "MaxValue": str(varied.max),
        "ScalingType": _SCALING[varied.scaling],
    }
