"""What smddp, smp version 1, mpi and torch_xla have in common: the images' own toolkit starts the script.

The toolkit is told by hyperparameters, JSON-encoded, whose names begin with `sagemaker_`
(aws/sagemaker-training-toolkit, params.py; the SageMaker SDK version 2 sends the same). It turns the
others into `--name value`, joins these words with blanks and gives the line to a shell, without
quoting, from its version 3.9.3 on (process.py, run_async; aws/sagemaker-training-toolkit issue 128).
Quoting here would break with older versions and with a corrected one, and the quotes would stand in the
SM_HP variables: so words that a shell would change are refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from launcher.cluster.instances import InstanceFacts
from launcher.documents.document import AsWritten
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.container_folders import folders_of, with_folders
from launcher.jobs.specification import JobSpec
from launcher.planning.request_parts import CODE_ARCHIVE_HYPERPARAMETER, MPI_PROCESSES_HYPERPARAMETER
from launcher.planning.strategies.smp_parameters import MP_PARAMETERS, PARAMETERS, smp_parameters
from launcher.planning.strategies.strategy import PYTORCH, StartParameters, accelerated_processes
from launcher.planning.strategies.support import crowded

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

    def supported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """What the toolkit cannot pass on; strategies add where their library exists."""
        yield from not_passed_on(job)
        yield from crowded(facts, processes_per_host)

    def image(self, facts: InstanceFacts | None) -> str:
        """PyTorch's own images, which hold the toolkit."""
        return PYTORCH

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, JSON-encoded, and those that tell the toolkit what to start."""
        return {
            **{
                key: json_text(with_folders(value, start.folders))
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

    def entry(self, job: JobSpec, processes_per_host: int, requirements: str | None) -> None:
        """None: the image's own entry point starts the toolkit, which installs requirements.txt by itself."""


def not_passed_on(job: JobSpec) -> Iterator[Finding]:
    """Values that the toolkit would change on their way to the script, or keep to itself."""
    yield from _other_programs(job)
    yield from _unsafe_words(job)
    yield from _reserved_names(job)
    yield from _secrets(job)
    yield from _watchdog(job)
    yield from _gate(job)
    yield from _restarts(job)


def json_text(value: Any) -> str:
    """A value as JSON; an unquoted scalar stays as the user wrote it, so that 1e-3 is sent as 1e-3."""
    return str(value) if isinstance(value, AsWritten) else json.dumps(value)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def unsafe_mpi_options(job: JobSpec) -> Iterator[Finding]:
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
def unsafe_parameters(job: JobSpec) -> Iterator[Finding]:
    """The parameters of smp reach the script's command line as `--mp_parameters a=1,b=2`."""
    parameters = smp_parameters(job)
    if parameters and not _ONE_WORD.fullmatch(_as_argument(parameters)):
        yield job_file.INVALID_VALUE.at(
            PARAMETERS,
            "distribution.options.parameters hold characters that a shell on the hosts would interpret",
            remedy="Use letters, digits and @%+=:,./- in them.",
        )


def _started(job: JobSpec) -> tuple[str, str]:
    """By whom, in words, and what else may be done where the toolkit is chosen and no must."""
    if job.tuning is not None:
        return "a tuning job is started by the images' toolkit", ""
    strategy = job.distribution.strategy.value
    return f"the strategy {strategy} is started by the images' toolkit", ", or use `strategy: torchrun`"


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _other_programs(job: JobSpec) -> Iterator[Finding]:
    started, otherwise = _started(job)
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
def _unsafe_words(job: JobSpec) -> Iterator[Finding]:
    started, otherwise = _started(job)
    folders = folders_of(job)
    for key, value, path in _given(job):
        words = (key, _as_argument(_decoded(json_text(with_folders(value, folders)))))
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
def _reserved_names(job: JobSpec) -> Iterator[Finding]:
    for key, path in {key: path for key, _, path in _given(job)}.items():
        if key.startswith("sagemaker_") or key in (MP_PARAMETERS, "_tuning_objective_metric"):
            yield job_file.INVALID_VALUE.at(
                path,
                f"the hyperparameter {key} is taken by the images' toolkit and not passed to the script",
                remedy="Rename it; what it tells the toolkit follows from `distribution`.",
            )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _secrets(job: JobSpec) -> Iterator[Finding]:
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
def _watchdog(job: JobSpec) -> Iterator[Finding]:
    """Limits that nobody would keep: the toolkit watches nobody."""
    if "watchdog" in job.model_fields_set and job.watchdog != "off":
        started, otherwise = _started(job)
        yield job_file.INVALID_VALUE.at(
            ("watchdog",),
            f"{started}, and it is Slipway's boot that watches the ranks: a stall would last until the "
            "process group's timeout",
            remedy=f"Leave `watchdog` out{otherwise}.",
        )


def _gate(job: JobSpec) -> Iterator[Finding]:
    """A gate that nobody would keep: the toolkit looks at no host."""
    if job.gate in ("on", "warn"):
        started, otherwise = _started(job)
        yield job_file.INVALID_VALUE.at(
            ("gate",),
            f"{started}, and it is Slipway's boot that judges the hosts: nobody would look at them",
            remedy=f"Leave `gate` out{otherwise}.",
        )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _restarts(job: JobSpec) -> Iterator[Finding]:
    """Restarts that nobody would make: the toolkit starts the ranks once."""
    if job.limits.restarts:
        started, otherwise = _started(job)
        yield job_file.INVALID_VALUE.at(
            ("limits", "restarts"),
            f"{started}, and it is Slipway's boot that starts ranks again: the first failure would end "
            "the job",
            remedy=f"Leave `restarts` out{otherwise}; `max_retries` submits the job again.",
        )


def _given(job: JobSpec) -> Iterator[tuple[str, Any, Path]]:
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
