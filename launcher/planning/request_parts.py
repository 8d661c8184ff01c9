"""The parts of a request that hold several things together: channels, checkpoints, options, a search.

Source of keys and defaults: SageMaker API reference, Channel, CheckpointConfig, CreateTrainingJob and
HyperParameterTuningJobConfig.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CODE_ARCHIVE_HYPERPARAMETER = "sagemaker_submit_directory"
"""Tells the images' training toolkit where the code lies (aws/sagemaker-training-toolkit, params.py)."""

MPI_PROCESSES_HYPERPARAMETER = "sagemaker_mpi_num_of_processes_per_host"
"""Tells the toolkit how many processes its MPI starts on a host (the same file)."""

ENTRY_POINT_OPTION = "--entry-point"
"""Tells the boot which script to start (`slipway/task.py`)."""

MODULE_OPTION = "--module"
"""Tells it which module to start instead (the same file)."""

ARGUMENT_STYLE_OPTION = "--argument-style"
"""Tells it how hyperparameters become words, where that is not `--name value` (the same file)."""

REQUIREMENTS_OPTION = "--requirements"
"""Tells the boot which file's packages to install first (`slipway/requirements.py`)."""

STALL_OPTION, FIRST_STEP_OPTION = "--watchdog-stall", "--watchdog-first-step"
"""Tell the boot for how many seconds no rank may make a step, `auto` or `off`, and before the first one (the
same file)."""

RESTARTS_OPTION = "--restarts"
"""Tells the boot how often it may start the ranks again (`slipway/restarts/causes.py`)."""

GATE_OPTION = "--gate"
"""Tells the boot what comes of a host that is not sound (`slipway/gate/verdict.py`)."""
CHECKPOINT_SYNC_OPTION = "--checkpoint-sync"
"""Tells it to copy checkpoints to their prefix by itself, with the value `slipway` (`slipway/uploads`)."""

PROCESSES_OPTION = "--processes-per-host"
"""Tells the boot how many processes to start on a host (the same file)."""


@dataclass(frozen=True, slots=True)
class S3Channel:
    """A channel that reads the objects below an S3 prefix."""

    name: str
    uri: str
    distribution: str = "FullyReplicated"
    mode: str = "File"


@dataclass(frozen=True, slots=True)
class FileSystemChannel:
    """A channel that mounts a directory of a file system; `access` is `ro` or `rw`.

    `directory` begins with the file system's mount name, as the API has it.
    """

    name: str
    file_system_id: str
    directory: str
    access: str = "ro"
    mode: str = "File"


RequestChannel = S3Channel | FileSystemChannel


@dataclass(frozen=True, slots=True)
class CheckpointPlaces:
    """Where a job's checkpoints go.

    `moved_by_service` is the prefix that SageMaker keeps equal to `local_path`, `moved_by_script` the one
    that only the container's environment names, for the boot or the script; each is None where there is
    none. `directory` is where the environment tells the script to write, None where it says nothing.
    """

    moved_by_service: str | None
    moved_by_script: str | None
    local_path: str
    directory: str | None

    @property
    def prefix(self) -> str | None:
        """Where they lie on S3, whoever moves them there."""
        return self.moved_by_service or self.moved_by_script


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What the service does for a job besides running it.

    `checks_hosts`: it tests the hosts and their network before it starts the script. `lets_a_shell_in`: a
    shell may be opened in the containers while the job runs. `is_isolated`: the containers reach nothing but
    each other. `encrypts_between_hosts`: the hosts encrypt what they send each other. `mlflow_arn` is the
    MLflow that the job belongs to, and `shares_ultra_servers` says whether other jobs may have hosts on its
    UltraServers; None where there is none.
    """

    checks_hosts: bool
    lets_a_shell_in: bool
    is_isolated: bool
    encrypts_between_hosts: bool
    mlflow_arn: str | None
    shares_ultra_servers: bool | None


@dataclass(frozen=True, slots=True)
class SearchedParameter:
    """A hyperparameter that a tuning job varies: among `values`, or from `minimum` to `maximum`.

    All are the API's texts; `scaling` is how a range is searched, such as `Logarithmic`.
    """

    name: str
    values: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    scaling: str = "Auto"


@dataclass(frozen=True, slots=True)
class Search:
    """What a tuning job does: `parallel` training jobs at a time, for at most `max_seconds` in all.

    `max_jobs` is None for a grid, which has no number of its own: it tries every combination of values.
    `goal` is Minimize or Maximize.
    """

    strategy: str
    goal: str
    metric: str
    parallel: int
    max_jobs: int | None
    max_seconds: int | None
    parameters: tuple[SearchedParameter, ...]

    @property
    def jobs(self) -> int:
        """How many training jobs there are in all."""
        return self.max_jobs or math.prod(len(each.values) for each in self.parameters if each.values)


def channels_in(described: Iterable[Mapping[str, Any]]) -> Iterator[RequestChannel]:
    """The channels of an InputDataConfig that read S3 or a file system, in its order."""
    for channel in described:
        name, mode = channel["ChannelName"], channel.get("InputMode", "File")
        source = channel["DataSource"]
        if "S3DataSource" in source:
            objects = source["S3DataSource"]
            distribution = objects.get("S3DataDistributionType", "FullyReplicated")
            yield S3Channel(name, objects["S3Uri"], distribution, mode)
        elif "FileSystemDataSource" in source:
            mount = source["FileSystemDataSource"]
            directory, access = mount.get("DirectoryPath", ""), mount.get("FileSystemAccessMode", "ro")
            yield FileSystemChannel(name, mount["FileSystemId"], directory, access, mode)


def options_in(training: Mapping[str, Any], resources: Mapping[str, Any]) -> ServiceOptions:
    """The options of a training job's request, by it and by its ResourceConfig."""
    placement = resources.get("InstancePlacementConfig")
    return ServiceOptions(
        checks_hosts=bool((training.get("InfraCheckConfig") or {}).get("EnableInfraCheck")),
        lets_a_shell_in=bool((training.get("RemoteDebugConfig") or {}).get("EnableRemoteDebug")),
        is_isolated=bool(training.get("EnableNetworkIsolation")),
        encrypts_between_hosts=bool(training.get("EnableInterContainerTrafficEncryption")),
        mlflow_arn=(training.get("MlflowConfig") or {}).get("MlflowResourceArn"),
        shares_ultra_servers=None if placement is None else bool(placement.get("EnableMultipleJobs")),
    )


def search_in(config: Mapping[str, Any]) -> Search:
    """What a HyperParameterTuningJobConfig makes a tuning job do."""
    objective, limits = config.get("HyperParameterTuningJobObjective", {}), config["ResourceLimits"]
    return Search(
        strategy=config.get("Strategy", ""),
        goal=objective.get("Type", ""),
        metric=objective.get("MetricName", ""),
        parallel=limits["MaxParallelTrainingJobs"],
        max_jobs=limits.get("MaxNumberOfTrainingJobs"),
        max_seconds=limits.get("MaxRuntimeInSeconds"),
        parameters=tuple(_parameters(config.get("ParameterRanges") or {})),
    )


def _parameters(ranges: Mapping[str, Any]) -> Iterator[SearchedParameter]:
    for each in (parameter for kind in ranges.values() for parameter in kind):
        if "Values" in each:
            yield SearchedParameter(each["Name"], values=tuple(each["Values"]))
        else:
            bounds = each["MinValue"], each["MaxValue"]
            yield SearchedParameter(each["Name"], (), *bounds, each.get("ScalingType", "Auto"))
