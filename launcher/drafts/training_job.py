"""A job file of a request: what the launcher, the SageMaker SDK or anybody else sent to create a job.

The reverse of `launcher.planning.request`. What the launcher itself adds (its settings, tags, the channel of
the code, options of the boot, instructions to the images' toolkit) is taken out again, so that a plan of the
file asks for the same. What a job file has no words for is a question, or named in the file's first comment.

Source of keys: SageMaker API reference, CreateTrainingJob and CreateHyperParameterTuningJob; of the
toolkit's: aws/sagemaker-training-toolkit, params.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.cluster.instances import instance_facts
from launcher.cluster.names import CLUSTER_TAG, MAX_NAME_LENGTH
from launcher.documents import AsWritten
from launcher.drafts.job_draft import DraftField, DraftQuestion, JobDraft
from launcher.frozen import frozen
from launcher.jobs.job_sections import FIRST_STEP_SECONDS, NO_REQUIREMENTS, Framework
from launcher.jobs.load_job import is_folder_name, is_given_to_script
from launcher.jobs.script_inputs import (
    CHECKPOINT_CHANNEL,
    CHECKPOINT_DIR_VARIABLE,
    CHECKPOINT_URI_VARIABLE,
    DEFAULT_CHECKPOINT_PATH,
    RESERVED_CHANNEL,
    SECRETS_VARIABLE,
    channel_folder,
)
from launcher.jobs.specification import JobSpec
from launcher.planning.finished_request import HOST_TOKEN_VARIABLE, base_of_name
from launcher.planning.image_choice import choose_image
from launcher.planning.images import image_software, parse_aws_image
from launcher.planning.request_view import (
    ARGUMENT_STYLE_OPTION,
    BUDGET_VARIABLE,
    CHECKPOINT_SYNC_OPTION,
    ENTRY_POINT_OPTION,
    FIRST_STEP_OPTION,
    GATE_OPTION,
    MANAGED_VARIABLE,
    MODULE_OPTION,
    REQUIREMENTS_OPTION,
    RESTARTS_OPTION,
    STALL_OPTION,
    FileSystemChannel,
    RequestView,
    SearchedParameter,
)
from launcher.planning.settings import CODE_DIGEST_VARIABLE, choose_settings
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import BOOT_ENTRYPOINT, MP_PARAMETERS
from launcher.planning.strategies.toolkit import COMPILER_HYPERPARAMETER
from launcher.planning.training_plan import PlannedCheckpoints
from launcher.source.packaging import SOURCE_NAME

Part = DraftField | DraftQuestion
_Parts = Iterator[Part]

_OUR_VARIABLES = frozenset(
    {
        BUDGET_VARIABLE,
        MANAGED_VARIABLE,
        SECRETS_VARIABLE,
        CODE_DIGEST_VARIABLE,
        HOST_TOKEN_VARIABLE,
        CHECKPOINT_URI_VARIABLE,
    }
)
"""What the launcher tells the boot and the container by the environment: other fields say it."""

_DRIVERS_CHANNEL = "sm_drivers"
"""The channel of the start scripts of the SageMaker SDK version 3 (sagemaker.train.constants, SM_DRIVERS)."""

_TOOLKIT_PREFIX = "sagemaker_"
"""How the hyperparameters begin that are for the images' toolkit."""

_OBJECTIVE_HYPERPARAMETER = "_tuning_objective_metric"
"""What a tuning job tells its training jobs besides (SageMaker developer guide, automatic-model-tuning)."""

_READ = frozenset(
    {
        "TrainingJobName", "HyperParameterTuningJobName", "HyperParameterTuningJobConfig",
        "TrainingJobDefinition", "AlgorithmSpecification", "RoleArn", "HyperParameters",
        "StaticHyperParameters", "InputDataConfig", "OutputDataConfig", "ResourceConfig", "VpcConfig",
        "StoppingCondition", "Environment", "Tags", "CheckpointConfig", "DebugHookConfig", "ProfilerConfig",
        "EnableManagedSpotTraining", "RetryStrategy", "InfraCheckConfig", "RemoteDebugConfig",
        "EnableNetworkIsolation", "EnableInterContainerTrafficEncryption", "MlflowConfig",
    }
)  # fmt: skip
"""The members of a request that have words in a job file."""

_SCALINGS = {
    "Auto": "auto",
    "Linear": "linear",
    "Logarithmic": "logarithmic",
    "ReverseLogarithmic": "reverse-logarithmic",
}


def draft_of_request(request: Mapping[str, Any], *, region: str, origin: str) -> JobDraft:
    """The job file of which the launcher would make this request, in a region.

    `request` is what creates a training job or a tuning job; a description without what only a description
    has does as well. `origin` says in a sentence where it comes from.
    """
    reading = _RequestReading(RequestView(request), region)
    parts = [
        DraftField(("name",), base_of_name(reading.view.name or "job")[:MAX_NAME_LENGTH].rstrip("-")),
        DraftField(("region",), region),
        *_owner(reading),
        *_code(reading),
        *_hyperparameters(reading),
        *_resources(reading),
        *_distribution(reading),
        *_channels(reading),
        *_checkpoint(reading),
        *_switches(reading),
        *_limits(reading),
        *_tuning(reading),
    ]
    environment = dict(_environment(reading))
    job = _spec([*parts, *_image(reading, None)])
    parts += _image(reading, job)
    if job is not None:
        profile, environment = _without_settings(reading, _spec(parts) or job, environment)
        if profile != "normal":
            parts.append(DraftField(("profile",), profile))
    parts += (DraftField(("environment", name), value) for name, value in environment.items())
    fields = [_escaped(each) for each in parts if isinstance(each, DraftField)]
    questions = tuple(each for each in parts if isinstance(each, DraftQuestion))
    return JobDraft(" ".join((origin, *_left_out(reading))), tuple(fields), questions)


@frozen
class _RequestReading:
    """A request that is read, and the region of its job."""

    view: RequestView
    region: str

    @property
    def starts_by_boot(self) -> bool:
        """Whether the launcher's boot starts the script."""
        return self.view.entrypoint == BOOT_ENTRYPOINT

    @property
    def toolkit(self) -> Mapping[str, Any]:
        """What the images' toolkit is told by hyperparameters, decoded; empty where the boot starts."""
        if self.starts_by_boot:
            return {}
        given = self.view.hyperparameters
        return {
            key: _decoded(text)
            for key, text in given.items()
            if key.startswith(_TOOLKIT_PREFIX) or key in (MP_PARAMETERS, _OBJECTIVE_HYPERPARAMETER)
        }

    @property
    def starts_by_toolkit(self) -> bool:
        """Whether the image's toolkit starts a script of the user's."""
        return not self.view.entrypoint and "sagemaker_program" in self.toolkit


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _owner(reading: _RequestReading) -> _Parts:
    """Whose the job is, where it stands in the network, and where its output goes."""
    view = reading.view
    cluster = view.tags.get(CLUSTER_TAG)
    if cluster is not None:
        yield DraftField(("cluster",), cluster)
    elif view.mounts:
        yield DraftQuestion(
            ("cluster",), f"which cluster has the file system {view.mounts[0].file_system_id}?", "dev"
        )
    elif view.output_key or view.volume_key:
        yield DraftQuestion(
            ("cluster",), f"which cluster has the key {view.output_key or view.volume_key}?", "dev"
        )
    yield DraftField(("role_arn",), view.role_arn)
    if view.subnet_ids:
        yield DraftField(("network", "subnets"), list(view.subnet_ids))
        yield DraftField(("network", "security_group_ids"), list(view.security_group_ids))
    if view.output_uri is not None:
        yield DraftField(("output", "s3_uri"), view.output_uri.rstrip("/"))
    for name, value in view.tags.items():
        if not name.startswith(("slipway:", "aws:", "sagemaker:")):
            yield DraftField(("tags", name), value)


# What runs: the code, its hyperparameters, its image, and how its processes are started.


def _code(reading: _RequestReading) -> _Parts:
    view, toolkit = reading.view, reading.toolkit
    if reading.starts_by_boot:
        options = view.boot_options
        comment = "the code of that job; your folder with it does as well"
        yield DraftField(("code", "source_dir"), f"{view.code_uri}/{SOURCE_NAME}", comment)
        for option, field in ((ENTRY_POINT_OPTION, "entry_point"), (MODULE_OPTION, "module")):
            if option in options:
                yield DraftField(("code", field), options[option])
        if ARGUMENT_STYLE_OPTION in options:
            yield DraftField(("code", "argument_style"), options[ARGUMENT_STYLE_OPTION])
        yield DraftField(("code", "requirements"), options.get(REQUIREMENTS_OPTION, NO_REQUIREMENTS))
        words = view.arguments[view.arguments.index("--") + 1 :] if "--" in view.arguments else ()
        if words:
            yield DraftField(("code", "arguments"), list(words))
        yield from _boot(reading)
    elif reading.starts_by_toolkit:
        archive = view.code_archive
        if archive is None:
            yield DraftQuestion(("code", "source_dir"), "in which folder is the code?", "src")
        else:
            comment = "the code of that job; your folder with it does as well"
            yield DraftField(("code", "source_dir"), archive, comment)
        yield DraftField(("code", "entry_point"), str(toolkit["sagemaker_program"]))
    else:
        command = " ".join((*view.entrypoint, *view.arguments)) or "what its image starts by itself"
        yield DraftQuestion(("code", "source_dir"), "in which folder is the code?", "src")
        yield DraftQuestion(("code", "entry_point"), f"which script? The job ran {command}", "train.py")


def _boot(reading: _RequestReading) -> _Parts:
    """What the boot is told besides the script, where it is not what every job gets."""
    options, several = reading.view.boot_options, (reading.view.hosts or 1) > 1
    if (gate := options.get(GATE_OPTION)) not in (None, "on" if several else "warn"):
        yield DraftField(("gate",), gate)
    stall = options.get(STALL_OPTION, "off")
    if stall == "off":
        yield DraftField(("watchdog",), "off")
    elif stall != "auto":
        yield DraftField(("watchdog", "stall"), int(stall))
    first_step = int(options.get(FIRST_STEP_OPTION, FIRST_STEP_SECONDS))
    if stall != "off" and first_step != FIRST_STEP_SECONDS:
        yield DraftField(("watchdog", "first_step"), first_step)
    if (restarts := int(options.get(RESTARTS_OPTION, "0"))) > 0:
        yield DraftField(("limits", "restarts"), restarts)


def _hyperparameters(reading: _RequestReading) -> _Parts:
    for name, text in reading.view.hyperparameters.items():
        if name in reading.toolkit or name == MP_PARAMETERS:
            continue
        value = _hyperparameter(text, as_json=not reading.starts_by_boot)
        if value is not None:
            yield DraftField(("hyperparameters", name), value)


def _hyperparameter(text: str, *, as_json: bool) -> Any:
    """The value of which a plan makes this text again; None for what a job file does not hand on."""
    value = _decoded(text)
    if value is None and as_json:
        return None
    if isinstance(value, str):
        return value if as_json else text
    if as_json and isinstance(value, list | dict):
        return value
    if json.dumps(value) == text and value is not None:
        return value
    return AsWritten(text) if as_json else text


def _image(reading: _RequestReading, job: JobSpec | None) -> list[Part]:
    """The image as it is; by the name of its framework where a plan of the job chooses the same one."""
    uri = reading.view.image
    if uri is None:
        return [DraftQuestion(("image",), "in which image? The job named an algorithm instead", "URI")]
    named = parse_aws_image(uri)
    if job is not None and named is not None:
        software = image_software(named.framework, named.version)
        name = "tensorflow" if named.framework == "tensorflow" else "pytorch"
        pythons = software.python if software else ()
        for python in (*pythons[-1:], *pythons[:-1], None):
            given = {"name": name, "version": named.version, **({"python": python} if python else {})}
            chosen = job.model_copy(update={"image": None, "framework": Framework.model_validate(given)})
            facts = instance_facts(job.resources.instance_type)
            if choose_image(chosen, facts, strategy_of(chosen), reading.region)[0] == uri:
                return [DraftField(("framework", key), value) for key, value in given.items()]
    return [DraftField(("image",), uri)]


def _distribution(reading: _RequestReading) -> _Parts:
    """How the processes were started: by the boot's options, or by what the toolkit was told."""
    view, toolkit = reading.view, reading.toolkit
    if reading.starts_by_boot:
        strategy = view.boot_options.get("--strategy", "none")
        options: dict[str, Any] = {}
        if MP_PARAMETERS in view.hyperparameters:
            strategy, options = "smp", {"parameters": _decoded(view.hyperparameters[MP_PARAMETERS])}
    elif reading.starts_by_toolkit:
        strategy, options = _by_toolkit(toolkit)
        if toolkit.get("sagemaker_parameter_server_enabled") is True:
            yield DraftQuestion(
                ("distribution", "strategy"), "which? The job ran parameter servers, which is none", "mpi"
            )
            return
    else:
        text = "how are its processes started? The request does not say"
        yield DraftQuestion(("distribution", "strategy"), text, "torchrun")
        return
    yield DraftField(("distribution", "strategy"), strategy)
    if options:
        yield DraftField(("distribution", "options"), options)
    facts = instance_facts(view.instance_type or "")
    processes = view.processes_per_host
    if strategy != "none" and processes not in (None, facts.processes_per_host if facts else None):
        yield DraftField(("distribution", "processes_per_host"), processes)


def _by_toolkit(told: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The strategy, and its options, that the hyperparameters for the images' toolkit mean."""
    mpi = str(told.get("sagemaker_mpi_custom_mpi_options") or "")
    mpi = mpi or str(told.get("sagemaker_distributed_dataparallel_custom_mpi_options") or "")
    options: dict[str, Any] = {"mpi_options": mpi} if mpi else {}
    if told.get(COMPILER_HYPERPARAMETER) is True:
        debug = told.get("sagemaker_training_compiler_debug_mode") is True
        return "torch_xla", {"debug": True} if debug else {}
    if told.get("sagemaker_mpi_enabled") is True:
        if MP_PARAMETERS in told:
            return "smp", {"version": 1, "parameters": told[MP_PARAMETERS], **options}
        return "mpi", options
    if MP_PARAMETERS in told:
        return "smp", {"parameters": told[MP_PARAMETERS]}
    if told.get("sagemaker_distributed_dataparallel_enabled") is True:
        return "smddp", options
    started = ("sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled")
    return "torchrun" if any(told.get(each) is True for each in started) else "none", {}


# Where it runs, what it reads, and what it keeps.


def _resources(reading: _RequestReading) -> _Parts:
    view, resources = reading.view, reading.view.training.get("ResourceConfig") or {}
    types = view.instance_types
    if resources.get("InstanceGroups"):
        yield DraftQuestion(
            ("resources", "instance_type"),
            "which? The job had several groups of hosts, and those of a job file are all alike",
            "ml.p4d.24xlarge",
        )
    for each in types[:1]:
        yield DraftField(("resources", "instance_type"), each)
    if len(types) > 1:
        yield DraftField(("resources", "instance_types"), list(types[1:]))
        yield DraftField(("resources", "instance_choice"), "service")
    yield DraftField(("resources", "instance_count"), view.hosts or 1)
    if view.volume_size_gb is not None:
        yield DraftField(("resources", "volume_size_gb"), view.volume_size_gb)
    if view.training_plan is not None:
        yield DraftField(("resources", "capacity"), {"training_plan": view.training_plan})
    elif view.is_spot:
        yield DraftField(("resources", "capacity"), "spot")
    if view.keep_alive_seconds:
        yield DraftField(("resources", "keep_alive"), view.keep_alive_seconds)
    placement = resources.get("InstancePlacementConfig")
    if placement is not None:
        yield DraftField(("resources", "placement", "share"), bool(placement.get("EnableMultipleJobs")))
        together = [
            {
                **({"ultra_server": each["UltraServerId"]} if each.get("UltraServerId") else {}),
                "instance_count": each.get("InstanceCount", 1),
            }
            for each in placement.get("PlacementSpecifications") or ()
        ]
        if together:
            yield DraftField(("resources", "placement", "together"), together)


_ONLY_IN_REQUESTS = ("ShuffleConfig", "RecordWrapperType", "CompressionType")


def _channels(reading: _RequestReading) -> _Parts:
    """The inputs; of what the SDK ships by channels nothing."""
    algorithm = reading.view.training.get("AlgorithmSpecification") or {}
    raw = {each["ChannelName"]: each for each in reading.view.training.get("InputDataConfig") or ()}
    starts_otherwise = not reading.starts_by_boot and _DRIVERS_CHANNEL in raw
    for name, member in raw.items():
        if name == RESERVED_CHANNEL and (reading.starts_by_boot or starts_otherwise):
            continue
        if name == _DRIVERS_CHANNEL or (name == CHECKPOINT_CHANNEL and _lustre_checkpoints(reading)):
            continue
        yield from _channel(name, member, member.get("InputMode") or algorithm.get("TrainingInputMode"))


def _channel(name: str, member: Mapping[str, Any], mode: str | None) -> _Parts:
    source = member.get("DataSource") or {}
    path, objects = ("inputs", name), source.get("S3DataSource") or {}
    for key in _ONLY_IN_REQUESTS:
        if member.get(key) not in (None, "None"):
            yield DraftQuestion(
                path, f"does the script need {key} {json.dumps(member[key])}? No job file has it"
            )
    if objects.get("S3DataType", "S3Prefix") != "S3Prefix":
        text = f"which prefix? The job read the {objects['S3DataType']} {objects.get('S3Uri')}"
        yield DraftQuestion(path, text, "s3://BUCKET/PREFIX")
    elif objects:
        distribution = objects.get("S3DataDistributionType", "FullyReplicated")
        given = {
            **({"distribution": distribution} if distribution != "FullyReplicated" else {}),
            **({"mode": mode} if mode not in (None, "File") else {}),
        }
        uri = objects["S3Uri"]
        yield DraftField(path, {"s3_uri": uri, **given} if given else uri)
    elif (mount := source.get("FileSystemDataSource")) and mount.get("FileSystemType") == "FSxLustre":
        access = mount.get("FileSystemAccessMode", "ro")
        below = path_below_mount(mount.get("DirectoryPath", ""))
        yield DraftField(path, {"lustre": below, **({"access": access} if access != "ro" else {})})
    else:
        kinds = " or ".join(source) or "nothing"
        yield DraftQuestion(path, f"from where? The job read {kinds}", "s3://BUCKET/PREFIX")


def path_below_mount(directory: str) -> str:
    """A directory of a file system as job files have it: without the mount name, which begins it."""
    return f"/{directory.strip('/').partition('/')[2]}"


def _lustre_checkpoints(reading: _RequestReading) -> FileSystemChannel | None:
    """The mount that holds the checkpoints, where the launcher made one for them."""
    directory = reading.view.environment.get(CHECKPOINT_DIR_VARIABLE, "")
    if not directory.startswith(f"{channel_folder(CHECKPOINT_CHANNEL)}/"):
        return None
    return next((each for each in reading.view.mounts if each.name == CHECKPOINT_CHANNEL), None)


def _checkpoint(reading: _RequestReading) -> _Parts:
    places, name = reading.view.checkpoints, reading.view.name or ""
    mount = _lustre_checkpoints(reading)
    if mount is not None:
        yield DraftField(("checkpoint", "lustre"), path_below_mount(mount.directory))
        return
    uri = places.prefix
    if uri is None:
        return
    base = uri.rstrip("/").removesuffix(f"/{name}")
    changed = "" if base != uri.rstrip("/") else "each job gets a prefix of its own below it"
    yield DraftField(("checkpoint", "s3_uri"), base, changed)
    local = places.local_path if places.moved_by_service else places.directory or places.local_path
    if local != DEFAULT_CHECKPOINT_PATH:
        yield DraftField(("checkpoint", "local_path"), local)
    if CHECKPOINT_SYNC_OPTION in reading.view.boot_options or places.moved_by_service is None:
        yield DraftField(("checkpoint", "sync"), "slipway")


# What is switched on, how long it may run, and what is searched.


def _switches(reading: _RequestReading) -> _Parts:
    view = reading.view
    for path, on in (
        (("network", "isolation"), view.options.is_isolated),
        (("network", "encryption"), view.options.encrypts_between_hosts),
        (("resources", "infra_check"), view.options.checks_hosts),
        (("debug", "remote"), view.options.lets_a_shell_in),
        (("debugger",), bool(view.training.get("DebugHookConfig"))),
    ):
        if on:
            yield DraftField(path, True)
    mlflow = view.training.get("MlflowConfig") or {}
    for key, field in (
        ("MlflowResourceArn", "arn"),
        ("MlflowExperimentName", "experiment"),
        ("MlflowRunName", "run"),
    ):
        if mlflow.get(key):
            yield DraftField(("mlflow", field), mlflow[key])
    objective = _objective_in_metrics(reading)
    for name, regex in view.metrics.items():
        if name != objective:
            yield DraftField(("metrics", name), regex)
    for name, secret in view.secrets.items():
        yield DraftField(("secrets", name), secret)


def _objective_in_metrics(reading: _RequestReading) -> str | None:
    """The metric that `tuning.objective` tells: the last one, which is where a plan puts it."""
    search, metrics = reading.view.search, [*reading.view.metrics]
    return search.metric if search is not None and metrics[-1:] == [search.metric] else None


def _limits(reading: _RequestReading) -> _Parts:
    view = reading.view
    yield DraftField(("limits", "max_runtime"), view.max_runtime_seconds)
    if view.max_wait_seconds is not None:
        yield DraftField(("limits", "max_wait"), view.max_wait_seconds)
    if view.max_retries:
        yield DraftField(("limits", "max_retries"), view.max_retries)
    if view.budget is not None:
        if view.budget.max_usd is not None:
            yield DraftField(("limits", "max_usd"), view.budget.max_usd)
        yield DraftField(("limits", "usd_per_hour"), view.budget.usd_per_hour)


def _tuning(reading: _RequestReading) -> _Parts:
    search, config = reading.view.search, reading.view.request.get("HyperParameterTuningJobConfig") or {}
    if search is None:
        return
    yield DraftField(("tuning", "objective", "metric"), search.metric)
    yield DraftField(("tuning", "objective", "goal"), search.goal.lower())
    if (name := _objective_in_metrics(reading)) is not None:
        yield DraftField(("tuning", "objective", "regex"), reading.view.metrics[name])
    kinds = config.get("ParameterRanges") or {}
    integers = {each["Name"] for each in kinds.get("IntegerParameterRanges") or ()}
    for each in search.parameters:
        yield DraftField(("tuning", "ranges", each.name), _range(each, each.name in integers))
    yield DraftField(("tuning", "strategy"), search.strategy)
    yield DraftField(("tuning", "parallel"), search.parallel)
    for key, value in (("max_jobs", search.max_jobs), ("max_runtime", search.max_seconds)):
        if value is not None:
            yield DraftField(("tuning", key), value)
    if config.get("TrainingJobEarlyStoppingType") == "Auto":
        yield DraftField(("tuning", "early_stopping"), True)
    hyperband = (config.get("StrategyConfig") or {}).get("HyperbandStrategyConfig") or {}
    for key, field in (("MinResource", "min_resource"), ("MaxResource", "max_resource")):
        if key in hyperband:
            yield DraftField(("tuning", "hyperband", field), hyperband[key])
    if "RandomSeed" in config:
        yield DraftField(("tuning", "random_seed"), config["RandomSeed"])


def _range(searched: SearchedParameter, is_integer: bool) -> Any:
    if searched.values:
        return [_hyperparameter(each, as_json=True) for each in searched.values]
    scaling = _SCALINGS.get(searched.scaling, "auto")
    return {
        "min": AsWritten(searched.minimum),
        "max": AsWritten(searched.maximum),
        "type": "integer" if is_integer else "continuous",
        **({"scaling": scaling} if scaling != "auto" else {}),
    }


# The environment without what every plan puts there.


def _environment(reading: _RequestReading) -> Iterator[tuple[str, str]]:
    view = reading.view
    ours = f"{channel_folder(CHECKPOINT_CHANNEL)}/{view.name}"
    if _lustre_checkpoints(reading) is None:
        ours = view.checkpoints.local_path if view.checkpoints.moved_by_service else ""
        ours = ours or view.checkpoints.directory or ""
    for name, value in view.environment.items():
        if name not in _OUR_VARIABLES and (name, value) != (CHECKPOINT_DIR_VARIABLE, ours):
            yield name, value


def _without_settings(
    reading: _RequestReading, job: JobSpec, environment: dict[str, str]
) -> tuple[str, dict[str, str]]:
    """The profile of the job, and its environment without the settings that a plan of it makes."""
    facts = instance_facts(job.resources.instance_type)
    strategy = strategy_of(job)
    named = parse_aws_image(reading.view.image or "")
    software = image_software(named.framework, named.version) if named is not None else None
    places = reading.view.checkpoints
    for profile in ("debug", "normal"):
        chosen = choose_settings(
            job.model_copy(update={"profile": profile, "secrets": {}}),
            facts,
            strategy.processes_per_host(job, facts) or 1,
            with_boot=strategy.with_boot,
            source_digest=None,
            checkpoints=PlannedCheckpoints(DEFAULT_CHECKPOINT_PATH, places.prefix, by_service=True),
            software=software,
        )
        made = {each.name: each.value for each in chosen}
        if profile == "normal" or made.items() <= environment.items():
            return profile, {key: value for key, value in environment.items() if made.get(key) != value}
    raise AssertionError


def _spec(parts: list[Part]) -> JobSpec | None:
    """The job of some fields; None where they make none yet."""
    fields = tuple(_escaped(each) for each in parts if isinstance(each, DraftField))
    try:
        return JobSpec.model_validate(JobDraft("", fields).data())
    except ValueError:
        return None


def _left_out(reading: _RequestReading) -> Iterator[str]:
    """What the request has and the file has no words for, in a sentence."""
    lost = sorted(key for key, value in reading.view.training.items() if key not in _READ and value)
    if lost:
        yield f"Left out, as job files have no words for it: {', '.join(lost)}."


_REFERENCE = re.compile(r"\$\{([^{}]*+)\}")


def _escaped(field: DraftField) -> DraftField:
    """The field so that nothing in its texts is taken for a variable of whoever launches."""

    def escaped(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: escaped(item) for key, item in value.items()}
        if isinstance(value, list):
            return [escaped(item) for item in value]
        if not isinstance(value, str) or "${" not in value:
            return value
        return _REFERENCE.sub(lambda found: found[0] if is_kept(found[1]) else f"${found[0]}", value)

    def is_kept(name: str) -> bool:
        return is_given_to_script(field.path) and is_folder_name(name)

    return DraftField(field.path, escaped(field.value), field.comment, field.line)
