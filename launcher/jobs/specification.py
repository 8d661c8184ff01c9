"""`JobSpec`: the job file's schema, parser and documentation in one.

Every field is declared once, here. The JSON schema, the documentation and the error messages come
from these models. Cross-field judgement that needs facts (instances, clusters, images) belongs to
the rules and the plan; only what a field means by itself is checked here.
"""

from __future__ import annotations

import difflib
import json
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_serializer,
    model_validator,
)

from launcher.documents.document import AsWritten, Path
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.jobs.values import Duration, RoleArn, S3Uri, ScalarText, Size

AS_WRITTEN: tuple[Path, ...] = (
    ("environment", "*"),
    ("hyperparameters", "*"),
    ("tags", "*"),
    ("code", "arguments", "*"),
    ("framework", "version"),
)
"""Where unquoted numbers and booleans keep the text that the user wrote."""

MAX_NAME_LENGTH = 45
"""63 characters of a training job's name less the 18 of the unique part."""

DEFAULT_CHECKPOINT_PATH = "/opt/ml/checkpoints"
"""CheckpointConfig.LocalPath where the request has none (SageMaker API)."""

RESERVED_CHANNEL = "code"
"""The channel in which the launcher ships the user's source and the boot."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)


class Strategy(StrEnum):
    """How the processes of a job find each other."""

    TORCHRUN = "torchrun"
    SMDDP = "smddp"
    SMP = "smp"
    MPI = "mpi"
    TORCH_XLA = "torch_xla"
    NONE = "none"


class Code(_Part):
    """The training code."""

    source_dir: str = Field(".", description="Folder of the code, relative to the job file.")
    entry_point: str = Field(description="The script to run, relative to source_dir.", min_length=1)
    arguments: list[ScalarText] = Field([], description="Further arguments for the script.")


class Framework(_Part):
    """An AWS deep learning container, by framework."""

    name: Literal["pytorch"] = Field("pytorch", description="The framework.")
    version: ScalarText = Field(description="The framework's version, such as 2.8.0 or 2.8.")
    python: str | None = Field(None, pattern=r"^py\d{2,3}$", description="Such as py312.")


class Network(_Part):
    """Where the hosts are placed; the cluster's network unless given."""

    subnets: list[str] = Field([], max_length=16, description="Subnet ids.")
    security_group_ids: list[str] = Field([], max_length=5, description="Security group ids.")


class Capacity(_Part):
    """How the hosts are obtained: on-demand, spot, or from a training plan."""

    kind: Literal["on-demand", "spot", "training-plan"] = "on-demand"
    training_plan: str | None = None

    @model_serializer
    def _as_in_the_file(self) -> str | dict[str, str | None]:
        return {"training_plan": self.training_plan} if self.training_plan else self.kind


def _capacity(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("on-demand", "spot"):
            raise ValueError(f"{value!r} is not one of on-demand, spot, {{training_plan: ARN}}")
        return {"kind": value}
    if isinstance(value, dict) and set(value) == {"training_plan"}:
        return {"kind": "training-plan", **value}
    if isinstance(value, Capacity):
        return value
    raise ValueError("write on-demand, spot, or {training_plan: ARN}")


class Resources(_Part):
    """The hosts."""

    instance_type: str = Field(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$", description="Such as ml.p5.48xlarge.")
    instance_count: int = Field(1, ge=1, description="How many hosts.")
    volume_size_gb: int = Field(30, ge=1, description="Storage volume per host, GB.")
    capacity: Annotated[
        Capacity,
        BeforeValidator(_capacity, json_schema_input_type=Literal["on-demand", "spot"] | dict[str, str]),
    ] = Field(Capacity(), description="on-demand, spot, or {training_plan: ARN}.")
    keep_alive: Duration | None = Field(None, description="Keep a warm pool for this long.")


class Distribution(_Part):
    """How processes are started and connected."""

    strategy: Strategy = Field(Strategy.NONE, description="How the processes of the job are started.")
    processes_per_host: int | None = Field(None, ge=1, description="Default: the host's accelerators.")
    options: dict[str, Any] = Field({}, description="Options of the strategy.")


class Input(_Part):
    """One input channel: from S3, or from the cluster's Lustre file system."""

    s3_uri: S3Uri | None = Field(None, description="s3://bucket/prefix")
    distribution: Literal["FullyReplicated", "ShardedByS3Key"] = "FullyReplicated"
    mode: Literal["File", "FastFile", "Pipe"] = "File"
    lustre: str | None = Field(None, pattern=r"^/", description="Path below the file system's mount.")
    access: Literal["ro", "rw"] = "ro"

    @model_validator(mode="after")
    def _one_source(self) -> Input:
        if (self.s3_uri is None) == (self.lustre is None):
            raise ValueError("give exactly one of s3_uri and lustre")
        return self


def _input(value: Any) -> Any:
    return {"s3_uri": value} if isinstance(value, str) else value


ChannelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9.\-_]{1,64}$")]


Channel = Annotated[Input, BeforeValidator(_input, json_schema_input_type=S3Uri | Input)]
"""An S3 URI alone, or a mapping."""


class Checkpoint(_Part):
    """Where checkpoints go; a part unique to the job is always appended."""

    s3_uri: S3Uri | None = Field(None, description="Default: the cluster's checkpoint bucket.")
    local_path: str = Field(DEFAULT_CHECKPOINT_PATH, pattern=r"^/", description="Where the script writes.")
    lustre: str | None = Field(None, pattern=r"^/", description="On the cluster's file system instead.")
    sync: Literal["sagemaker", "slipway"] = Field("sagemaker", description="Who moves checkpoints to S3.")
    resume_from: str | None = Field(None, description="A job's name or an S3 URI.")

    @model_validator(mode="after")
    def _one_place(self) -> Checkpoint:
        if self.s3_uri is not None and self.lustre is not None:
            raise ValueError("give one of s3_uri and lustre, not both")
        return self


class Model(_Part):
    """What is trained; lets the plan judge memory and storage."""

    parameters: float = Field(gt=0, allow_inf_nan=False, description="Number of parameters, such as 13e9.")


class Data(_Part):
    """What it is trained on; lets the plan judge even batches and storage."""

    samples: int | None = Field(None, ge=1, description="Samples in the training set.")
    batch_size: int | None = Field(None, ge=1, description="Samples per step and process.")
    size: Size | None = Field(None, description="Size of the training set, such as 2TB.")


def _seconds_forms(schema: dict[str, Any]) -> None:
    """Both limits may also be given in seconds, as the API names them."""
    for name in ("max_runtime", "max_wait"):
        seconds = {"type": "integer", "minimum": 1, "description": f"{name}, in seconds."}
        schema["properties"][f"{name}_seconds"] = seconds


class Limits(_Part):
    """What the job may use up."""

    model_config = ConfigDict(json_schema_extra=_seconds_forms)

    max_runtime: Duration = Field(86_400, ge=1, le=2_419_200, description="At most 28 days.")
    max_wait: Duration | None = Field(None, ge=1, description="Waiting and running, spot only.")
    max_retries: int = Field(0, ge=0, le=30, description="Retries after a failure that may pass.")

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


class Output(_Part):
    """Where the model and the output go."""

    s3_uri: S3Uri = Field(description="s3://bucket/prefix")


class JobSpec(_Part):
    """A training job as its user describes it."""

    name: str = Field(
        pattern=r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*$",
        max_length=MAX_NAME_LENGTH,
        description="Base of the job's unique name: letters, digits and hyphens.",
    )
    cluster: str | None = Field(None, description="A provisioned cluster's name, or a manifest's path.")
    role_arn: RoleArn | None = Field(None, description="Execution role; default: the cluster's.")
    network: Network = Field(Network(), description="Default: the cluster's.")
    region: str | None = Field(None, pattern=r"^[a-z]{2,4}(-[a-z]+)+-\d+$", description="Such as us-west-2.")
    code: Code
    framework: Framework | None = None
    image: str | None = Field(None, description="Image URI, instead of framework.")
    hyperparameters: dict[str, Any] = Field({}, description="Passed to the script as --key value.")
    resources: Resources
    distribution: Distribution = Distribution()
    inputs: dict[ChannelName, Channel] = Field({}, description="Input channels, by name.")
    checkpoint: Checkpoint | None = None
    model: Model | None = None
    data: Data | None = None
    debugger: bool = Field(False, description="SageMaker Debugger; off where it would break the job.")
    profile: Literal["normal", "debug"] = Field(
        "normal", description="debug: verbose NCCL, and checks that slow the training down."
    )
    environment: dict[str, ScalarText] = Field({}, description="Environment of every process.")
    limits: Limits = Limits()
    output: Output | None = None
    tags: dict[str, ScalarText] = Field({}, max_length=50, description="Tags of the training job.")
    ignore: list[str] = Field([], description="Codes of findings accepted on purpose.")

    @field_validator("hyperparameters")
    @classmethod
    def _texts(cls, value: dict[str, Any]) -> dict[str, Any]:
        return {key: _hyperparameter(item) for key, item in value.items()}

    @field_validator("inputs")
    @classmethod
    def _free_channels(cls, value: dict[str, Input]) -> dict[str, Input]:
        if RESERVED_CHANNEL in value:
            raise ValueError("the channel `code` carries the source of the job; call yours otherwise")
        return value

    @field_validator("ignore")
    @classmethod
    def _known_codes(cls, value: list[str]) -> list[str]:
        for code in value:
            if code not in CATALOGUE:
                near = difflib.get_close_matches(code.upper(), list(CATALOGUE), n=1)
                raise ValueError(
                    f"{code!r} is no failure mode" + (f"; did you mean {near[0]}?" if near else "")
                )
        return value

    @model_validator(mode="after")
    def _one_image(self) -> JobSpec:
        if (self.framework is None) == (self.image is None):
            raise ValueError("give exactly one of framework and image")
        return self


def _hyperparameter(value: Any) -> Any:
    """Text for scalars (as written, or as JSON writes them), structures as they are."""
    if isinstance(value, str | dict | list):
        return value
    return AsWritten(json.dumps(value))
