"""The sections of a job file, each a model of its own.

`code` and `framework` say what a job runs, and in which container; `resources` which hosts it gets, how they
are obtained and placed, `network` what they may reach; `inputs` the channels by which it is given its data,
`checkpoint` where checkpoints go and who moves them; `watchdog` when the boot asks the ranks where they are;
`ladder` what the script is told on the rungs of `launch ladder`; `mlflow` where SageMaker's managed MLflow
keeps what the job tells of itself; `debug` ways into a job that runs; `slurm` what a Slurm cluster is asked
for. `tuning` is in `tuning`, the rest in `specification`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    StringConstraints,
    WrapValidator,
    field_validator,
    model_serializer,
    model_validator,
)

from launcher.cluster.names import HYPERPOD_SHARED
from launcher.documents import OF_THE_API, AsWritten, field_error, is_null
from launcher.failure_modes import sources
from launcher.failure_modes.model import Figure
from launcher.jobs.script_inputs import (
    CHECKPOINT_CHANNEL,
    CHECKPOINT_DIR_VARIABLE,
    DEFAULT_CHECKPOINT_PATH,
    channel_folder,
)
from launcher.jobs.values import Duration, Part, S3Uri, ScalarText, Size, scalar_text
from launcher.text.values import BUCKET_NAME

_ARCHIVE_ON_S3 = re.compile(rf"s3://{BUCKET_NAME}/.+\.(tar\.gz|tgz)")

ArgumentStyle = Literal["spaced", "equals", "hydra", "none"]

_NAME = "[A-Za-z_][A-Za-z0-9_]*"

DEFAULT_REQUIREMENTS = "requirements.txt"
"""What is installed where the job file does not say otherwise; the images' toolkit knows only this name."""

NO_REQUIREMENTS = "none"
"""What `code.requirements` says where nothing is to be installed."""


class Code(Part):
    """The training code: a folder or archive, what of it is started, and what that is given."""

    source_dir: str = Field(
        ".",
        description="Folder of the code, or a .tar.gz of it, relative to the job file; or s3://bucket/KEY.tar.gz.",
    )
    entry_point: str | None = Field(
        None, description="The script to run, relative to source_dir; .sh with strategy none.", min_length=1
    )
    module: str | None = Field(
        None,
        pattern=rf"^{_NAME}(\.{_NAME})*$",
        description="Instead of entry_point: what `python -m` runs, such as package.train.",
    )
    arguments: list[ScalarText] = Field([], description="Arguments for the script.")
    argument_style: ArgumentStyle = Field(
        "spaced",
        description="How hyperparameters are passed: --lr 0.1, --lr=0.1, lr=0.1, or only in SM_HPS.",
    )
    requirements: str | None = Field(
        None,
        min_length=1,
        description="Which file's packages are installed with pip before the script starts, relative to "
        "source_dir: `requirements.txt` where it is there, unless another is named. `none` installs nothing.",
    )

    @property
    def program(self) -> str:
        """What is started, in words: the script's path, or `-m` and the module."""
        return self.entry_point or f"-m {self.module}"

    @property
    def requirements_file(self) -> str | None:
        """The file to install, where it is there; None where nothing is to be installed."""
        if self.requirements == NO_REQUIREMENTS:
            return None
        return self.requirements or DEFAULT_REQUIREMENTS

    @model_validator(mode="after")
    def _one_program(self) -> Code:
        if self.entry_point is not None and self.module is not None:
            raise field_error(
                f"both entry_point ({self.entry_point}) and module ({self.module}) are given, and only one "
                "program is started",
                remedy="Keep `entry_point` for a script, or `module` for what `python -m` runs.",
                below=("module",),
            )
        if self.entry_point is None and self.module is None:
            raise field_error(
                "neither entry_point nor module is given: nothing would be started",
                remedy="Name a script of the source directory as `entry_point: train.py`, or a module as "
                "`module: package.train`.",
            )
        return self

    @field_validator("source_dir")
    @classmethod
    def _on_s3_is_an_archive(cls, value: str) -> str:
        if value.startswith("s3://") and not _ARCHIVE_ON_S3.fullmatch(value):
            raise field_error(
                f"{value} is not an archive on S3",
                remedy="Write it as s3://bucket/source.tar.gz, or give a folder beside the job file.",
            )
        return value


LATEST = "latest"
"""In place of a version: the newest patched one that runs the job (launcher.planning.image_choice)."""


class Framework(Part):
    """An AWS deep learning container, by framework."""

    name: Literal["pytorch", "tensorflow"] = Field("pytorch", description="The framework.")
    version: ScalarText = Field(
        LATEST, description="Such as 2.8.0 or 2.8; latest: the newest patched one that runs the job."
    )
    python: str | None = Field(None, pattern=r"^py\d{1,3}$", description="Such as py312.")


class HostsTogether(Part):
    """So many hosts together on one UltraServer."""

    instance_count: int = Field(ge=1, description="How many hosts.")
    ultra_server: Annotated[str | None, OF_THE_API] = Field(
        None, min_length=1, max_length=256, description="The UltraServer's id; default: any."
    )


class UltraServerPlacement(Part):
    """How hosts are placed on UltraServers, which a training plan holds."""

    share: bool = Field(
        False, description="Whether other jobs may have hosts on the same UltraServers (EnableMultipleJobs)."
    )
    together: Annotated[list[HostsTogether], OF_THE_API] = Field(
        [], max_length=10, description="Which numbers of hosts must be on one UltraServer."
    )


InstanceType = Annotated[str, Field(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")]
"""The form alone, such as ml.p5.48xlarge; the rules know which of them exist."""


class Capacity(Part):
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


MOST_HOSTS = 10_000
"""More than any cluster of AWS has of one type: who asks for more has mistyped."""

MOST_VOLUME_GB = 16_384
"""The largest volume of the kind that SageMaker attaches (EBS user guide, general purpose SSD volumes)."""


class Resources(Part):
    """The hosts of the job: their type, their number, their storage, and how they are obtained."""

    instance_type: InstanceType = Field(description="Such as ml.p5.48xlarge.")
    instance_types: list[InstanceType] = Field(
        [], max_length=10, description="Other types, in this order, for when there is no capacity."
    )
    instance_choice: Literal["launcher", "service"] = Field(
        "launcher",
        description="Who tries `instance_types`: the launcher, in further attempts; or the service, which "
        "takes the first type that has capacity.",
    )
    instance_count: int = Field(1, ge=1, le=MOST_HOSTS, description="How many hosts.")
    volume_size_gb: int = Field(30, ge=1, le=MOST_VOLUME_GB, description="Storage volume per host, GB.")
    capacity: Annotated[
        Capacity,
        BeforeValidator(_capacity, json_schema_input_type=Literal["on-demand", "spot"] | dict[str, str]),
    ] = Field(Capacity(), description="on-demand, spot, or {training_plan: ARN}.")
    keep_alive: Duration | None = Field(None, description="Keep a warm pool for this long.")
    placement: UltraServerPlacement | None = None
    infra_check: bool = Field(
        False,
        description="AWS tests the hosts and their network before the script starts; on by itself in an "
        "attempt after a fault of them, unless it is false here.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_group(cls, value: Any) -> Any:
        if isinstance(value, dict) and "instance_groups" in value:
            raise field_error(
                "several instance groups (heterogeneous hosts) cannot be planned yet: the number of "
                "processes is derived for hosts that are all alike",
                remedy="Give `instance_type` and `instance_count`, and split what needs other hosts into a "
                "job of its own.",
                below=("instance_groups",),
            )
        return value

    @model_validator(mode="after")
    def _service_can_choose(self) -> Resources:
        """Source: SageMaker API reference, ResourceConfig (what InstancePreferences excludes)."""
        if self.instance_choice == "launcher":
            return self
        if not self.instance_types:
            raise field_error(
                "there is nothing to choose from: `instance_types` is empty",
                remedy="Name further types in `instance_types`, or remove `instance_choice`.",
                below=("instance_choice",),
            )
        if self.capacity.kind == "spot":
            raise field_error(
                "the service chooses among types on demand alone, not among spot hosts",
                remedy="Use `capacity: on-demand`, or `instance_choice: launcher`.",
                below=("instance_choice",),
            )
        return self

    @model_validator(mode="after")
    def _different_types(self) -> Resources:
        if self.instance_types and self.capacity.training_plan:
            raise field_error(
                "a training plan holds hosts of one type, so no retry could try another with it",
                remedy="Remove `instance_types`, or use `capacity: on-demand`.",
                below=("instance_types",),
            )
        tried = [self.instance_type]
        for index, instance_type in enumerate(self.instance_types):
            if instance_type in tried:
                raise field_error(
                    f"{instance_type} is tried already, as {_ordinal(tried.index(instance_type))}",
                    remedy="Name other types only; `instance_type` is always tried first.",
                    below=("instance_types", index),
                )
            tried.append(instance_type)
        return self

    @model_validator(mode="after")
    def _can_be_placed(self) -> Resources:
        if self.placement is None:
            return self
        if self.instance_choice == "service":
            raise field_error(
                "where the service chooses the instance type, no hosts can be placed (SageMaker API, "
                "InstancePreferences)",
                remedy="Remove `placement`, or use `instance_choice: launcher`.",
                below=("placement",),
            )
        placed = sum(each.instance_count for each in self.placement.together)
        if placed > self.instance_count:
            raise field_error(
                f"{placed} hosts are to be placed, and the job has {self.instance_count}",
                remedy="Let the numbers of `together` be `instance_count` in all, or less.",
                below=("placement", "together"),
            )
        return self

    def with_infra_check(self) -> Resources:
        """The same with the health check on; as they are where the file has it off in so many words."""
        if "infra_check" in self.model_fields_set:
            return self
        return self.model_copy(update={"infra_check": True})


def _ordinal(index: int) -> str:
    return "`instance_type`" if index == 0 else f"number {index} of `instance_types`"


class Network(Part):
    """Where the hosts are placed, the cluster's network unless given, and what the containers may reach."""

    subnets: Annotated[list[str], OF_THE_API] = Field([], max_length=16, description="Subnet ids.")
    security_group_ids: Annotated[list[str], OF_THE_API] = Field(
        [], max_length=5, description="Security group ids."
    )
    isolation: bool = Field(
        False, description="The containers reach each other and nothing else, no AWS service either."
    )
    encryption: bool = Field(
        False, description="What the hosts send each other is encrypted, which slows training down."
    )


class Input(Part):
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
"""As SageMaker takes it (API reference, Channel)."""

Channel = Annotated[Input, BeforeValidator(_input, json_schema_input_type=S3Uri | Input)]
"""An S3 URI alone, or a mapping."""


class Checkpoint(Part):
    """Where checkpoints go, in S3 or on Lustre; a part unique to the job is always appended."""

    s3_uri: S3Uri | None = Field(None, description="Default: the cluster's checkpoint bucket.")
    local_path: str = Field(DEFAULT_CHECKPOINT_PATH, pattern=r"^/", description="Where the script writes.")
    lustre: str | None = Field(
        None,
        pattern=r"^/",
        description="On the cluster's file system instead; "
        f"{CHECKPOINT_DIR_VARIABLE} is the job's directory.",
    )
    sync: Literal["sagemaker", "slipway"] = Field(
        "sagemaker",
        description="Who copies checkpoints to S3; slipway: the boot, while the job runs and at its end.",
    )
    resume_from: str | None = Field(None, description="A job's name or an S3 URI.")

    @model_validator(mode="after")
    def _one_place(self) -> Checkpoint:
        if self.lustre is None:
            return self
        if self.s3_uri is not None:
            raise ValueError("give one of s3_uri and lustre, not both")
        if self.sync == "slipway":
            raise field_error(
                "with `lustre` there is nothing to move: the script writes to the file system itself, which "
                "keeps what it gets",
                remedy="Remove `sync`, or give `s3_uri` instead of `lustre`.",
                below=("sync",),
            )
        if self.local_path != DEFAULT_CHECKPOINT_PATH:
            raise field_error(
                f"with `lustre` checkpoints are not at {self.local_path}: SageMaker mounts the file system "
                f"below {channel_folder(CHECKPOINT_CHANNEL)} and nowhere else",
                remedy="Remove `local_path`, and let the script read the place from "
                f"{CHECKPOINT_DIR_VARIABLE}.",
                below=("local_path",),
            )
        if self.resume_from is not None:
            raise field_error(
                "with `lustre` nothing can be copied before the job starts: the file system is mounted by "
                "jobs alone, and this one would start from the beginning",
                remedy="Mount the earlier job's directory and let the script load from it: `inputs: "
                f"{{earlier: {{lustre: {self.lustre.rstrip('/')}/NAME-OF-THE-JOB}}}}`.",
                below=("resume_from",),
            )
        return self


FIGURES = (
    Figure("60", "seconds without a step that are no stall by themselves", sources.JOB_FILE),
    Figure("5", "times the longest pause between two steps is one", sources.JOB_FILE),
)

STALL_SECONDS, PAUSES = 60, 5
"""Without limits of its own: nobody makes a step for so long, and for so many times the longest pause."""

FIRST_STEP_SECONDS = 1800
"""Compilation and the first read of a large data set come before the first step, and take their time."""


class WatchdogLimits(Part):
    """When a job stands still: no rank of it makes a step for so long."""

    stall: Duration | None = Field(
        None, ge=1, description="Without a step; default: 60 s, or 5 times the longest pause so far."
    )
    first_step: Duration = Field(FIRST_STEP_SECONDS, ge=1, description="Without a first step.")


def _off_or_limits(value: Any, _: Any) -> Any:
    """One error for one mistake, at its own field: a plain union complains of each of its members."""
    if value == "off" or isinstance(value, WatchdogLimits):
        return value
    if not isinstance(value, dict):
        raise field_error(
            f"{value!r} is neither off nor a mapping of limits",
            remedy="Write `watchdog: off`, or limits such as `watchdog: {stall: 10m}`; leave it out for the "
            "defaults.",
        )
    return WatchdogLimits.model_validate(value)


Watchdog = Annotated[WatchdogLimits | Literal["off"], WrapValidator(_off_or_limits)]
"""What the field takes: its limits, or off."""


LadderWords = dict[str, str] | list[ScalarText]
"""Hyperparameters by name, or words that are put behind `code.arguments`."""


def _ladder_words(value: Any) -> Any:
    """Words as texts, and each hyperparameter as the text that the file has."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or not value:
        raise ValueError("write hyperparameters, such as {max_steps: 5}, or a list of arguments")
    for name, item in value.items():
        if is_null(item):
            raise ValueError(f"{name} has no value")
    return {name: item if isinstance(item, AsWritten) else scalar_text(item) for name, item in value.items()}


class Ladder(Part):
    """What the script is told so that a rung is short, and so that it needs no data."""

    few_steps: Annotated[LadderWords | None, BeforeValidator(_ladder_words)] = Field(
        None,
        description="Hyperparameters such as {max_steps: 5}, or a list of arguments, for a few steps.",
    )
    synthetic: Annotated[LadderWords | None, BeforeValidator(_ladder_words)] = Field(
        None,
        description="The same for synthetic data: {synthetic: true}, or [--synthetic].",
    )


MlflowArn = Annotated[
    str,
    StringConstraints(
        max_length=2048, pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:mlflow-[a-zA-Z-]*/.*$"
    ),
]
"""A tracking server or an app of SageMaker's MLflow (API reference, MlflowConfig)."""


class Mlflow(Part):
    """The MLflow of SageMaker to which the job belongs."""

    arn: Annotated[MlflowArn, OF_THE_API] = Field(description="ARN of the tracking server or the MLflow app.")
    experiment: Annotated[str | None, OF_THE_API] = Field(
        None, min_length=1, max_length=256, description="Its experiment."
    )
    run: Annotated[str | None, OF_THE_API] = Field(
        None, min_length=1, max_length=256, description="The name of its run."
    )

    @property
    def region(self) -> str:
        """The region in which it is."""
        return self.arn.split(":")[3]


class Debug(Part):
    """Ways into a job that runs, on AWS."""

    remote: bool = Field(
        False, description="Let a shell into the containers, through AWS Systems Manager (`launch status`)."
    )


SLURM_WORD = r"^[\w.,:@+&|*!()\[\]-]+$"
SlurmWord = Annotated[str, StringConstraints(pattern=SLURM_WORD)]
"""A name or an expression of Slurm's: one word, as it stands behind an option of sbatch."""

HOST_PATH = r"^/[\w./@+-]*$"
HostPath = Annotated[str, StringConstraints(pattern=HOST_PATH)]
"""An absolute path on Slurm's hosts, of characters that neither a shell nor sbatch takes for more."""

PYXIS_IMAGE = r"^[\w./:@#+-]+$"
"""The image of a container, as Pyxis takes it."""


SlurmHost = Annotated[
    str, StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9_][A-Za-z0-9_.-]*$")
]
"""A host as ssh takes it: never an option, and nothing that a shell or rsync reads otherwise."""


class Slurm(Part):
    """What a Slurm cluster is asked for: used with `backend: slurm`, or `launch --slurm`."""

    partition: SlurmWord | None = Field(None, description="Default: the cluster's default partition.")
    account: SlurmWord | None = Field(None, description="The account that is charged.")
    qos: SlurmWord | None = Field(None, description="The quality of service.")
    constraint: SlurmWord | None = Field(None, description="Features that the nodes must have.")
    exclude: list[SlurmWord] = Field([], description="Nodes that the job must not get.")
    host: SlurmHost | None = Field(
        None,
        description="A login node, as ssh knows it, where this machine has neither Slurm's commands nor "
        "the shared folder: jobs are submitted and followed over ssh. Without it, such a machine looks for a "
        "node of the `hyperpod` of the job's `cluster`.",
    )
    shared: HostPath = Field(
        HYPERPOD_SHARED,
        description="A folder that this machine (with `host` the login node) and all nodes see under this "
        "path: each run has its own below it, with code, logs and checkpoints. The default is a folder "
        "of the nodes of a cluster's `hyperpod`; without `cluster` it must be given.",
    )
    python: HostPath | None = Field(
        None,
        description="The Python that runs the job on the nodes, or the folder of its virtual environment.",
    )
    image: str | None = Field(
        None,
        min_length=1,
        pattern=PYXIS_IMAGE,
        description="Instead of python: the image of a container for Pyxis, such as "
        "nvcr.io#nvidia/pytorch:25.01-py3.",
    )
    gpus: int | None = Field(
        None, ge=0, description="GPUs of each host. Default: those of `resources.instance_type`."
    )
    cpus: int | None = Field(
        None, ge=1, description="CPUs of each host, which then may have other jobs. Default: whole hosts."
    )
    memory: Size | None = Field(
        None, ge=1_000_000, description="Memory of each host, such as 200GB. Default: all of it."
    )
    inputs: dict[ChannelName, HostPath] = Field(
        {}, description="The folder of each of the job's inputs, in place of S3."
    )

    @model_validator(mode="after")
    def _one_python(self) -> Slurm:
        if self.python is None and self.image is None:
            raise field_error(
                "neither python nor image is given: nothing on the nodes would run the job",
                remedy="Give `python` with a Python or a virtual environment that all nodes see and that has "
                "torch, or `image` with a container's image where the cluster has Pyxis.",
            )
        if self.python is not None and self.image is not None:
            raise field_error(
                "both python and image are given, and a job runs with one of them",
                remedy="Keep `python` for what the nodes have, or `image` for a container's.",
                below=("image",),
            )
        return self
