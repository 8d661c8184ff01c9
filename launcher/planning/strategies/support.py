"""Where a strategy's library exists, and how many processes the devices bear."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase

from launcher.cluster.instances import InstanceFacts, instance_facts, training_instance_types
from launcher.failure_modes import distribution
from launcher.failure_modes.model import Figure, Finding, Source, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.aws_image import aws_image
from launcher.planning.images import image_release, image_versions
from launcher.planning.strategies.strategy import PYTORCH, TENSORFLOW
from launcher.text.nearest import nearest

INSTANCE_TYPE = ("resources", "instance_type")
VERSION = ("framework", "version")
PYTHON = ("framework", "python")

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


@dataclass(frozen=True, slots=True)
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
def unsupported(support: Support, job: JobSpec) -> Iterator[Finding]:
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
            INSTANCE_TYPE,
        )
    if job.image is not None:
        yield from _absent_from(job.image, support, title, elsewhere)
    if job.framework is None or (job.framework.name == TENSORFLOW) != (support.framework == TENSORFLOW):
        return  # another framework's job has a finding of its own
    versions = support.versions()
    release = image_release(support.framework, job.framework.version)
    if release is None or release.version not in versions:
        yield _unsupported(
            f"{support.library} is not in the images of {title} {job.framework.version}",
            f"Use {title} {_nearest(job.framework.version, versions)}; it comes with "
            f"{', '.join(versions)}. Others run with {elsewhere.partition(',')[0]}.",
            VERSION,
        )
    elif job.framework.python is not None and job.framework.python not in release.python:
        yield _unsupported(
            f"{support.library} for {title} {release.version} has no image with {job.framework.python}",
            f"Use {' or '.join(release.python)}.",
            PYTHON,
        )


def _absent_from(uri: str, support: Support, title: str, elsewhere: str) -> Iterator[Finding]:
    """One of AWS's images that does not hold the library; those of others may."""
    image = aws_image(uri)
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
def framework_is_started(job: JobSpec) -> Iterator[Finding]:
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
            VERSION,
        )


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def python_runs_the_boot(job: JobSpec, table: str) -> Iterator[Finding]:
    """PyTorch's images before 1.9 have Python 3.6 or older and no torchrun; in a tuning job none boots."""
    if job.tuning is not None:
        return
    path: tuple[str, ...] = VERSION
    image = aws_image(job.image) if job.image is not None else None
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
def gpus_or_cpus(job: JobSpec, facts: InstanceFacts | None) -> Iterator[Finding]:
    """mpirun knows nothing of Neuron cores, which AWS's images drive by torchrun alone."""
    if facts is not None and facts.accelerator_kind == "neuron":
        yield _unsupported(
            f"{job.distribution.strategy.value} does not start processes on {facts.accelerator} devices",
            "Use `strategy: torchrun`.",
            ("distribution", "strategy"),
        )


@finds(Stage.SPEC, distribution.MORE_PROCESSES_THAN_DEVICES)
def crowded(facts: InstanceFacts | None, processes_per_host: int | None) -> Iterator[Finding]:
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
def processes_are_known(job: JobSpec, processes_per_host: int | None) -> Iterator[Finding]:
    """An instance type that is not known here does not say how many processes its hosts bear."""
    if processes_per_host is None:
        yield distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.at(
            INSTANCE_TYPE,
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
