"""The request that creates a job: built once, checked against the API's model, printed and sent as it is.

A tuning job's request stands around that of one of its training jobs. Its API describes a training job with
fewer words than CreateTrainingJob has (botocore service model, HyperParameterTrainingJobDefinition): no
command for the container, no Debugger and no profiler. So the image's own toolkit starts the script in every
strategy.

What the service would refuse is found by `api_model.json`, which is generated from botocore's model
(tools/generate/api_model.py); each violation is put at the field of the job file that it comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from launcher.cluster.instances import InstanceFacts
from launcher.cluster.manifest import Lustre
from launcher.facts import read_data_file
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Severity, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.jobs.job_sections import Input, Mlflow, Resources, UltraServerPlacement
from launcher.jobs.script_inputs import CHECKPOINT_CHANNEL, RESERVED_CHANNEL, SECRETS_VARIABLE
from launcher.jobs.specification import JobSpec
from launcher.jobs.tuning import Range, Tuning
from launcher.planning.finished_request import MAX_TUNING_JOB_NAME_LENGTH
from launcher.planning.request_view import CostLimit, Request, RequestView, budget_in
from launcher.planning.strategies.strategy import Entry
from launcher.planning.strategies.toolkit import json_text
from launcher.planning.training_plan import Destination, PlannedCheckpoints, PlannedDebugger, job_tags
from launcher.text.values import nearest


def build_request(
    job: JobSpec,
    *,
    job_name: str,
    image: str,
    entry: Entry | None,
    hyperparameters: Mapping[str, str],
    environment: Mapping[str, str],
    destination: Destination,
    checkpoints: PlannedCheckpoints | None,
    debugger: PlannedDebugger,
    facts: InstanceFacts | None,
    budget: CostLimit | None = None,
) -> Request:
    """The request for a job whose every derived part is given.

    The destination must have a file system where an input or the checkpoints ask for one. Without an
    `entry` the image's own toolkit starts the script, and fetches it by itself: there is no channel for
    the code then.
    """
    channels = [_channel_member(name, source, destination.lustre) for name, source in job.inputs.items()]
    if checkpoints is not None and checkpoints.lustre is not None:
        kept = Input(lustre=checkpoints.lustre, access="rw")
        channels.append(_channel_member(CHECKPOINT_CHANNEL, kept, destination.lustre))
    if entry is not None:
        channels.append(_s3_channel(RESERVED_CHANNEL, destination.code, "FullyReplicated", "File"))
    request: Request = {
        "TrainingJobName": job_name,
        "AlgorithmSpecification": _algorithm_member(job, image, entry),
        "RoleArn": destination.role_arn,
        "HyperParameters": dict(hyperparameters),
        "InputDataConfig": channels,
        "OutputDataConfig": _with_key({"S3OutputPath": f"{destination.output}/"}, "KmsKeyId", destination),
        "ResourceConfig": _resource_member(job, destination, facts),
        "StoppingCondition": _stopping_member(job, budget),
        "Environment": dict(environment),
        "Tags": job_tags(job, destination.cluster_name),
        "CheckpointConfig": _checkpoint_member(checkpoints),
        **_debugger_members(debugger, destination),
    }
    if destination.subnets and destination.security_group_ids:
        request["VpcConfig"] = {
            "Subnets": list(destination.subnets),
            "SecurityGroupIds": list(destination.security_group_ids),
        }
    if job.resources.capacity.kind == "spot":
        request["EnableManagedSpotTraining"] = True
    if job.limits.max_retries:
        request["RetryStrategy"] = {"MaximumRetryAttempts": job.limits.max_retries}
    request |= service_options(job)
    return {key: value for key, value in request.items() if value not in ({}, [])}


def forbids_request(finding: Finding) -> bool:
    """Whether a value itself makes no sense, so that no request can hold it."""
    return finding.code == job_file.INVALID_VALUE.code and finding.severity is Severity.ERROR


def _algorithm_member(job: JobSpec, image: str, entry: Entry | None) -> dict[str, Any]:
    algorithm: dict[str, Any] = {
        "TrainingImage": image,
        "TrainingInputMode": "File",
        "EnableSageMakerMetricsTimeSeries": True,
    }
    if job.all_metrics:
        algorithm["MetricDefinitions"] = [
            {"Name": name, "Regex": regex} for name, regex in job.all_metrics.items()
        ]
    if entry is not None:
        algorithm["ContainerEntrypoint"] = list(entry.entrypoint)
        algorithm["ContainerArguments"] = list(entry.arguments)
    return algorithm


def _checkpoint_member(checkpoints: PlannedCheckpoints | None) -> dict[str, str]:
    """SageMaker's own synchronisation with S3; empty where there is none, or others upload."""
    if checkpoints is None or checkpoints.s3_uri is None or not checkpoints.by_service:
        return {}
    return {"S3Uri": checkpoints.s3_uri, "LocalPath": checkpoints.local_path}


def _debugger_members(debugger: PlannedDebugger, destination: Destination) -> dict[str, Any]:
    """Debugger's hook and profiler: both on or both off.

    The profiler runs unless it is switched off, and samples every host.
    """
    if not debugger.on:
        return {"ProfilerConfig": {"DisableProfiler": True}}
    place = f"{destination.output}/"
    return {
        "DebugHookConfig": {"S3OutputPath": place, "CollectionConfigurations": []},
        "ProfilerConfig": {"S3OutputPath": place, "DisableProfiler": False},
    }


def _channel_member(name: str, source: Input, lustre: Lustre | None) -> dict[str, Any]:
    if source.s3_uri is not None:
        return _s3_channel(name, source.s3_uri, source.distribution, source.mode)
    if source.lustre is None or lustre is None:
        raise ValueError(f"the input {name} needs a file system")
    return {
        "ChannelName": name,
        "DataSource": {
            "FileSystemDataSource": {
                "FileSystemId": lustre.id,
                "FileSystemType": "FSxLustre",
                "FileSystemAccessMode": source.access,
                # The path that a job may mount begins with the file system's mount name.
                "DirectoryPath": f"/{lustre.mount_name}{source.lustre}".rstrip("/"),
            }
        },
    }


def _s3_channel(name: str, uri: str, distribution: str, mode: str) -> dict[str, Any]:
    channel: dict[str, Any] = {
        "ChannelName": name,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": uri,
                "S3DataDistributionType": distribution,
            }
        },
    }
    if mode != "File":
        channel["InputMode"] = mode
    return channel


def _resource_member(job: JobSpec, destination: Destination, facts: InstanceFacts | None) -> dict[str, Any]:
    resources = job.resources
    config: dict[str, Any] = {
        **_instance_types(resources),
        "InstanceCount": resources.instance_count,
        "VolumeSizeInGB": resources.volume_size_gb,
        **placement_config(resources.placement),
    }
    if resources.keep_alive:
        config["KeepAlivePeriodInSeconds"] = resources.keep_alive
    if resources.capacity.training_plan:
        config["TrainingPlanArn"] = resources.capacity.training_plan
    # A volume key is refused on types with local storage (SageMaker API, ResourceConfig).
    if facts is not None and not facts.local_nvme_gb:
        config = _with_key(config, "VolumeKmsKeyId", destination)
    return config


def _instance_types(resources: Resources) -> dict[str, Any]:
    if resources.instance_choice == "launcher":
        return {"InstanceType": resources.instance_type}
    ordered = (resources.instance_type, *resources.instance_types)
    return {"InstancePreferences": [{"InstanceType": each} for each in ordered]}


def _stopping_member(job: JobSpec, budget: CostLimit | None) -> dict[str, int]:
    """How long the job may run: as its file says, or for as long as its budget lasts."""
    condition = {"MaxRuntimeInSeconds": job.limits.max_runtime}
    if budget is not None:
        paid = budget.seconds(job.resources.instance_count, job.resources.keep_alive or 0)
        condition["MaxRuntimeInSeconds"] = min(job.limits.max_runtime, paid or job.limits.max_runtime)
    if job.resources.capacity.kind == "spot":
        condition["MaxWaitTimeInSeconds"] = job.limits.max_wait or 2 * job.limits.max_runtime
    return condition


def _with_key(config: dict[str, Any], name: str, destination: Destination) -> dict[str, Any]:
    return {**config, name: destination.kms_key_arn} if destination.kms_key_arn else config


# What a job asks of the service besides hosts and data. Source: SageMaker API reference, CreateTrainingJob.


def service_options(job: JobSpec) -> dict[str, Any]:
    """The members of a CreateTrainingJob request for what the job switches on; no member for what is off."""
    options: dict[str, Any] = {}
    if job.resources.infra_check:
        options["InfraCheckConfig"] = {"EnableInfraCheck": True}
    if job.debug.remote:
        options["RemoteDebugConfig"] = {"EnableRemoteDebug": True}
    if job.network.isolation:
        options["EnableNetworkIsolation"] = True
    if job.network.encryption:
        options["EnableInterContainerTrafficEncryption"] = True
    if job.mlflow is not None:
        options["MlflowConfig"] = _mlflow_config(job.mlflow)
    return options


def placement_config(placement: UltraServerPlacement | None) -> dict[str, Any]:
    """The member of a ResourceConfig that places the hosts on UltraServers; none where nothing is asked."""
    if placement is None:
        return {}
    config: dict[str, Any] = {"EnableMultipleJobs": placement.share}
    if placement.together:
        config["PlacementSpecifications"] = [
            {
                **({"UltraServerId": each.ultra_server} if each.ultra_server else {}),
                "InstanceCount": each.instance_count,
            }
            for each in placement.together
        ]
    return {"InstancePlacementConfig": config}


def _mlflow_config(mlflow: Mlflow) -> dict[str, str]:
    given = {
        "MlflowResourceArn": mlflow.arn,
        "MlflowExperimentName": mlflow.experiment,
        "MlflowRunName": mlflow.run,
    }
    return {name: value for name, value in given.items() if value is not None}


def options_on_aws_alone(request: RequestView) -> dict[str, str]:
    """What of a request a run on this machine cannot have: what is missing, by its field of the job file."""
    missing: dict[str, str] = {}
    if len(request.instance_types) > 1:
        missing["resources.instance_choice"] = f"the hosts stand for {request.instance_type}"
    if request.options.checks_hosts:
        missing["resources.infra_check"] = "no hosts are tested"
    if request.options.lets_a_shell_in:
        missing["debug.remote"] = "the processes run on this machine, within reach"
    if request.options.shares_ultra_servers is not None:
        missing["resources.placement"] = "no hosts are placed"
    if request.options.is_isolated:
        missing["network.isolation"] = "the processes reach what this machine reaches"
    if request.options.encrypts_between_hosts:
        missing["network.encryption"] = "what the hosts send each other stays on this machine"
    if request.options.mlflow_arn is not None:
        missing["mlflow"] = "the run is not known to SageMaker"
    return missing


def build_network_request(
    *,
    name: str,
    role_arn: str,
    instance_type: str,
    hosts: int,
    subnet_ids: Sequence[str],
    security_group_ids: Sequence[str],
    file_system_id: str | None,
) -> dict[str, Any]:
    """A request of CreateTrainingJob with hosts, network and file system, and nothing to run on them.

    It is judged, never sent. Source: SageMaker API reference, CreateTrainingJob.
    """
    mounts = [
        {
            "ChannelName": "lustre",
            "DataSource": {
                "FileSystemDataSource": {
                    "FileSystemId": file_system_id,
                    "FileSystemType": "FSxLustre",
                    "DirectoryPath": "/",
                    "FileSystemAccessMode": "ro",
                }
            },
        }
    ]
    return {
        "TrainingJobName": name,
        "RoleArn": role_arn,
        "ResourceConfig": {"InstanceType": instance_type, "InstanceCount": hosts},
        "VpcConfig": {"Subnets": list(subnet_ids), "SecurityGroupIds": list(security_group_ids)},
        "InputDataConfig": mounts if file_system_id else [],
    }


# A tuning job: the CreateHyperParameterTuningJob request around a training job's.


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
def check_tuning(job: JobSpec, name: str) -> Iterator[Finding]:
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
    for path, what in _check_training_job_options(job):
        yield job_file.INVALID_VALUE.at(
            path,
            f"the API of tuning jobs has no {what}: the training jobs would run without it",
            remedy=f"Remove `{dotted(path)}`, or launch the job without `tuning`.",
        )


def _check_training_job_options(job: JobSpec) -> Iterator[tuple[Path, str]]:
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


def build_tuning_request(tuning: Tuning, training: Request) -> Request:
    """The request for a tuning job around the CreateTrainingJob request of one of its jobs."""
    algorithm = training["AlgorithmSpecification"]
    request: Request = {
        "HyperParameterTuningJobName": training["TrainingJobName"],
        "HyperParameterTuningJobConfig": _tuning_config(tuning, _paid_seconds(tuning, training)),
        "TrainingJobDefinition": {
            "StaticHyperParameters": training.get("HyperParameters", {}),
            "AlgorithmSpecification": {key: algorithm[key] for key in _ALGORITHM_ALIKE if key in algorithm},
            **{key: training[key] for key in _DEFINED_ALIKE if key in training},
        },
    }
    if "Tags" in training:
        request["Tags"] = training["Tags"]
    return request


def _paid_seconds(tuning: Tuning, training: Request) -> int | None:
    """How long the budget pays for all jobs that run beside each other; None without a budget."""
    view = RequestView(training)
    budget = budget_in(view.environment)
    return None if budget is None else budget.seconds((view.hosts or 1) * tuning.parallel)


def _tuning_config(tuning: Tuning, paid_seconds: int | None) -> dict[str, Any]:
    config: dict[str, Any] = {
        "Strategy": tuning.strategy,
        "HyperParameterTuningJobObjective": {
            "Type": tuning.objective.goal.capitalize(),
            "MetricName": tuning.objective.metric,
        },
        "ResourceLimits": {"MaxParallelTrainingJobs": tuning.parallel},
        "ParameterRanges": _parameter_ranges(tuning),
        "TrainingJobEarlyStoppingType": "Auto" if tuning.early_stopping else "Off",
    }
    # A grid is tried as a whole: its number of jobs follows from the values.
    if tuning.max_jobs is not None and tuning.strategy != "Grid":
        config["ResourceLimits"]["MaxNumberOfTrainingJobs"] = tuning.max_jobs
    limits = [each for each in (tuning.max_runtime, paid_seconds) if each is not None]
    if limits:
        config["ResourceLimits"]["MaxRuntimeInSeconds"] = min(limits)
    if tuning.hyperband is not None:
        bounds = {"MinResource": tuning.hyperband.min_resource, "MaxResource": tuning.hyperband.max_resource}
        given = {key: value for key, value in bounds.items() if value is not None}
        config["StrategyConfig"] = {"HyperbandStrategyConfig": given}
    if tuning.random_seed is not None:
        config["RandomSeed"] = tuning.random_seed
    return config


def _parameter_ranges(tuning: Tuning) -> dict[str, list[dict[str, Any]]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for name, varied in tuning.ranges.items():
        key = f"{varied.kind.capitalize()}ParameterRanges"
        kinds.setdefault(key, []).append({"Name": name, **_parameter_range(varied)})
    return kinds


def _parameter_range(varied: Range) -> dict[str, Any]:
    """In the API's words: all values are texts, those of a list as the toolkit decodes them."""
    if varied.values is not None:
        return {"Values": [json_text(value) for value in varied.values]}
    return {
        "MinValue": str(varied.min),
        "MaxValue": str(varied.max),
        "ScalingType": _SCALING[varied.scaling],
    }


# The built request against the API model, at the job file's fields.
#
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
    for found in find_violations(operation, request):
        part = found.path or ()
        within = _split_training_path(part, request)[0]
        if (*within[:1], *within[-1:]) == _JUDGED_ELSEWHERE:
            continue
        path = job_file_path(part, request)
        field = dotted(path)
        yield replace(found, path=path, subject=field, remedy=f"Change `{field}`: {found.remedy}")


def job_file_path(path: Path, request: Mapping[str, Any]) -> Path:
    """The field of the job file that a part of the request comes from."""
    path, request = _split_training_path(path, request)
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


def _split_training_path(path: Path, request: Mapping[str, Any]) -> tuple[Path, Mapping[str, Any]]:
    """A place in what is said of each job, and that part of the request; others as they are."""
    if path and path[0] == _DEFINITION and _DEFINITION in request:
        return path[1:], request[_DEFINITION]
    return path, request


# What the API model says about a request: types, required keys, lengths, counts, patterns, enums. Patterns
# must match the whole value, as they do at the service.


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
}

_PRIVATE = {"Environment", "HyperParameters", "StaticHyperParameters"}

# Python's `re` lacks the Unicode and POSIX classes that two patterns of the model use.
_SEPARATORS = r" \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CLASSES = {
    r"\p{L}\p{Z}\p{N}": rf"\w{_SEPARATORS}",
    r"\p{Alnum}": "a-zA-Z0-9",
}


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def find_violations(operation: str, request: Mapping[str, Any]) -> Iterator[Finding]:
    """All constraints of an operation's model that the request breaks.

    `path` and `subject` are those of the request, by the API's key names; the remedy is what the API takes.
    """
    model = _api_model()
    yield from _check(request, model["operations"][operation], ())


def _check(value: Any, shape_name: str, path: Path) -> Iterator[Finding]:
    shape = _api_model()["shapes"][shape_name]
    kind = shape["type"]
    wanted = _TYPES.get(kind)
    if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and kind != "boolean")):
        yield _violation(path, f"is {type(value).__name__}", f"must be of type {kind}")
        return
    yield from _check_size(value, shape, path)
    if kind == "structure":
        yield from _check_members(value, shape, path)
    elif kind == "list":
        for index, item in enumerate(value):
            yield from _check(item, shape["member"], (*path, index))
    elif kind == "map":
        for key, item in value.items():
            yield from _check(key, shape["key"], (*path, key))
            yield from _check(item, shape["value"], (*path, key))
    elif kind == "string":
        yield from _check_text(value, shape, path)


def _check_members(value: Mapping[str, Any], shape: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    for name in shape["required"]:
        if name not in value:
            yield _violation((*path, name), "is missing", "is required")
    for name, item in value.items():
        if name not in shape["members"]:
            yield _violation((*path, name), "is unknown", f"known are {', '.join(sorted(shape['members']))}")
        else:
            yield from _check(item, shape["members"][name], (*path, name))


def _check_size(value: Any, shape: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    if isinstance(value, str):
        size, unit = len(value), " characters"
    elif isinstance(value, list | dict):
        size, unit = len(value), " entries"
    else:
        size, unit = value, ""
    if "min" in shape and size < shape["min"]:
        yield _violation(
            path, f"has {size}{unit}" if unit else f"is {size}", f"at least {shape['min']}{unit}"
        )
    if "max" in shape and size > shape["max"]:
        yield _violation(path, f"has {size}{unit}" if unit else f"is {size}", f"at most {shape['max']}{unit}")


def _check_text(value: str, shape: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    # Environment and hyperparameters may hold secrets, which no message may repeat.
    shown = "has this value" if _PRIVATE.intersection(path[:2]) else f"is {_shorten(value)!r}"
    if "enum" in shape and value not in shape["enum"]:
        near = nearest(value, shape["enum"], most=4, likeness=0.4) or shape["enum"][:12]
        yield _violation(
            path, shown, f"one of {', '.join(near)}{' ...' if len(near) < len(shape['enum']) else ''}"
        )
    if "pattern" in shape and not _compile_pattern(shape["pattern"]).fullmatch(value):
        yield _violation(path, shown, f"must have the form {shape['pattern']}")


def _violation(path: Path, problem: str, limit: str) -> Finding:
    message = f"{dotted(path)} of the request {problem}, and the service refuses that"
    return job_file.BREAKS_API_MODEL.at(path, message, remedy=f"{limit}.")


def _shorten(value: str) -> str:
    return value if len(value) <= 80 else f"{value[:77]}..."


@cache
def _compile_pattern(text: str) -> re.Pattern[str]:
    for ours, theirs in _CLASSES.items():
        text = text.replace(ours, theirs)
    return re.compile(text)


@cache
def _api_model() -> dict[str, Any]:
    return read_data_file(__file__, "api_model.json")
