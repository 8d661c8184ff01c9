"""The strategies whose script the images' own toolkit starts: mpi, smddp and torch_xla.

mpi: mpirun on the first host starts all processes. smddp: SageMaker's data parallel library, started by its
own launcher over MPI. torch_xla: SageMaker Training Compiler, PyTorch/XLA on GPUs. smp version 1 is started
by the toolkit as well, in `model_parallel`.

The toolkit is told by hyperparameters, JSON-encoded, whose names begin with `sagemaker_`
(aws/sagemaker-training-toolkit, params.py; the SageMaker SDK version 2 sends the same). It turns the others
into `--name value`, joins these words with blanks and gives the line to a shell, without quoting, from its
version 3.9.3 on (process.py, run_async; aws/sagemaker-training-toolkit issue 128). Quoting here would break
with older versions and with a corrected one, and the quotes would stand in the SM_HP variables: so words that
a shell would change are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any, Final

from launcher.cluster.instances import InstanceFacts
from launcher.documents import AsWritten
from launcher.facts import Provenance
from launcher.failure_modes import distribution, job_file
from launcher.failure_modes.model import Finding, Path, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.load_job import list_folders, replace_folders
from launcher.jobs.specification import JobSpec
from launcher.planning.request_view import CODE_ARCHIVE_HYPERPARAMETER, MPI_PROCESSES_HYPERPARAMETER
from launcher.planning.strategies.strategy import (
    MP_PARAMETERS,
    OPTIONS,
    PARAMETERS_FIELD,
    PYTORCH,
    TENSORFLOW,
    StartParameters,
    Support,
    accelerated_processes,
    any_text,
    check_accelerators,
    check_crowding,
    check_options,
    check_python_program,
    check_support,
    smp_parameters,
    true_or_false,
)

LOG_LEVEL = "20"
"""Python's logging.INFO, the SDK's default."""

_ONE_WORD = re.compile(r"[\w@%+=:,./-]+")
"""What a shell takes as it stands (the characters of Python's shlex.quote)."""

_MPI_WORDS = re.compile(r"[\w@%+=:,./^ -]*")
"""The same in several words, with the `^` of `--mca btl ^openib`."""


class ToolkitStrategy:
    """A strategy that the image's training toolkit carries out."""

    archive_name = "sourcedir.tar.gz"
    with_boot = False

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """The user's number, else one per GPU; None for an unknown type without a number."""
        return accelerated_processes(job, facts)

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """What the toolkit cannot pass on; strategies add where their library exists."""
        yield from check_passed_values(job)
        yield from check_crowding(facts, processes_per_host)

    def image_framework(self, facts: InstanceFacts | None) -> str:
        """PyTorch's own images, which hold the toolkit."""
        return PYTORCH

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, JSON-encoded, and those that tell the toolkit what to start."""
        return {
            **{
                key: json_text(replace_folders(value, start.folders))
                for key, value in job.hyperparameters.items()
            },
            CODE_ARCHIVE_HYPERPARAMETER: json.dumps(start.archive),
            "sagemaker_program": json.dumps(job.code.entry_point),
            "sagemaker_container_log_level": LOG_LEVEL,
            "sagemaker_job_name": json.dumps(start.job_name),
            "sagemaker_region": json.dumps(start.region),
            # The SDK sends it with MPI alone, but the toolkit's runner reads it in every mode.
            MPI_PROCESSES_HYPERPARAMETER: str(start.processes_per_host),
        }

    def container_command(self, job: JobSpec, processes_per_host: int, requirements: str | None) -> None:
        """None: the image's own entry point starts the toolkit, which installs requirements.txt by itself."""


def check_passed_values(job: JobSpec) -> Iterator[Finding]:
    """Values that the toolkit would change on their way to the script, or keep to itself."""
    yield from _check_other_programs(job)
    yield from _check_words(job)
    yield from _check_reserved_names(job)
    yield from _check_secrets(job)
    yield from _check_watchdog(job)
    yield from _check_gate(job)
    yield from _check_restarts(job)


def json_text(value: Any) -> str:
    """A value as JSON; an unquoted scalar stays as the user wrote it, so that 1e-3 is sent as 1e-3."""
    return str(value) if isinstance(value, AsWritten) else json.dumps(value)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def check_mpi_options(job: JobSpec) -> Iterator[Finding]:
    """`mpi_options` become part of a command line that a shell reads."""
    options = job.distribution.options.get("mpi_options", "")
    if isinstance(options, str) and not _MPI_WORDS.fullmatch(options):
        yield job_file.INVALID_VALUE.at(
            ("distribution", "options", "mpi_options"),
            f"mpi_options {options!r} has characters that a shell on the hosts would interpret",
            remedy="Use words of letters, digits and @%+=:,./^-; other values of variables belong in "
            "`environment`.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def check_parameter_words(job: JobSpec) -> Iterator[Finding]:
    """The parameters of smp reach the script's command line as `--mp_parameters a=1,b=2`."""
    parameters = smp_parameters(job)
    if parameters and not _ONE_WORD.fullmatch(_as_argument(parameters)):
        yield job_file.INVALID_VALUE.at(
            PARAMETERS_FIELD,
            "distribution.options.parameters hold characters that a shell on the hosts would interpret",
            remedy="Use letters, digits and @%+=:,./- in them.",
        )


def _starter_in_words(job: JobSpec) -> tuple[str, str]:
    """By whom, in words, and what else may be done where the toolkit is chosen and no must."""
    if job.tuning is not None:
        return "a tuning job is started by the images' toolkit", ""
    strategy = job.distribution.strategy.value
    return f"the strategy {strategy} is started by the images' toolkit", ", or use `strategy: torchrun`"


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_other_programs(job: JobSpec) -> Iterator[Finding]:
    started, otherwise = _starter_in_words(job)
    if job.code.module is not None:
        yield job_file.INVALID_VALUE.at(
            ("code", "module"),
            f"{started}, which starts scripts alone, not the module {job.code.module}",
            remedy="Name a script as `code.entry_point`, which may be two lines that import the module and "
            f"call it{otherwise}.",
        )
    if job.code.argument_style != "spaced":
        yield job_file.INVALID_VALUE.at(
            ("code", "argument_style"),
            f"{started}, which passes hyperparameters as `--name value` alone, not in the style "
            f"{job.code.argument_style}",
            remedy="Leave `argument_style` out, and let the script read SM_HPS or `--name value`"
            f"{otherwise}.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_words(job: JobSpec) -> Iterator[Finding]:
    started, otherwise = _starter_in_words(job)
    folders = list_folders(job)
    for key, value, path in _hyperparameter_values(job):
        words = (key, _as_argument(_decoded(json_text(replace_folders(value, folders)))))
        if not all(_ONE_WORD.fullmatch(word) for word in words):
            yield job_file.INVALID_VALUE.at(
                path,
                f"{started}, whose shell would not take the hyperparameter {key}={words[1]!r} as it stands",
                remedy="Use letters, digits and @%+=:,./- in it; put other texts into `environment` or a "
                f"file of the source directory{otherwise}.",
            )
    if job.code.entry_point is not None and not _ONE_WORD.fullmatch(job.code.entry_point):
        yield job_file.INVALID_VALUE.at(
            ("code", "entry_point"),
            f"{started}, whose shell would not take the entry point {job.code.entry_point!r} as it stands",
            remedy="Rename the script: letters, digits and ./_- are safe.",
        )
    if job.code.arguments:
        yield job_file.INVALID_VALUE.at(
            ("code", "arguments"),
            f"{started}, which passes hyperparameters to the script and no arguments",
            remedy=f"Give them as `hyperparameters` (--name value){otherwise}.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_reserved_names(job: JobSpec) -> Iterator[Finding]:
    for key, path in {key: path for key, _, path in _hyperparameter_values(job)}.items():
        if key.startswith("sagemaker_") or key in (MP_PARAMETERS, "_tuning_objective_metric"):
            yield job_file.INVALID_VALUE.at(
                path,
                f"the hyperparameter {key} is taken by the images' toolkit and not passed to the script",
                remedy="Rename it; what it tells the toolkit follows from `distribution`.",
            )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_secrets(job: JobSpec) -> Iterator[Finding]:
    if job.secrets:
        in_tuning_job = job.tuning is not None
        what = "a tuning job" if in_tuning_job else f"the strategy {job.distribution.strategy.value}"
        elsewhere = "" if in_tuning_job else "Use `strategy: torchrun`, smp version 2 or none; or f"
        yield job_file.INVALID_VALUE.at(
            ("secrets",),
            f"{what} is started by the images' toolkit, and it is Slipway's boot that fetches secrets: the "
            f"script would not have {', '.join(job.secrets)}",
            remedy=f"{elsewhere or 'F'}etch them in the script, with boto3 and the job's role.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_watchdog(job: JobSpec) -> Iterator[Finding]:
    """Limits that nobody would keep: the toolkit watches nobody."""
    if "watchdog" in job.model_fields_set and job.watchdog != "off":
        started, otherwise = _starter_in_words(job)
        yield job_file.INVALID_VALUE.at(
            ("watchdog",),
            f"{started}, and it is Slipway's boot that watches the ranks: a stall would last until the "
            "process group's timeout",
            remedy=f"Leave `watchdog` out{otherwise}.",
        )


def _check_gate(job: JobSpec) -> Iterator[Finding]:
    """A gate that nobody would keep: the toolkit looks at no host."""
    if job.gate in ("on", "warn"):
        started, otherwise = _starter_in_words(job)
        yield job_file.INVALID_VALUE.at(
            ("gate",),
            f"{started}, and it is Slipway's boot that judges the hosts: nobody would look at them",
            remedy=f"Leave `gate` out{otherwise}.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _check_restarts(job: JobSpec) -> Iterator[Finding]:
    """Restarts that nobody would make: the toolkit starts the ranks once."""
    if job.limits.restarts:
        started, otherwise = _starter_in_words(job)
        yield job_file.INVALID_VALUE.at(
            ("limits", "restarts"),
            f"{started}, and it is Slipway's boot that starts ranks again: the first failure would end "
            "the job",
            remedy=f"Leave `restarts` out{otherwise}; `max_retries` submits the job again.",
        )


def _hyperparameter_values(job: JobSpec) -> Iterator[tuple[str, Any, Path]]:
    """Every hyperparameter with each value that it may take, and where it stands."""
    for key, value in job.hyperparameters.items():
        yield key, value, ("hyperparameters", key)
    ranges = job.tuning.ranges if job.tuning else {}
    for key, varied in ranges.items():
        for value in varied.values or (AsWritten(varied.min),):
            yield key, value, ("tuning", "ranges", key)


def _decoded(text: str) -> Any:
    """A hyperparameter as the toolkit reads it: JSON where it is, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _as_argument(value: Any) -> str:
    """A hyperparameter's word on the script's command line (toolkit, mapping.py, to_cmd_args)."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return str(value)


# mpi: mpirun on the first host starts all processes.


class Mpi(ToolkitStrategy):
    """Open MPI, for scripts that take their rank from it."""

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on GPU and CPU types with every version; finds what a shell or mpirun would not take."""
        yield from super().find_unsupported(job, facts, processes_per_host)
        yield from check_options(
            job.distribution.options, {"mpi_options": any_text}, OPTIONS, "the strategy mpi"
        )
        yield from check_mpi_options(job)
        yield from check_accelerators(job, facts)

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, those that tell the toolkit what to start, and mpirun's own options."""
        return {
            **super().hyperparameters(job, start),
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_custom_mpi_options": json.dumps(job.distribution.options.get("mpi_options", "")),
        }


# smddp: SageMaker's data parallel library.


PROVENANCE: Final = Provenance(
    date(2026, 11, 22),
    shelf_life_days=365,
    source="SageMaker developer guide, distributed-data-parallel-support; SageMaker SDK, "
    "sagemaker.core.fw_utils "
    "and training_compiler/config.py",
    packages={"sagemaker": "3.27.0"},
)

SMDDP_SUPPORT = Support(
    library="the SageMaker data parallel library",
    instance_types=("ml.p3.16xlarge", "ml.p3dn.24xlarge", "ml.p4d.24xlarge", "ml.p4de.24xlarge"),
    oldest="1.7.1",
    newest="2.3.1",
)
"""SageMaker developer guide, distributed-data-parallel-support, without PyTorch 1.6: the library is then
in an image of a name of its own."""


SMDDP_TENSORFLOW_SUPPORT = replace(SMDDP_SUPPORT, framework=TENSORFLOW, oldest="2.4.1", newest="2.11.0")
"""sagemaker.core.fw_utils, SM_DATAPARALLEL_SUPPORTED_FRAMEWORK_VERSIONS, without TensorFlow 2.3 for the same
reason."""


class Smddp(ToolkitStrategy):
    """The data parallel library's collectives in place of NCCL's."""

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on types with eight V100 or A100, with PyTorch 1.7 to 2.3 or TensorFlow 2.4 to 2.11."""
        yield from super().find_unsupported(job, facts, processes_per_host)
        yield from check_options(
            job.distribution.options, {"mpi_options": any_text}, OPTIONS, "the strategy smddp"
        )
        yield from check_mpi_options(job)
        yield from check_python_program(job, "the data parallel library's launcher")
        tensorflow = job.framework is not None and job.framework.name == TENSORFLOW
        yield from check_support(SMDDP_TENSORFLOW_SUPPORT if tensorflow else SMDDP_SUPPORT, job)

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, those that tell the toolkit what to start, and the library's MPI options."""
        options = job.distribution.options.get("mpi_options", "")
        return {
            **super().hyperparameters(job, start),
            "sagemaker_distributed_dataparallel_enabled": "true",
            "sagemaker_instance_type": json.dumps(job.resources.instance_type),
            "sagemaker_distributed_dataparallel_custom_mpi_options": json.dumps(options),
        }


# torch_xla: SageMaker Training Compiler.


COMPILER_FRAMEWORK = "pytorch-training-compiler"

COMPILER_HYPERPARAMETER = "sagemaker_training_compiler_enabled"
"""What tells the image's toolkit to compile."""

COMPILER_SUPPORT = Support(
    library="SageMaker Training Compiler",
    instance_types=("ml.p3.*", "ml.p3dn.*", "ml.p4d.*", "ml.g4dn.*", "ml.g5.*"),
    framework=COMPILER_FRAMEWORK,
)
"""SageMaker SDK, training_compiler/config.py, SUPPORTED_INSTANCE_CLASS_PREFIXES."""


class TorchXla(ToolkitStrategy):
    """The compiler's images; their launcher calls the script's `_mp_fn` once per GPU."""

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on P3, P4d, G4dn and G5 with PyTorch 1.12 and 1.13; finds all else."""
        yield from super().find_unsupported(job, facts, processes_per_host)
        yield from check_options(
            job.distribution.options, {"debug": true_or_false}, OPTIONS, "the strategy torch_xla"
        )
        yield from check_support(COMPILER_SUPPORT, job)
        yield from _check_gpus_per_host(job, processes_per_host)
        yield from check_python_program(job, "Training Compiler's launcher", (".py",))

    def image_framework(self, facts: InstanceFacts | None) -> str:
        """The compiler's own images, which hold PyTorch/XLA."""
        return COMPILER_FRAMEWORK

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, the toolkit's, and the compiler's.

        The launcher for several workers refuses to run with a single GPU (toolkit, pytorch_xla.py);
        such a job starts its script directly.
        """
        several = {"sagemaker_pytorch_xla_multi_worker_enabled": "true"}
        return {
            **super().hyperparameters(job, start),
            **(several if start.processes_per_host > 1 else {}),
            COMPILER_HYPERPARAMETER: "true",
            "sagemaker_training_compiler_debug_mode": json.dumps(
                bool(job.distribution.options.get("debug", False))
            ),
        }


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def _check_gpus_per_host(job: JobSpec, processes_per_host: int | None) -> Iterator[Finding]:
    if processes_per_host == 1 and job.resources.instance_count > 1:
        yield distribution.UNSUPPORTED_COMBINATION.at(
            ("resources", "instance_count"),
            f"Training Compiler's launcher does not run on several hosts with one GPU each "
            f"({job.resources.instance_type})",
            remedy="Use one host, or a type with several GPUs.",
        )
