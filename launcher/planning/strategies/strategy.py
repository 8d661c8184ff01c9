"""The shape that every strategy has, those whose script the boot starts, and what each strategy checks of a
job.

Checked are options, programs, libraries and processes. torchrun: one process per accelerator, started by
PyTorch's own launcher on every host. none: the script alone, one process per host. smp version 2 is carried
out by the boot as well, in `model_parallel`. What a strategy needs in the environment stands with the other
settings, in `launcher.planning.settings`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any, Protocol

from launcher.cluster.instances import InstanceFacts, instance_facts, training_instance_types
from launcher.documents import AsWritten
from launcher.failure_modes import distribution, job_file, training_script
from launcher.failure_modes.model import Figure, Finding, Source, Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.jobs.script_inputs import RESERVED_CHANNEL, channel_folder
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.images import image_release, image_versions, parse_aws_image
from launcher.planning.request_view import (
    ARGUMENT_STYLE_OPTION,
    CHECKPOINT_SYNC_OPTION,
    ENTRY_POINT_OPTION,
    FIRST_STEP_OPTION,
    GATE_OPTION,
    MODULE_OPTION,
    PROCESSES_OPTION,
    REQUIREMENTS_OPTION,
    RESTARTS_OPTION,
    STALL_OPTION,
)
from launcher.source.packaging import BOOT_NAME, SOURCE_NAME
from launcher.text.values import nearest

PYTORCH = "pytorch"
PYTORCH_NEURON = "pytorch-neuron"
TENSORFLOW = "tensorflow"
"""Frameworks of the image table that several strategies use."""


@frozen
class Entry:
    """The container's command, as ContainerEntrypoint and ContainerArguments take it."""

    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]


@frozen
class StartParameters:
    """What the start of a job's script depends on and is known only once it has a name and a destination.

    `archive` is the URI of the packed source, `folders` the paths of the container's folders by the names of
    their variables.
    """

    job_name: str
    region: str
    archive: str
    processes_per_host: int
    folders: Mapping[str, str]


class LaunchStrategy(Protocol):
    """What the plan asks of a strategy. `facts` is None for an unknown instance type.

    `archive_name` is how the packed source is called where the strategy's launcher looks for it.
    `with_boot` says who starts the script: the boot, or the training toolkit of the image.
    """

    archive_name: str
    with_boot: bool

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Processes on each host; None where only the user can say, and did not."""
        ...

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Everything that keeps the strategy from running the job as it is described."""
        ...

    def image_framework(self, facts: InstanceFacts | None) -> str:
        """The framework of the image table whose images the strategy needs."""
        ...

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The request's hyperparameters; asked only of a job whose values are all valid."""
        ...

    def container_command(
        self, job: JobSpec, processes_per_host: int, requirements: str | None
    ) -> Entry | None:
        """The container's command; None lets the image's own training toolkit start the script.

        `requirements` is the file whose packages are installed first, if any.
        """
        ...


def accelerated_processes(job: JobSpec, facts: InstanceFacts | None) -> int | None:
    """The user's number, else one per GPU or Neuron core, else 1 on a host without them.

    None for an unknown instance type without a number of the user's.
    """
    return job.distribution.processes_per_host or (facts.processes_per_host if facts else None)


def world_size(job: JobSpec, processes_per_host: int) -> int:
    """The processes of the whole job: as many on every host, under every strategy."""
    return job.resources.instance_count * processes_per_host


# Where a strategy's library exists, and how many processes the devices bear.


INSTANCE_TYPE_FIELD = ("resources", "instance_type")
VERSION_FIELD = ("framework", "version")
PYTHON_FIELD = ("framework", "python")

_IMAGES = Source("SageMaker SDK: image_uri_config/tensorflow.json", date(2026, 11, 22))
_PYTORCH_IMAGES = Source("SageMaker SDK: image_uri_config/pytorch.json", date(2026, 11, 22))
FIGURES = (
    Figure("3.8", "the oldest Python of the boot, a bound of our own", None),
    Figure("2.6", "TensorFlow whose images have it", _IMAGES),
    Figure("1.9", "PyTorch whose images have it", _PYTORCH_IMAGES),
)
_JUDGED_BY_VERSION = (
    "pytorch", "pytorch-training", "pytorch-trcomp-training", "smdistributed-modelparallel",
)  # fmt: skip
"""AWS's repositories whose tags say all: those of Hugging Face are built on them, with what they add."""

_WITHOUT_PARALLEL_LIBRARIES = ("2.0.1-gpu-py310-cu121", "2.0-gpu-py310-cu121")
"""Second builds of a version, without SMDDP and SMP: sagemaker 2.199.0, estimator.py,
UNSUPPORTED_DLC_IMAGE_FOR_SM_PARALLELISM."""

_BEFORE_THE_BOOT = frozenset({"py2", "py3", "py36", "py37"})


@frozen
class Support:
    """What a library runs on.

    `library` is its name in a sentence, `instance_types` patterns of the types that it knows,
    `framework` the table of its images, `oldest` and `newest` bound the framework's version where the images
    of the table hold the library in some versions only.
    """

    library: str
    instance_types: tuple[str, ...]
    framework: str = PYTORCH
    oldest: str | None = None
    newest: str | None = None

    def versions(self) -> list[str]:
        """The versions of the framework that it comes with, oldest first."""
        return [
            version
            for version in image_versions(self.framework)
            if (self.oldest is None or _numbers(version) >= _numbers(self.oldest))
            and (self.newest is None or _numbers(version) <= _numbers(self.newest))
        ]


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def check_support(support: Support, job: JobSpec) -> Iterator[Finding]:
    """The instance type, PyTorch and Python version against what the library runs on.

    Of an image of the user's own only AWS's are judged: what another holds is not known here.
    """
    instance_type = job.resources.instance_type
    title, elsewhere = "PyTorch", "`strategy: torchrun`, which runs on all of them"
    if support.framework == TENSORFLOW:
        title, elsewhere = "TensorFlow", "`strategy: mpi`, which runs on all types with GPUs"
    if not any(fnmatchcase(instance_type, pattern) for pattern in support.instance_types):
        near = _nearest_type(instance_type, support.instance_types)
        yield _unsupported(
            f"{support.library} does not run on {instance_type}",
            f"Use {near}, or another type of {', '.join(support.instance_types)}; or {elsewhere}.",
            INSTANCE_TYPE_FIELD,
        )
    if job.image is not None:
        yield from _check_image(job.image, support, title, elsewhere)
    if job.framework is None or (job.framework.name == TENSORFLOW) != (support.framework == TENSORFLOW):
        return  # another framework's job has a finding of its own
    versions = support.versions()
    release = image_release(support.framework, job.framework.version)
    if release is None or release.version not in versions:
        yield _unsupported(
            f"{support.library} is not in the images of {title} {job.framework.version}",
            f"Use {title} {_nearest(job.framework.version, versions)}; it comes with "
            f"{', '.join(versions)}. Others run with {elsewhere.partition(',')[0]}.",
            VERSION_FIELD,
        )
    elif job.framework.python is not None and job.framework.python not in release.python:
        yield _unsupported(
            f"{support.library} for {title} {release.version} has no image with {job.framework.python}",
            f"Use {' or '.join(release.python)}.",
            PYTHON_FIELD,
        )


def _check_image(uri: str, support: Support, title: str, elsewhere: str) -> Iterator[Finding]:
    """One of AWS's images that does not hold the library; those of others may."""
    image = parse_aws_image(uri)
    known = image is not None and image.repository in _JUDGED_BY_VERSION
    # From the tag's begin: 2.2.0-gpu-py310-cu121 has the libraries.
    without = uri.replace("/", ":").rpartition(":")[2].startswith(_WITHOUT_PARALLEL_LIBRARIES)
    if image is not None and known and not without and support.framework != TENSORFLOW:
        release = image_release(image.framework, image.version)
        without = image.framework != support.framework or (
            release is not None and release.version not in support.versions()
        )
    if without:
        versions = support.versions()
        yield _unsupported(
            f"{support.library} is not in the image {image.name if image else uri}",
            f"Name `framework` with {title} {versions[-1]}, the newest that it comes with; or {elsewhere}.",
            ("image",),
        )


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def check_framework(job: JobSpec) -> Iterator[Finding]:
    """TensorFlow's images have neither torchrun nor the libraries for PyTorch; the boot needs Python 3.8."""
    if job.framework is None or job.framework.name != TENSORFLOW:
        return
    strategy = job.distribution.strategy
    if strategy not in (Strategy.NONE, Strategy.SMDDP, Strategy.MPI):
        yield _unsupported(
            f"the strategy {strategy.value} starts PyTorch, and the job runs in an image of TensorFlow",
            "Use `strategy: smddp`, `mpi` (Horovod) or `none`, or a framework of the name pytorch.",
            ("distribution", "strategy"),
        )
    release = image_release(TENSORFLOW, job.framework.version)
    boots = strategy is Strategy.NONE and job.tuning is None
    if boots and release is not None and not set(release.python).isdisjoint(_BEFORE_THE_BOOT):
        yield _unsupported(
            f"the image of TensorFlow {release.version} has a Python before 3.8, which the boot needs",
            "Use TensorFlow 2.6 or later, or `strategy: mpi`, which the image starts itself.",
            VERSION_FIELD,
        )


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def check_boot_python(job: JobSpec, table: str) -> Iterator[Finding]:
    """PyTorch's images before 1.9 have Python 3.6 or older and no torchrun; in a tuning job none boots."""
    if job.tuning is not None:
        return
    path: tuple[str, ...] = VERSION_FIELD
    image = parse_aws_image(job.image) if job.image is not None else None
    if image is not None and image.repository in _JUDGED_BY_VERSION:
        table, version, path = image.framework, image.version, ("image",)
    elif job.framework is not None and job.framework.name != TENSORFLOW and job.image is None:
        version = job.framework.version
    else:
        return
    release = image_release(table, version)
    if release is not None and not _BEFORE_THE_BOOT.isdisjoint(release.python):
        yield _unsupported(
            f"the image of PyTorch {release.version} has a Python before 3.8, which the boot needs",
            "Use PyTorch 1.9 or later.",
            path,
        )


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def check_accelerators(job: JobSpec, facts: InstanceFacts | None) -> Iterator[Finding]:
    """mpirun knows nothing of Neuron cores, which AWS's images drive by torchrun alone."""
    if facts is not None and facts.accelerator_kind == "neuron":
        yield _unsupported(
            f"{job.distribution.strategy.value} does not start processes on {facts.accelerator} devices",
            "Use `strategy: torchrun`.",
            ("distribution", "strategy"),
        )


@finds(Stage.SPEC, distribution.MORE_PROCESSES_THAN_DEVICES)
def check_crowding(facts: InstanceFacts | None, processes_per_host: int | None) -> Iterator[Finding]:
    """More processes than the host has devices: NCCL refuses two on one."""
    if facts is None or processes_per_host is None or not facts.accelerators:
        return
    if processes_per_host > facts.processes_per_host:
        yield distribution.MORE_PROCESSES_THAN_DEVICES.at(
            ("distribution", "processes_per_host"),
            f"{processes_per_host} processes would share the {facts.processes_per_host} devices of a "
            f"{facts.instance_type}",
            remedy=f"Leave `processes_per_host` out, or set it to {facts.processes_per_host}.",
        )


@finds(Stage.SPEC, distribution.PROCESSES_DIFFER_FROM_ACCELERATORS)
def check_processes(job: JobSpec, processes_per_host: int | None) -> Iterator[Finding]:
    """An instance type that is not known here does not say how many processes its hosts bear."""
    if processes_per_host is None:
        yield distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.at(
            INSTANCE_TYPE_FIELD,
            f"how many accelerators {job.resources.instance_type} has is not known here, so the number "
            "of processes per host cannot be derived",
            remedy="Give `distribution.processes_per_host`: one per GPU of the host.",
            subject="distribution.processes_per_host",
        )


def _unsupported(message: str, remedy: str, path: tuple[str, ...]) -> Finding:
    return distribution.UNSUPPORTED_COMBINATION.at(path, message, remedy=remedy)


def _nearest_type(instance_type: str, patterns: tuple[str, ...]) -> str:
    """The supported type with the most alike accelerators; by name for an unknown type."""
    known = [
        facts
        for facts in map(instance_facts, training_instance_types())
        if facts is not None and any(fnmatchcase(facts.instance_type, pattern) for pattern in patterns)
    ]
    given = instance_facts(instance_type)
    if given is None:
        names = [facts.instance_type for facts in known]
        return (nearest(instance_type, names, likeness=0.0) or names)[0]

    def unlike(facts: InstanceFacts) -> tuple[int, int]:
        memory = (facts.accelerator_memory_mib or 0) - (given.accelerator_memory_mib or 0)
        return abs(facts.accelerators - given.accelerators), abs(memory)

    return min(known, key=unlike).instance_type


def _nearest(version: str, versions: list[str]) -> str:
    """The version that is closest by number: the newest below it, else the oldest there is."""
    below = [known for known in versions if _numbers(known) <= _numbers(version)]
    return below[-1] if below else versions[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


# What may stand in `distribution.options`: each name with the values that it takes.


OPTIONS = ("distribution", "options")

ValueCheck = Callable[[Any], str | None]
"""What a value must be, where it is not; None where it is."""


def whole_number(least: int) -> ValueCheck:
    """Accepts whole numbers from `least` on; a boolean is not one."""

    def check(value: Any) -> str | None:
        right = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if right else f"a whole number, at least {least}"

    return check


def finite_number(least: float, most: float = math.inf) -> ValueCheck:
    """Accepts finite numbers from `least` to `most`; a boolean is not one."""

    def check(value: Any) -> str | None:
        right = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        bound = f", at most {most:g}" if most < math.inf else ""
        return None if right and least <= value <= most else f"a number, at least {least:g}{bound}"

    return check


def one_of_values(*values: Any) -> ValueCheck:
    """Accepts a few values, each with its type: True is not 1."""

    def check(value: Any) -> str | None:
        right = any(type(value) is type(known) and value == known for known in values)
        return None if right else f"one of {', '.join(str(known) for known in values)}"

    return check


def true_or_false(value: Any) -> str | None:
    """Accepts true and false."""
    return None if isinstance(value, bool) else "true or false"


def true_or_one(value: Any) -> str | None:
    """Accepts true and false, and 1 and 0 in their place, as the SageMaker SDK does."""
    return None if isinstance(value, int) and value in (0, 1) else "true or false"


def any_text(value: Any) -> str | None:
    """Accepts strings."""
    return None if isinstance(value, str) else "a string"


def any_mapping(value: Any) -> str | None:
    """Accepts mappings, whose own names are checked separately."""
    return None if isinstance(value, dict) else "a mapping"


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def check_options(
    given: Mapping[str, Any],
    known: Mapping[str, ValueCheck],
    path: tuple[str, ...],
    owner: str,
    below: tuple[str, Collection[str]] = ("", ()),
) -> Iterator[Finding]:
    """Unknown names, with the nearest known, and values of the wrong kind.

    `below` is an option with names of its own, for one of which its place may have been mistaken.
    """
    for name, value in given.items():
        place = (*path, str(name))
        if name in known:
            wanted = known[name](value)
            if wanted is not None:
                yield job_file.INVALID_VALUE.at(
                    place,
                    f"{'.'.join(place)}: {value!r} is not {wanted}",
                    remedy=f"Give {wanted}, or leave it out.",
                )
            continue
        near = nearest(str(name), known)
        listed = f"Known are: {', '.join(sorted(known))}." if known else "It takes none."
        yield job_file.INVALID_VALUE.at(
            place,
            f"{owner} has no option {name!r}; it would be dropped silently",
            remedy=f"Write it below `{'.'.join((*path, below[0]))}`."
            if name in below[1]
            else f"Did you mean `{near[0]}`?"
            if near
            else listed,
        )


# `distribution.options.parameters` of the model parallel library, read in one place.


PARAMETERS_FIELD = (*OPTIONS, "parameters")
"""Where the parameters stand in the job file."""

MP_PARAMETERS = "mp_parameters"
"""The hyperparameter by which they reach the script (the SageMaker SDK version 2 sends the same)."""


def smp_parameters(job: JobSpec) -> dict[str, Any]:
    """The parameters as they are given; none where something other than a mapping stands there.

    That is an error of its own, which the strategies find.
    """
    given = job.distribution.options.get("parameters")
    return given if isinstance(given, dict) else {}


def smp_degree(job: JobSpec, name: str, default: int = 1) -> int:
    """A parallel degree by its name; the default where it is missing or is not a whole number above 0."""
    value = smp_parameters(job).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


# Which programs can be started: Python's own, shell scripts, and with the toolkit whatever can be run.


PYTHON_ENDINGS = ("", ".py", ".pyc", ".pyz")
"""The endings of what Python runs; a script may have none."""

SHELL_ENDING = ".sh"

_SHELL_REMEDY = (
    "Use `strategy: none`: each host then runs the script once, and it starts the ranks itself (`accelerate "
    "launch`, `deepspeed`, `torchrun`), as docs/starting-scripts.md shows. Or name the Python script that it "
    "starts."
)


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def check_python_program(
    job: JobSpec, starter: str, endings: tuple[str, ...] = PYTHON_ENDINGS
) -> Iterator[Finding]:
    """An entry point that is no Python program, where `starter` starts nothing else."""
    entry_point = job.code.entry_point
    if entry_point is None or PurePosixPath(entry_point).suffix in endings:
        return
    is_shell = entry_point.endswith(SHELL_ENDING)
    yield training_script.ENTRY_POINT_MISSING.at(
        ("code", "entry_point"),
        f"{starter} starts Python programs only: {entry_point} would end in a SyntaxError on every host",
        remedy=_SHELL_REMEDY if is_shell else _wrap_remedy(entry_point),
    )


@finds(Stage.SPEC, training_script.ENTRY_POINT_MISSING)
def check_program(job: JobSpec) -> Iterator[Finding]:
    """An entry point that is neither for Python nor for a shell, by its ending."""
    entry_point = job.code.entry_point
    if entry_point is not None and PurePosixPath(entry_point).suffix not in (*PYTHON_ENDINGS, SHELL_ENDING):
        yield training_script.ENTRY_POINT_MISSING.at(
            ("code", "entry_point"),
            f"{entry_point} is neither a Python program nor a shell script (.sh), by its name: Python would "
            "try to run it, and end in a SyntaxError",
            remedy=_wrap_remedy(entry_point),
        )


def _wrap_remedy(entry_point: str) -> str:
    return (
        f'Call it in a shell script: `entry_point: run.sh` with the line `./{entry_point} "$@"`, and '
        "`strategy: none`. Or name a .py file."
    )


# The strategies whose script the boot starts: torchrun, and none.


BOOT_ENTRYPOINT = ("python3", f"{channel_folder(RESERVED_CHANNEL)}/{BOOT_NAME}")
"""What the container runs: the boot, from the code's channel."""


class BootStrategy:
    """A strategy that the boot carries out; `boot_name` is what the boot calls it.

    Arguments and hyperparameters reach the script as a list of words that no shell reads.
    """

    archive_name = SOURCE_NAME
    with_boot = True
    boot_name: str

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """The user's number, else one per GPU or Neuron core; None for an unknown type without a number."""
        return accelerated_processes(job, facts)

    def find_unsupported(
        self, job: JobSpec, facts: InstanceFacts | None, processes_per_host: int | None
    ) -> Iterator[Finding]:
        """Runs on every type and version; finds options, of which it has none, and crowded devices."""
        yield from check_options(job.distribution.options, {}, OPTIONS, f"the strategy {self.boot_name}")
        yield from self.check_startable(job)
        yield from check_boot_python(job, self.image_framework(facts))
        yield from check_crowding(facts, processes_per_host)

    def check_startable(self, job: JobSpec) -> Iterator[Finding]:
        """A program that is not Python's own cannot be started under a launcher of ranks."""
        yield from check_python_program(job, self.boot_name)

    def image_framework(self, facts: InstanceFacts | None) -> str:
        """PyTorch's own images, or those for Neuron devices."""
        neuron = facts is not None and facts.accelerator_kind == "neuron"
        return PYTORCH_NEURON if neuron else PYTORCH

    def hyperparameters(self, job: JobSpec, start: StartParameters) -> dict[str, str]:
        """The user's, as text; the container reads them from a file, where no encoding is undone."""
        return {key: plain_text(value) for key, value in job.hyperparameters.items()}

    def container_command(self, job: JobSpec, processes_per_host: int, requirements: str | None) -> Entry:
        """The boot's command: strategy, processes, script or module, what to install, and the arguments."""
        arguments: tuple[str, ...] = (
            "--strategy", self.boot_name,
            PROCESSES_OPTION, str(processes_per_host),
        )  # fmt: skip
        if job.code.module is not None:
            arguments += (MODULE_OPTION, job.code.module)
        elif job.code.entry_point is not None:
            arguments += (ENTRY_POINT_OPTION, job.code.entry_point)
        if job.code.argument_style != "spaced":
            arguments += (ARGUMENT_STYLE_OPTION, job.code.argument_style)
        arguments += (GATE_OPTION, gate_action(job))
        arguments += watchdog_options(job)
        arguments += (RESTARTS_OPTION, str(job.limits.restarts))
        if requirements is not None:
            arguments += (REQUIREMENTS_OPTION, requirements)
        if job.checkpoint is not None and job.checkpoint.sync == "slipway":
            arguments += (CHECKPOINT_SYNC_OPTION, job.checkpoint.sync)
        if job.code.arguments:
            arguments += ("--", *job.code.arguments)
        return Entry(BOOT_ENTRYPOINT, arguments)


def watchdog_options(job: JobSpec) -> tuple[str, ...]:
    """When the boot takes the job for stalled, always said: a boot that is told nothing watches nobody."""
    if job.watchdog == "off":
        return STALL_OPTION, "off"
    stall = "auto" if job.watchdog.stall is None else str(job.watchdog.stall)
    return STALL_OPTION, stall, FIRST_STEP_OPTION, str(job.watchdog.first_step)


def gate_action(job: JobSpec) -> str:
    """What comes of a host that is not sound: several wait for each other, so it ends their job; one alone
    fails by itself, so it is told."""
    return job.gate or ("on" if job.resources.instance_count > 1 else "warn")


def plain_text(value: Any) -> str:
    """Text as the user wrote it; lists and mappings as JSON."""
    return str(value) if isinstance(value, str | AsWritten) else json.dumps(value)


class Torchrun(BootStrategy):
    """PyTorch's elastic launcher with a static rendezvous on the first host."""

    boot_name = "torchrun"


class SingleProcess(BootStrategy):
    """No launcher: each host runs the script once."""

    boot_name = "none"

    def processes_per_host(self, job: JobSpec, facts: InstanceFacts | None) -> int | None:
        """Always one: without a launcher there is nobody to start more."""
        return 1

    def check_startable(self, job: JobSpec) -> Iterator[Finding]:
        """Python programs and shell scripts; what is neither, by its name, cannot be started."""
        yield from check_program(job)
