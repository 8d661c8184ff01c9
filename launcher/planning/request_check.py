"""The built request against the API model: each violation at the field of the job file that it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from launcher.failure_modes.model import Finding, Path, dotted
from launcher.jobs.secrets import SECRETS_VARIABLE
from launcher.planning.api_limits import violations

# What a part of the request is made from; the longest fitting way counts, and what follows is kept.
_ORIGINS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("TrainingJobName",): ("name",),
    ("RoleArn",): ("role_arn",),
    ("AlgorithmSpecification",): ("image",),
    ("AlgorithmSpecification", "ContainerArguments"): ("code", "arguments"),
    ("AlgorithmSpecification", "MetricDefinitions"): ("metrics",),
    ("HyperParameters",): ("hyperparameters",),
    ("StaticHyperParameters",): ("hyperparameters",),
    ("Environment",): ("environment",),
    ("InputDataConfig",): ("inputs",),
    ("OutputDataConfig",): ("output",),
    ("ResourceConfig",): ("resources",),
    ("ResourceConfig", "InstancePreferences"): ("resources", "instance_types"),
    ("ResourceConfig", "InstanceCount"): ("resources", "instance_count"),
    ("ResourceConfig", "VolumeSizeInGB"): ("resources", "volume_size_gb"),
    ("ResourceConfig", "KeepAlivePeriodInSeconds"): ("resources", "keep_alive"),
    ("ResourceConfig", "TrainingPlanArn"): ("resources", "capacity"),
    ("VpcConfig", "Subnets"): ("network", "subnets"),
    ("VpcConfig", "SecurityGroupIds"): ("network", "security_group_ids"),
    ("StoppingCondition", "MaxRuntimeInSeconds"): ("limits", "max_runtime"),
    ("StoppingCondition", "MaxWaitTimeInSeconds"): ("limits", "max_wait"),
    ("RetryStrategy",): ("limits", "max_retries"),
    ("InfraCheckConfig",): ("resources", "infra_check"),
    ("RemoteDebugConfig",): ("debug", "remote"),
    ("ResourceConfig", "InstancePlacementConfig"): ("resources", "placement"),
    ("MlflowConfig",): ("mlflow",),
    ("MlflowConfig", "MlflowResourceArn"): ("mlflow", "arn"),
    ("MlflowConfig", "MlflowExperimentName"): ("mlflow", "experiment"),
    ("MlflowConfig", "MlflowRunName"): ("mlflow", "run"),
    ("CheckpointConfig",): ("checkpoint",),
    ("Tags",): ("tags",),
    ("HyperParameterTuningJobName",): ("name",),
    ("HyperParameterTuningJobConfig",): ("tuning",),
    ("HyperParameterTuningJobConfig", "HyperParameterTuningJobObjective"): ("tuning", "objective"),
    ("HyperParameterTuningJobConfig", "ParameterRanges"): ("tuning", "ranges"),
    ("HyperParameterTuningJobConfig", "ResourceLimits", "MaxNumberOfTrainingJobs"): ("tuning", "max_jobs"),
    ("HyperParameterTuningJobConfig", "ResourceLimits", "MaxParallelTrainingJobs"): ("tuning", "parallel"),
    ("HyperParameterTuningJobConfig", "ResourceLimits", "MaxRuntimeInSeconds"): ("tuning", "max_runtime"),
    ("HyperParameterTuningJobConfig", "StrategyConfig"): ("tuning", "hyperband"),
    ("HyperParameterTuningJobConfig", "RandomSeed"): ("tuning", "random_seed"),
}
_DEFINITION = "TrainingJobDefinition"
"""The part of a tuning job's request that has the keys of a training job's."""
_JUDGED_ELSEWHERE = ("ResourceConfig", "InstanceType")
"""Where the parts below the first end in the second. The enum of instance types is frozen in the model; a
rule with the nearest types judges them."""


def check_request(operation: str, request: Mapping[str, Any]) -> Iterator[Finding]:
    """All that the service would refuse in a request, by its API model, at the job file's fields."""
    for found in violations(operation, request):
        part = found.path or ()
        within = _within_training(part, request)[0]
        if (*within[:1], *within[-1:]) == _JUDGED_ELSEWHERE:
            continue
        path = job_path(part, request)
        field = dotted(path)
        yield replace(found, path=path, subject=field, remedy=f"Change `{field}`: {found.remedy}")


def job_path(path: Path, request: Mapping[str, Any]) -> Path:
    """The field of the job file that a part of the request comes from."""
    path, request = _within_training(path, request)
    for length in range(len(path), 0, -1):
        origin = _ORIGINS.get(tuple(str(part) for part in path[:length]))
        if origin is None:
            continue
        if origin == ("inputs",) and len(path) > length:
            return (*origin, str(request["InputDataConfig"][path[length]].get("ChannelName")))
        if origin == ("metrics",) and len(path) > length:
            metrics = request["AlgorithmSpecification"]["MetricDefinitions"]
            return (*origin, str(metrics[path[length]].get("Name")))
        if origin == ("tuning", "ranges") and len(path) > length + 1:
            ranges = request["HyperParameterTuningJobConfig"]["ParameterRanges"]
            return (*origin, str(ranges[path[length]][path[length + 1]].get("Name")))
        if path[length : length + 1] == (SECRETS_VARIABLE,):
            return ("secrets",)
        if origin in (("environment",), ("hyperparameters",)):
            return (*origin, *path[length : length + 1])
        return origin
    return ()


def _within_training(path: Path, request: Mapping[str, Any]) -> tuple[Path, Mapping[str, Any]]:
    """A place in what is said of each job, and that part of the request; others as they are."""
    if path and path[0] == _DEFINITION and _DEFINITION in request:
        return path[1:], request[_DEFINITION]
    return path, request
