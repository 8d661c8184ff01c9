"""The parts of a request that hold several things together: channels, checkpoints, a search.

Source of keys and defaults: SageMaker API reference, Channel, CheckpointConfig and
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
"""Tells the boot which script to start (`slipway/boot.py`)."""

REQUIREMENTS_OPTION = "--requirements"
"""Tells the boot which file's packages to install first (`slipway/requirements.py`)."""

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
    that only the container's environment names; each is None where there is none. `directory` is where the
    environment tells the script to write, None where it says nothing.
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
