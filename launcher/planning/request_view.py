"""The one reader of a request: what it says of a job, typed, under the launcher's names.

The API nests a request two or three mappings deep and leaves out what is not set; everybody who wants to know
something of a job asks `RequestView` instead. It reads the request of CreateTrainingJob, that of
CreateHyperParameterTuningJob with the definition of the training jobs inside it, such a definition alone, and
the answer of DescribeTrainingJob or DescribeHyperParameterTuningJob, which have the same keys. The parts that
hold several things together (channels, checkpoints, options, a search) are small classes above it.

Source of keys and defaults: SageMaker API reference, Channel, CheckpointConfig, CreateTrainingJob,
CreateHyperParameterTuningJob and HyperParameterTuningJobConfig.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from launcher.frozen import frozen
from launcher.jobs.script_inputs import (
    CHECKPOINT_DIR_VARIABLE,
    CHECKPOINT_URI_VARIABLE,
    DEFAULT_CHECKPOINT_PATH,
    RESERVED_CHANNEL,
    SECRETS_VARIABLE,
)

Request = dict[str, Any]
"""A request, with the key names of the API."""

CODE_ARCHIVE_HYPERPARAMETER = "sagemaker_submit_directory"
"""Tells the images' training toolkit where the code lies (aws/sagemaker-training-toolkit, params.py)."""

MPI_PROCESSES_HYPERPARAMETER = "sagemaker_mpi_num_of_processes_per_host"
"""Tells the toolkit how many processes its MPI starts on a host (the same file)."""

ENTRY_POINT_OPTION = "--entry-point"
"""Tells the boot which script to start (`slipway/container.py`)."""

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
"""Tells the boot how often it may start the ranks again (`slipway/processes/restart_ranks.py`)."""

GATE_OPTION = "--gate"
"""Tells the boot what comes of a host that is not sound (`slipway/gate`)."""
EFA_OPTION = "--efa-interfaces"
"""Tells the boot how many EFA interfaces a host has, for the gate to count them (the same)."""
CHECKPOINT_SYNC_OPTION = "--checkpoint-sync"
"""Tells it to copy checkpoints to their prefix by itself, with the value `slipway` (`slipway/saving`)."""

PROCESSES_OPTION = "--processes-per-host"
"""Tells the boot how many processes to start on a host (the same file)."""


@frozen
class S3Channel:
    """A channel that reads the objects below an S3 prefix."""

    name: str
    uri: str
    distribution: str = "FullyReplicated"
    mode: str = "File"


@frozen
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


@frozen
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


@frozen
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


@frozen
class SearchedParameter:
    """A hyperparameter that a tuning job varies: among `values`, or from `minimum` to `maximum`.

    All are the API's texts; `scaling` is how a range is searched, such as `Logarithmic`.
    """

    name: str
    values: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    scaling: str = "Auto"


@frozen
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


BUDGET_VARIABLE = "SLIPWAY_BUDGET"
"""Holds a job's budget as JSON, so that whoever looks at the job knows what bounds it."""

MANAGED_VARIABLE = "SLIPWAY_MANAGED_RUN"
"""Holds `s3://BUCKET/runs/FIRST/attempt-N` in each attempt of a managed run, where its record goes: unlike
tags, a description of a job tells it."""


@frozen
class CostLimit:
    """What a job may cost, in US dollars: all its hosts (None: without bound), and one of them an hour."""

    max_usd: float | None
    usd_per_hour: float

    def seconds(self, hosts: int, keep_alive: int = 0) -> int | None:
        """How long it pays for so many hosts to run, in whole seconds, at least one, as the API demands.

        None without bound.

        A warm pool that is kept for `keep_alive` seconds after the run is billed like it (developer guide,
        train-warm-pools).
        """
        if self.max_usd is None:
            return None
        return max(1, int(self.max_usd / (self.usd_per_hour * hosts) * 3600) - keep_alive)

    def to_json(self) -> str:
        """The text of `BUDGET_VARIABLE`."""
        return json.dumps({"max_usd": self.max_usd, "usd_per_hour": self.usd_per_hour})


def budget_in(environment: Mapping[str, str]) -> CostLimit | None:
    """The budget that the environment of a request holds; None without one that makes sense."""
    try:
        given = json.loads(environment.get(BUDGET_VARIABLE, "null"))
        most, usd_per_hour = given["max_usd"], float(given["usd_per_hour"])
        budget = CostLimit(None if most is None else float(most), usd_per_hour)
    except (ValueError, TypeError, KeyError, OverflowError):
        return None  # Of a request that somebody else made.
    amounts = (1.0 if budget.max_usd is None else budget.max_usd, budget.usd_per_hour)
    return budget if all(0 < amount < math.inf for amount in amounts) else None


DEFAULT_MAX_RUNTIME_SECONDS = 86_400
"""MaxRuntimeInSeconds where the request has none (SageMaker API, StoppingCondition)."""

_PROCESSES = re.compile("[0-9]{1,6}")


@frozen
class RequestView:
    """What a request says of a job; of a tuning job, of each of its training jobs.

    Nothing is read before it is asked for, so that a part of a request will do for a part of the questions.
    What a request does not say is None, 0 or empty; only what the API demands of every request raises
    KeyError where it is missing.
    """

    request: Mapping[str, Any]

    @property
    def name(self) -> str | None:
        """The unique name; that of a tuning job begins the names of all its training jobs."""
        name = self.request.get("TrainingJobName") or self.request.get("HyperParameterTuningJobName")
        return None if name is None else str(name)

    @property
    def region(self) -> str | None:
        """Where the job is, by its ARN; None of a request, which goes to whoever it is sent to."""
        parts = str(self.request.get("TrainingJobArn", "")).split(":")
        return parts[3] if len(parts) > 4 else None

    @property
    def tags(self) -> dict[str, str]:
        """The values of the tags by their keys."""
        return {tag["Key"]: tag["Value"] for tag in self.request.get("Tags") or ()}

    @property
    def search(self) -> Search | None:
        """What a tuning job searches; None for a training job."""
        config = self.request.get("HyperParameterTuningJobConfig")
        return None if config is None else search_in(config)

    @property
    def jobs_at_once(self) -> int:
        """How many training jobs run beside each other."""
        return 1 if self.search is None else self.search.parallel

    @property
    def instance_type(self) -> str | None:
        """The hosts' type, such as `ml.p5.48xlarge`; None where there are several groups of hosts.

        Where the service chooses it is the type that it has chosen, before that the preferred one.
        """
        return next(iter(self.instance_types), None)

    @property
    def instance_types(self) -> tuple[str, ...]:
        """The types that the hosts may have, the preferred first; one, unless the service still chooses."""
        resources = self._resources
        known = resources.get("SelectedInstanceType") or resources.get("InstanceType")
        if known is not None:
            return (known,)
        return tuple(each["InstanceType"] for each in resources.get("InstancePreferences") or ())

    @property
    def hosts(self) -> int | None:
        """How many hosts there are, in all groups where there are groups; None where it is not said."""
        resources = self._resources
        groups = resources.get("InstanceGroups")
        if groups:
            return sum(int(group["InstanceCount"]) for group in groups)
        preferred = (resources.get("InstancePreferences") or [{}])[0]
        counts = (resources.get("SelectedInstanceCount"), resources.get("InstanceCount"))
        known = (int(count) for count in (*counts, preferred.get("InstanceCount")) if count is not None)
        return next(known, None)

    @property
    def processes_per_host(self) -> int | None:
        """The processes on each host, where the request names them for the boot or the toolkit's MPI."""
        count = self.boot_options.get(
            PROCESSES_OPTION, self.hyperparameters.get(MPI_PROCESSES_HYPERPARAMETER)
        )
        # Of a request that somebody else made; AWS takes texts only, and no host has a million processes.
        return int(count) if isinstance(count, str) and _PROCESSES.fullmatch(count) else None

    @property
    def keep_alive_seconds(self) -> int:
        """How long the hosts wait for another job after this one; 0 without a warm pool."""
        return int(self._resources.get("KeepAlivePeriodInSeconds") or 0)

    @property
    def volume_size_gb(self) -> int | None:
        """The volume of each host, in GB; None where it is not said, as where types are chosen from."""
        size = self._resources.get("VolumeSizeInGB")
        return None if size is None else int(size)

    @property
    def training_plan(self) -> str | None:
        """The ARN of the training plan whose hosts are used."""
        return self._resources.get("TrainingPlanArn")

    @property
    def is_spot(self) -> bool:
        """Whether the hosts are spot instances."""
        return bool(self.training.get("EnableManagedSpotTraining"))

    @property
    def max_runtime_seconds(self) -> int:
        """How long it may run, with all attempts of the service."""
        return int(self._limits.get("MaxRuntimeInSeconds", DEFAULT_MAX_RUNTIME_SECONDS))

    @property
    def budget(self) -> CostLimit | None:
        """What it may cost, where its job file says so (`limits.max_usd`)."""
        return budget_in(self.environment)

    @property
    def is_cut_by_budget(self) -> bool:
        """Whether it may run only for as long as its budget lasts, and not for `limits.max_runtime`."""
        if self.budget is None:
            return False
        paid = self.budget.seconds((self.hosts or 1) * self.jobs_at_once, self.keep_alive_seconds)
        limit = self.search.max_seconds if self.search is not None else self.max_runtime_seconds
        return paid is not None and limit == paid

    @property
    def max_wait_seconds(self) -> int | None:
        """How long it may wait for spot instances and run; None on demand."""
        return self._limits.get("MaxWaitTimeInSeconds")

    @property
    def max_retries(self) -> int:
        """How often the service starts it again after a fault of its own."""
        return int(self.training.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0))

    @property
    def options(self) -> ServiceOptions:
        """What the service does for it besides running it."""
        return options_in(self.training, self._resources)

    @property
    def image(self) -> str | None:
        """The image's URI; None where an algorithm is named instead."""
        return self._algorithm.get("TrainingImage")

    @property
    def entrypoint(self) -> tuple[str, ...]:
        """The container's command; empty where the image has its own."""
        return tuple(self._algorithm.get("ContainerEntrypoint") or ())

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the command: the boot's own options, two dashes, and those of the user."""
        return tuple(self._algorithm.get("ContainerArguments") or ())

    @property
    def boot_options(self) -> dict[str, str]:
        """The boot's own options, such as `--entry-point`: pairs up to the two dashes."""
        words = self.arguments
        own = words[: words.index("--")] if "--" in words else words
        return dict(zip(own[::2], own[1::2], strict=False))

    @property
    def metrics(self) -> dict[str, str]:
        """The metric definitions: name to regular expression."""
        return {each["Name"]: each["Regex"] for each in self._algorithm.get("MetricDefinitions") or ()}

    @property
    def role_arn(self) -> str:
        """The role that the hosts assume. Raises KeyError for a request without one."""
        return str(self.training["RoleArn"])

    @property
    def subnet_ids(self) -> tuple[str, ...]:
        """The subnets; the service places the job in any one of them. Empty without a VPC."""
        return tuple(self._network.get("Subnets") or ())

    @property
    def security_group_ids(self) -> tuple[str, ...]:
        """The security groups; every host has all of them. Empty without a VPC."""
        return tuple(self._network.get("SecurityGroupIds") or ())

    @property
    def channels(self) -> tuple[RequestChannel, ...]:
        """All channels that read S3 or a file system, the code among them, in the order of the request."""
        return tuple(channels_in(self.training.get("InputDataConfig") or ()))

    @property
    def inputs(self) -> tuple[RequestChannel, ...]:
        """The channels but for that of the code, which is filled when the job is submitted."""
        return tuple(each for each in self.channels if each.name != RESERVED_CHANNEL)

    @property
    def s3_inputs(self) -> tuple[S3Channel, ...]:
        """The inputs from S3."""
        return tuple(each for each in self.inputs if isinstance(each, S3Channel))

    @property
    def mounts(self) -> tuple[FileSystemChannel, ...]:
        """The inputs from a file system."""
        return tuple(each for each in self.inputs if isinstance(each, FileSystemChannel))

    @property
    def code_uri(self) -> str | None:
        """The prefix of the code's channel; None where the image's toolkit fetches the code by itself."""
        channels = (each for each in self.channels if isinstance(each, S3Channel))
        return next((each.uri for each in channels if each.name == RESERVED_CHANNEL), None)

    @property
    def code_archive(self) -> str | None:
        """The archive that the image's toolkit fetches; None where the code comes through its channel."""
        value = self.hyperparameters.get(CODE_ARCHIVE_HYPERPARAMETER, "")
        try:
            uri = json.loads(value)
        except ValueError:
            uri = value  # The SDK writes hyperparameters as JSON, others plainly.
        return uri if isinstance(uri, str) and uri.startswith("s3://") else None

    @property
    def output_uri(self) -> str | None:
        """The prefix that the service appends the job's name to, for the model and the output."""
        return self._output.get("S3OutputPath") or None

    @property
    def output_key(self) -> str | None:
        """The KMS key of the output."""
        return self._output.get("KmsKeyId") or None

    @property
    def volume_key(self) -> str | None:
        """The KMS key of the hosts' volumes."""
        return self._resources.get("VolumeKmsKeyId") or None

    @property
    def checkpoints(self) -> CheckpointPlaces:
        """Where checkpoints go, by whoever moves them."""
        moved = self.training.get("CheckpointConfig") or {}
        return CheckpointPlaces(
            moved_by_service=moved.get("S3Uri") or None,
            moved_by_script=self.environment.get(CHECKPOINT_URI_VARIABLE) or None,
            local_path=moved.get("LocalPath") or DEFAULT_CHECKPOINT_PATH,
            directory=self.environment.get(CHECKPOINT_DIR_VARIABLE) or None,
        )

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that every process gets."""
        return self.training.get("Environment") or {}

    @property
    def is_managed(self) -> bool:
        """Whether it is an attempt of a managed run (`launcher.planning.next_attempt.managed_attempt`)."""
        return MANAGED_VARIABLE in self.environment

    @property
    def secrets(self) -> dict[str, str]:
        """The variables whose values the boot fetches, each with the name or the ARN of its secret."""
        try:
            named = json.loads(self.environment.get(SECRETS_VARIABLE, "{}"))
        except ValueError:
            named = None  # Of a request that somebody else made.
        return {str(name): str(secret) for name, secret in named.items()} if isinstance(named, dict) else {}

    @property
    def hyperparameters(self) -> Mapping[str, str]:
        """The hyperparameters; of a tuning job those that it does not vary."""
        given = self.training.get("HyperParameters") or self.training.get("StaticHyperParameters")
        return given or {}

    @property
    def training(self) -> Mapping[str, Any]:
        """What describes a training job: of a tuning job its definition, else the whole."""
        part: Mapping[str, Any] = self.request.get("TrainingJobDefinition", self.request)
        return part

    @property
    def _algorithm(self) -> Mapping[str, Any]:
        return self.training.get("AlgorithmSpecification") or {}

    @property
    def _resources(self) -> Mapping[str, Any]:
        return self.training.get("ResourceConfig") or {}

    @property
    def _limits(self) -> Mapping[str, Any]:
        return self.training.get("StoppingCondition") or {}

    @property
    def _network(self) -> Mapping[str, Any]:
        return self.training.get("VpcConfig") or {}

    @property
    def _output(self) -> Mapping[str, Any]:
        return self.training.get("OutputDataConfig") or {}
