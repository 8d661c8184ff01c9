"""`JobSpec`: the job file's schema, parser and documentation in one.

Every field is declared once, here. The JSON schema, the documentation and the error messages come
from these models. Cross-field judgement that needs facts (instances, clusters, images) belongs to
the rules and the plan; only what a field means by itself is checked here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from launcher.cluster.names import MAX_NAME_LENGTH
from launcher.documents import OF_THE_API, AsWritten, field_error, is_null
from launcher.failure_modes import sources
from launcher.failure_modes.model import Figure, Path
from launcher.failure_modes.registry import CATALOGUE
from launcher.jobs.job_sections import (
    Channel,
    ChannelName,
    Checkpoint,
    Code,
    Debug,
    Framework,
    Input,
    Ladder,
    Mlflow,
    Network,
    Resources,
    Slurm,
    Watchdog,
    WatchdogLimits,
)
from launcher.jobs.script_inputs import CHECKPOINT_CHANNEL, RESERVED_CHANNEL, SECRETS_VARIABLE
from launcher.jobs.tuning import Tuning, check_tuning_section
from launcher.jobs.values import (
    Duration,
    MetricName,
    MetricRegex,
    Part,
    RoleArn,
    S3Uri,
    ScalarText,
    SecretId,
    SecretVariable,
    Size,
    check_secrets,
)
from launcher.text.values import nearest

FIGURES = (Figure("28", "days of MaxRuntimeInSeconds, at most", sources.TRAINING_JOB_API),)

AS_WRITTEN: tuple[Path, ...] = (
    ("environment", "*"),
    ("hyperparameters", "*"),
    ("tags", "*"),
    ("code", "arguments", "*"),
    ("ladder", "few_steps", "*"),
    ("ladder", "synthetic", "*"),
    ("framework", "version"),
    ("tuning", "ranges", "*", "*"),
    ("tuning", "ranges", "*", "values", "*"),
)
"""Where unquoted numbers and booleans keep the text that the user wrote."""


class Strategy(StrEnum):
    """How the processes of a job find each other."""

    TORCHRUN = "torchrun"
    SMDDP = "smddp"
    SMP = "smp"
    MPI = "mpi"
    TORCH_XLA = "torch_xla"
    NONE = "none"


class Distribution(Part):
    """How processes are started and connected."""

    strategy: Strategy = Field(Strategy.NONE, description="How the processes of the job are started.")
    processes_per_host: int | None = Field(None, ge=1, description="Default: the host's accelerators.")
    options: dict[str, Any] = Field({}, description="Options of the strategy.")

    @property
    def smp_version(self) -> Literal[1, 2] | None:
        """Which of the two model parallel libraries: 2 unless the options say 1; None without smp."""
        if self.strategy is not Strategy.SMP:
            return None
        return 1 if str(self.options.get("version")) == "1" else 2


class Model(Part):
    """What is trained; lets the plan judge memory and storage."""

    parameters: float = Field(gt=0, allow_inf_nan=False, description="Number of parameters, such as 13e9.")


class Data(Part):
    """What it is trained on; lets the plan judge even batches and storage."""

    samples: int | None = Field(None, ge=1, description="Samples in the training set.")
    batch_size: int | None = Field(None, ge=1, description="Samples per step and process.")
    size: Size | None = Field(None, description="Size of the training set, such as 2TB.")


def _seconds_forms(schema: dict[str, Any]) -> None:
    """Both limits may also be given in seconds, as the API names them."""
    for name in ("max_runtime", "max_wait"):
        seconds = {"type": "integer", "minimum": 1, "description": f"{name}, in seconds."}
        schema["properties"][f"{name}_seconds"] = seconds


class Limits(Part):
    """What the job may use up: time, waiting included, money, attempts, and starts of its ranks in each."""

    model_config = ConfigDict(json_schema_extra=_seconds_forms)

    max_runtime: Annotated[Duration, OF_THE_API] = Field(
        86_400, ge=1, le=2_419_200, description="At most 28 days."
    )
    max_wait: Duration | None = Field(None, ge=1, description="Waiting and running, spot only.")
    max_retries: int = Field(0, ge=0, le=30, description="Retries after a failure that may pass.")
    restarts: int = Field(
        0, ge=0, le=1000, description="Starts of the ranks after the first, in the same job, by cause."
    )
    max_usd: float | None = Field(
        None, ge=0.01, allow_inf_nan=False, description="What all attempts may cost together, in US dollars."
    )
    usd_per_hour: float | None = Field(
        None,
        ge=0.0001,
        allow_inf_nan=False,
        description="What a host costs an hour, in US dollars, where the launcher knows no price.",
    )

    @model_validator(mode="before")
    @classmethod
    def _seconds(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        value = dict(value)
        for name in ("max_runtime", "max_wait"):
            if f"{name}_seconds" in value:
                if name in value:
                    raise ValueError(f"give one of {name} and {name}_seconds, not both")
                value[name] = value.pop(f"{name}_seconds")
        return value


class Output(Part):
    """Where the model and what the script leaves in /opt/ml/output/data go."""

    s3_uri: S3Uri = Field(description="s3://bucket/prefix")


def _none_is_no_cluster(value: Any) -> Any:
    return None if value == "none" else value


class JobSpec(Part):
    """A training job as its user describes it."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = {
        "job_name": "name",
        "base_job_name": "name",
        "role": "role_arn",
        "image_uri": "image",
        "training_image": "image",
        "framework_version": "framework.version",
        "pytorch_version": "framework.version",
        "py_version": "framework.python",
        "script": "code.entry_point",
        "source_code": "code",
        "volume_size": "resources.volume_size_gb",
        "volume_size_in_gb": "resources.volume_size_gb",
        "keep_alive_period_in_seconds": "resources.keep_alive",
        "use_spot_instances": "resources.capacity: spot",
        "enable_managed_spot_training": "resources.capacity: spot",
        "compute": "resources",
        "max_run": "limits.max_runtime",
        "max_runtime_in_seconds": "limits.max_runtime_seconds",
        "max_runtime_seconds": "limits.max_runtime_seconds",
        "max_wait_time_in_seconds": "limits.max_wait_seconds",
        "max_wait_seconds": "limits.max_wait_seconds",
        "output_path": "output.s3_uri",
        "checkpoint_s3_uri": "checkpoint.s3_uri",
        "checkpoint_local_path": "checkpoint.local_path",
        "metric_definitions": "metrics",
        "env": "environment",
        "input_data_config": "inputs",
        "channels": "inputs",
        "encrypt_inter_container_traffic": "network.encryption",
        "enable_network_isolation": "network.isolation",
        "nproc_per_node": "distribution.processes_per_host",
        "nnodes": "resources.instance_count",
    }
    """The SageMaker SDK's names, those of its API in small letters, and torchrun's."""

    name: Annotated[str, OF_THE_API] = Field(
        pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*$",
        max_length=MAX_NAME_LENGTH,
        description="Base of the job's unique name: letters, digits and hyphens.",
    )
    cluster: Annotated[str | None, BeforeValidator(_none_is_no_cluster)] = Field(
        None, description="A provisioned cluster's name, or a manifest's path; none: no cluster."
    )
    role_arn: Annotated[RoleArn | None, OF_THE_API] = Field(
        None, description="Execution role; default: the cluster's."
    )
    network: Network = Field(Network(), description="Default: the cluster's.")
    region: str | None = Field(None, pattern=r"^[a-z]{2,4}(-[a-z]+)+-\d+$", description="Such as us-west-2.")
    code: Code = Field(examples=[{"source_dir": "src", "entry_point": "train.py"}])
    framework: Framework | None = None
    image: str | None = Field(None, description="Image URI, instead of framework.")
    hyperparameters: dict[str, Any] = Field(
        {}, description="Passed to the script as `code.argument_style` says; null: not passed at all."
    )
    resources: Resources = Field(examples=[{"instance_type": "ml.p5.48xlarge", "instance_count": 2}])
    distribution: Distribution = Distribution()
    inputs: Annotated[dict[ChannelName, Channel], OF_THE_API] = Field(
        {}, description="Input channels, by name."
    )
    checkpoint: Checkpoint | None = None
    model: Model | None = None
    data: Data | None = None
    debugger: bool = Field(False, description="SageMaker Debugger; off where it would break the job.")
    profile: Literal["normal", "debug"] = Field(
        "normal", description="debug: verbose NCCL, and checks that slow the training down."
    )
    debug: Debug = Debug()
    mlflow: Mlflow | None = None
    environment: dict[str, ScalarText] = Field({}, description="Environment of every process.")
    secrets: dict[SecretVariable, SecretId] = Field(
        {},
        description="Variables of the script whose values are secrets: the name or the ARN of each in AWS "
        "Secrets Manager.",
    )
    metrics: Annotated[dict[MetricName, MetricRegex], OF_THE_API] = Field(
        {}, max_length=40, description="What is read from the log: a regex with one group, by name."
    )
    tuning: Tuning | None = None
    ladder: Ladder | None = None
    watchdog: Watchdog = Field(
        WatchdogLimits(), description="When the ranks are asked who stalls the job; off: never."
    )
    gate: Literal["off", "warn", "on"] | None = Field(
        None,
        description="What comes of a host that is not sound before the ranks start; on: the job ends. "
        "Default: on with several hosts, warn with one.",
    )
    limits: Limits = Limits()
    output: Output | None = None
    backend: Literal["sagemaker", "slurm"] = Field(
        "sagemaker",
        description="Where the job runs; `launch --slurm` and `launch --local` choose for one run.",
    )
    slurm: Slurm | None = Field(
        None, examples=[{"partition": "train", "shared": "/fsx/alice", "python": "/fsx/alice/venv"}]
    )
    tags: Annotated[dict[str, ScalarText], OF_THE_API] = Field(
        {}, max_length=50, description="Tags of the training job."
    )
    ignore: list[str] = Field([], description="Codes of findings accepted on purpose.")

    def resolved(self, processes_per_host: int | None) -> dict[str, Any]:
        """The job in its own keys, with the processes per host filled in where they are known."""
        fields = self.model_dump(mode="json", exclude_none=True)
        if processes_per_host is not None:
            fields["distribution"]["processes_per_host"] = processes_per_host
        return fields

    def without_service(self) -> JobSpec:
        """The job as it is on hosts that no service of AWS hands out.

        Left are what is run, with which settings, for how long, and the names of its inputs and checkpoints;
        where these lie is another section's matter, but for checkpoints that the boot copies to S3.
        """
        folders = self.slurm.inputs if self.slurm else {}
        # Kept wherever the run lies, whether the file speaks of them or not.
        checkpoint = self.checkpoint or Checkpoint()
        return self.model_copy(
            update={
                "cluster": None,
                "role_arn": None,
                "network": Network(),
                "output": None,
                "debugger": False,
                "debug": Debug(),
                "mlflow": None,
                "resources": Resources(
                    instance_type=self.resources.instance_type, instance_count=self.resources.instance_count
                ),
                "inputs": {
                    **dict.fromkeys(folders, _FROM_FOLDER),
                    **dict.fromkeys(self.inputs, _FROM_FOLDER),
                },
                "checkpoint": checkpoint.model_copy(
                    update={
                        "s3_uri": checkpoint.s3_uri if checkpoint.sync == "slipway" else None,
                        "lustre": None,
                    }
                ),
            }
        )

    @property
    def all_metrics(self) -> dict[str, str]:
        """The metrics with the objective of a tuning job among them: regular expressions by name."""
        objective = self.tuning.objective if self.tuning else None
        own = {objective.metric: objective.regex} if objective and objective.regex else {}
        return {**self.metrics, **own}

    @property
    def may_start_again(self) -> bool:
        """Whether the job is started again by itself: after an interruption of spot capacity, by retries."""
        return self.resources.capacity.kind == "spot" or self.limits.max_retries > 0

    @property
    def mounts_lustre(self) -> bool:
        """Whether the hosts mount the cluster's file system, for an input or for checkpoints."""
        for_checkpoints = self.checkpoint is not None and self.checkpoint.lustre is not None
        return for_checkpoints or any(source.lustre is not None for source in self.inputs.values())

    @field_validator("hyperparameters")
    @classmethod
    def _texts(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {key: _hyperparameter(item) for key, item in value.items() if not is_null(item)}

    @field_validator("environment")
    @classmethod
    def _not_the_boots(cls, value: dict[str, str]) -> dict[str, str]:
        if SECRETS_VARIABLE in value:
            raise field_error(
                f"{SECRETS_VARIABLE} is how the launcher tells the boot of secrets",
                remedy="Name the secrets in `secrets`.",
                below=(SECRETS_VARIABLE,),
            )
        return value

    @field_validator("secrets")
    @classmethod
    def _free_variables(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        check_secrets(value, info.data.get("environment", {}))
        return value

    @field_validator("inputs")
    @classmethod
    def _free_channels(cls, value: dict[str, Input]) -> dict[str, Input]:
        if RESERVED_CHANNEL in value:
            raise ValueError("the channel `code` carries the source of the job; give yours another name")
        return value

    @field_validator("checkpoint")
    @classmethod
    def _free_channel(cls, value: Checkpoint | None, info: ValidationInfo) -> Checkpoint | None:
        if (
            value is not None
            and value.lustre is not None
            and CHECKPOINT_CHANNEL in info.data.get("inputs", {})
        ):
            raise field_error(
                f"it is mounted as the channel `{CHECKPOINT_CHANNEL}`, and `inputs` has one of that name",
                remedy=f"Rename the channel `inputs.{CHECKPOINT_CHANNEL}`, or remove one of the two.",
                below=("lustre",),
            )
        return value

    @field_validator("tuning")
    @classmethod
    def _fits_the_job(cls, value: Tuning | None, info: ValidationInfo) -> Tuning | None:
        # A field that is wrong itself is missing here, and was reported already.
        if value is not None and "hyperparameters" in info.data and "metrics" in info.data:
            check_tuning_section(value, info.data["hyperparameters"], info.data["metrics"])
        return value

    @field_validator("ignore")
    @classmethod
    def _known_codes(cls, value: list[str]) -> list[str]:
        for code in value:
            if code not in CATALOGUE:
                near = nearest(code.upper(), list(CATALOGUE))
                raise ValueError(
                    f"{code!r} is not the code of a failure mode"
                    + (f"; did you mean {near[0]}?" if near else "")
                )
        return value

    @model_validator(mode="after")
    def _slurm_is_described(self) -> JobSpec:
        if self.backend == "slurm" and self.slurm is None:
            raise field_error(
                "the job is to run on Slurm, and `slurm` does not say where: its files need a folder that "
                "all nodes see",
                remedy="Add `slurm: {shared: /FOLDER, python: /FOLDER/venv}`, and what else the cluster asks "
                "for.",
                below=("slurm",),
            )
        if (
            self.backend == "slurm"
            and self.slurm is not None
            and self.cluster is None
            and "shared" not in self.slurm.model_fields_set
        ):
            raise field_error(
                "the job is to run on Slurm, and `slurm.shared` does not say in which folder its files lie",
                remedy="Add `shared: /FOLDER`, which all nodes see, or `cluster` where one has `hyperpod`.",
                below=("slurm",),
            )
        return self

    @model_validator(mode="after")
    def _one_image(self) -> JobSpec:
        if self.framework is None and self.image is None:
            raise field_error(
                "neither framework nor image is given: there is no container to run in",
                remedy="Add `framework: {name: pytorch}`, which takes the newest image that AWS patches and "
                "that runs the job, or `image` with the URI of your own.",
            )
        if self.framework is not None and self.image is not None:
            raise field_error(
                "both framework and image are given, and a job runs in one container",
                remedy="Keep `framework` for an image of AWS, or `image` for one of your own.",
                below=("image",),
            )
        return self


_FROM_FOLDER = Input(s3_uri="s3://placeholder/folder")
"""An input of which only its name counts."""


def job_schema() -> dict[str, Any]:
    """JSON Schema 2020-12 of a job file, as people write it."""
    schema = JobSpec.model_json_schema(mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Slipway job file"}


def _hyperparameter(value: Any) -> Any:
    """Text for scalars (as written, or as JSON writes them), structures as they are."""
    if isinstance(value, str | dict | list):
        return value
    return AsWritten(json.dumps(value))
