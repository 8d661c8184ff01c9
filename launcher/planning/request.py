"""The CreateTrainingJob request: built once, printed and sent as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.cluster.instances import InstanceFacts
from launcher.cluster.manifest import Lustre
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity
from launcher.jobs.checkpoint import CHECKPOINT_CHANNEL
from launcher.jobs.inputs import RESERVED_CHANNEL, Input
from launcher.jobs.resources import Resources
from launcher.jobs.specification import JobSpec
from launcher.planning.checkpoints import PlannedCheckpoints
from launcher.planning.debugger import PlannedDebugger
from launcher.planning.destination import Destination
from launcher.planning.service_options import placement_config, service_options
from launcher.planning.strategies.strategy import Entry
from launcher.planning.tags import job_tags
from launcher.planning.training_plan import Request


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
) -> Request:
    """The request for a job whose every derived part is given.

    The destination must have a file system where an input or the checkpoints ask for one. Without an
    `entry` the image's own toolkit starts the script, and fetches it by itself: there is no channel for
    the code then.
    """
    channels = [_channel(name, source, destination.lustre) for name, source in job.inputs.items()]
    if checkpoints is not None and checkpoints.lustre is not None:
        kept = Input(lustre=checkpoints.lustre, access="rw")
        channels.append(_channel(CHECKPOINT_CHANNEL, kept, destination.lustre))
    if entry is not None:
        channels.append(_s3_channel(RESERVED_CHANNEL, destination.code, "FullyReplicated", "File"))
    request: Request = {
        "TrainingJobName": job_name,
        "AlgorithmSpecification": _algorithm(job, image, entry),
        "RoleArn": destination.role_arn,
        "HyperParameters": dict(hyperparameters),
        "InputDataConfig": channels,
        "OutputDataConfig": _with_key({"S3OutputPath": f"{destination.output}/"}, "KmsKeyId", destination),
        "ResourceConfig": _resources(job, destination, facts),
        "StoppingCondition": _stopping(job),
        "Environment": dict(environment),
        "Tags": job_tags(job, destination.cluster_name),
        "CheckpointConfig": _checkpoints(checkpoints),
        **_debugger(debugger, destination),
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


def is_about_a_value(finding: Finding) -> bool:
    """Whether a value itself makes no sense, so that no request can hold it."""
    return finding.code == job_file.INVALID_VALUE.code and finding.severity is Severity.ERROR


def _algorithm(job: JobSpec, image: str, entry: Entry | None) -> dict[str, Any]:
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


def _checkpoints(checkpoints: PlannedCheckpoints | None) -> dict[str, str]:
    """SageMaker's own synchronisation with S3; empty where there is none, or others upload."""
    if checkpoints is None or checkpoints.s3_uri is None or not checkpoints.by_service:
        return {}
    return {"S3Uri": checkpoints.s3_uri, "LocalPath": checkpoints.local_path}


def _debugger(debugger: PlannedDebugger, destination: Destination) -> dict[str, Any]:
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


def _channel(name: str, source: Input, lustre: Lustre | None) -> dict[str, Any]:
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


def _resources(job: JobSpec, destination: Destination, facts: InstanceFacts | None) -> dict[str, Any]:
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


def _stopping(job: JobSpec) -> dict[str, int]:
    condition = {"MaxRuntimeInSeconds": job.limits.max_runtime}
    if job.resources.capacity.kind == "spot":
        condition["MaxWaitTimeInSeconds"] = job.limits.max_wait or 2 * job.limits.max_runtime
    return condition


def _with_key(config: dict[str, Any], name: str, destination: Destination) -> dict[str, Any]:
    return {**config, name: destination.kms_key_arn} if destination.kms_key_arn else config
