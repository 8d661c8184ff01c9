"""Which image a job runs in: the version of its framework, the image's URI, and what the image holds.

The image is the user's own, or the AWS deep learning container that the job's strategy needs. A job that
names no version takes the newest patched one that runs it. The same choice is made for the job on its other
instance types, each of which must be able to run it, or a retry there is pointless, and for the job beside
itself without Training Compiler (XLA007).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from packaging.version import Version

from launcher.cluster.instances import InstanceFacts, instance_facts
from launcher.failure_modes import images
from launcher.failure_modes.model import Finding, Path, Refusal, Severity, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.jobs.job_sections import LATEST
from launcher.jobs.specification import Distribution, JobSpec, Strategy
from launcher.planning.images import (
    ImageSoftware,
    ImageUnavailableError,
    find_misfit,
    image_release,
    image_software,
    image_versions,
    is_patched,
    parse_aws_image,
    training_image,
)
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import (
    PYTHON_FIELD,
    TENSORFLOW,
    VERSION_FIELD,
    LaunchStrategy,
    check_framework,
)
from launcher.planning.strategies.toolkit import COMPILER_FRAMEWORK
from launcher.text.values import parse_image_uri


@frozen
class VersionChoice:
    """The version that was chosen for a job, in full, and why."""

    framework: str
    version: str
    reason: str


def choose_version(
    job: JobSpec, strategy: LaunchStrategy, region: str, today: date
) -> tuple[JobSpec, VersionChoice | None]:
    """The job with a version of its framework, and what was chosen where it named none.

    The newest that AWS patches and that all of the job's instance types, the region and the strategy can
    run; where none of them is patched, the newest of these. Where none fits at all it is the newest there
    is, and what is found of it says why it does not fit.
    """
    if job.framework is None or job.framework.version != LATEST:
        return job, None
    facts = instance_facts(job.resources.instance_type)
    table = image_table_of(job, facts, strategy)
    versions = image_versions(table)[::-1]
    fitting = [version for version in versions if _fits(_with_version(job, version), strategy, region)]
    patched = [version for version in fitting if is_patched(table, version, today) is not False]
    version = (patched or fitting or versions)[0]
    if not fitting:
        reason = "the newest there is; none fits"
    elif is_patched(table, version, today) is None:
        reason = "newest that fits"
    else:
        reason = _patch_reason(table, version, bool(patched))
    return _with_version(job, version), VersionChoice(job.framework.name, version, reason)


def _patch_reason(table: str, version: str, patched: bool) -> str:
    software = image_software(table, version)
    until = software.patched_until if software else None
    if not patched:
        return "newest that fits; no patches" + (f" since {until}" if until else "")
    return "newest patched that fits; " + (
        f"patches until {until}" if until else "the end of its patches is not known here"
    )


def _fits(job: JobSpec, strategy: LaunchStrategy, region: str) -> bool:
    """Whether nothing about the version keeps the job from running, on any of its instance types."""
    types = [job.resources.instance_type, *job.resources.instance_types]
    return not any(
        finding.severity is Severity.ERROR
        for instance_type in types
        for finding in _version_findings(job_on_type(job, instance_type), strategy, region)
    )


def _version_findings(job: JobSpec, strategy: LaunchStrategy, region: str) -> Iterator[Finding]:
    facts = instance_facts(job.resources.instance_type)
    yield from choose_image(job, facts, strategy, region)[1]
    processes = strategy.processes_per_host(job, facts)
    for finding in (*check_framework(job), *strategy.find_unsupported(job, facts, processes)):
        if finding.path in (VERSION_FIELD, PYTHON_FIELD):
            yield finding


def _with_version(job: JobSpec, version: str) -> JobSpec:
    framework = None if job.framework is None else job.framework.model_copy(update={"version": version})
    return job.model_copy(update={"framework": framework})


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def choose_image(
    job: JobSpec, facts: InstanceFacts | None, strategy: LaunchStrategy, region: str
) -> tuple[str | None, list[Finding]]:
    """The URI of the image with what keeps it from running there, or None and why no image fits.

    Of the user's own image only what its URI says is judged.
    """
    if job.image is not None or job.framework is None:
        return job.image, [*_check_region(job, region), *_check_machine(job, job.image, facts)]
    wanted, table = job.framework, image_table_of(job, facts, strategy)
    try:
        _refuse_other_accelerator(table, wanted.version, facts)
        image = training_image(
            table,
            wanted.version,
            wanted.python,
            region,
            _processor(facts),
            job.resources.instance_type,
        )
        return image, [*_check_machine(job, image, facts)]
    except ImageUnavailableError as error:
        no_image = images.IMAGE_UNAVAILABLE.at(("framework", "version"), error.message, remedy=error.remedy)
        return None, [no_image]


def image_table_of(job: JobSpec, facts: InstanceFacts | None, strategy: LaunchStrategy) -> str:
    """The framework of the image table that a job's framework and strategy lead to."""
    tensorflow = job.framework is not None and job.framework.name == TENSORFLOW
    return TENSORFLOW if tensorflow else strategy.image_framework(facts)


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def check_patches(job: JobSpec, image: str | None, today: date) -> Iterator[Finding]:
    """An image past AWS's end of patches runs as before; who chooses it should know."""
    known = parse_aws_image(image) if image is not None else None
    if known is None or is_patched(known.framework, known.version, today) is not False:
        return
    software = image_software(known.framework, known.version)
    until = software.patched_until if software else None
    patched = [
        version for version in image_versions(known.framework) if is_patched(known.framework, version, today)
    ]
    name = "TensorFlow" if known.framework == TENSORFLOW else "PyTorch"
    yield images.IMAGE_UNAVAILABLE.at(
        _image_field(job),
        f"AWS no longer patches the image {known.name}"
        + (f" (since {until})" if until else "")
        + "; it runs",
        remedy=f"{name} {', '.join(patched)} get patches, where instance type and strategy run them."
        if patched
        else f"No image of {name} gets patches.",
        severity=Severity.INFO,
        subject="framework.version",
    )


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def _check_region(job: JobSpec, region: str) -> Iterator[Finding]:
    """SageMaker pulls from the registries of the job's own region alone."""
    reference = parse_image_uri(job.image or "")
    if reference is not None and reference.region != region:
        yield images.IMAGE_UNAVAILABLE.at(
            ("image",),
            f"the image is in {reference.region} and the job in {region}: CreateTrainingJob refuses images "
            "of other regions",
            remedy=f"Name the image of AWS in {region} by `framework`, or copy yours into ECR in {region}.",
        )


@finds(Stage.SPEC, images.DRIVER_MISMATCH)
def _check_machine(job: JobSpec, image: str | None, facts: InstanceFacts | None) -> Iterator[Finding]:
    """The image against the machine, as far as both are known."""
    found = find_misfit(image, facts) if image is not None else None
    if found is not None:
        yield images.DRIVER_MISMATCH.at(_image_field(job), found.message, remedy=found.remedy)


def _image_field(job: JobSpec) -> Path:
    return ("image",) if job.image is not None else ("framework", "version")


def _refuse_other_accelerator(framework: str, version: str, facts: InstanceFacts | None) -> None:
    """Raise ImageUnavailableError where an image for Neuron devices is from before this one."""
    release = image_release(framework, version)
    if facts is None or release is None:
        return
    if not _is_for_processor(framework, version, facts.accelerator):
        able = [
            other
            for other in image_versions(framework)
            if _is_for_processor(framework, other, facts.accelerator)
        ]
        raise ImageUnavailableError(
            f"the {framework} {release.version} training image is not for {facts.accelerator}",
            f"Use {' or '.join(able)}." if able else "Give `image` explicitly.",
        )


def _is_for_processor(framework: str, version: str, accelerator: str | None) -> bool:
    release = image_release(framework, version)
    return release is not None and (release.accelerators is None or accelerator in release.accelerators)


def _processor(facts: InstanceFacts | None) -> str:
    """The image table's word; an unknown instance type counts as one with GPUs."""
    if facts is None or facts.has_gpus:
        return "gpu"
    return "neuron" if facts.accelerator_kind == "neuron" else "cpu"


def job_on_type(job: JobSpec, instance_type: str) -> JobSpec:
    """The same job on another instance type, with no others to try."""
    alone = {"instance_type": instance_type, "instance_types": [], "instance_choice": "launcher"}
    resources = job.resources.model_copy(update=alone)
    return job.model_copy(update={"resources": resources})


def check_alternatives(
    job: JobSpec, strategy: LaunchStrategy, region: str, known: Sequence[Finding]
) -> Iterator[Finding]:
    """What keeps the job from running on its other instance types, at each type's place in the job file.

    What was found for its own type (`known`) is not said again.
    """
    said = {(found.code, found.message) for found in known}
    for index, instance_type in enumerate(job.resources.instance_types):
        other, facts = job_on_type(job, instance_type), instance_facts(instance_type)
        processes = strategy.processes_per_host(other, facts)
        _, no_image = choose_image(other, facts, strategy, region)
        path = ("resources", "instance_types", index)
        for found in (*strategy.find_unsupported(other, facts, processes), *no_image):
            if (found.code, found.message) not in said:
                message = f"on {instance_type}, another instance type of this job: {found.message}"
                yield replace(found, message=message, path=path, subject=dotted(path))


def native_counterpart(job: JobSpec) -> JobSpec:
    """The same job on native PyTorch: torchrun in the image of the same PyTorch and Python version.

    Everything else is equal: hosts, processes, data, hyperparameters, environment and limits. Raises
    Refusal for a job without the compiler, and for one that brings its own image, whose native
    counterpart is not known here.
    """
    if job.distribution.strategy is not Strategy.TORCH_XLA:
        raise Refusal(
            f"the job runs without Training Compiler (strategy {job.distribution.strategy.value}).",
            "A pair is made of a job with `strategy: torch_xla`.",
        )
    if job.framework is None:
        raise Refusal(
            "the job brings its own image, so the same image without the compiler is not known.",
            "Name `framework` instead of `image`.",
        )
    release = image_release(COMPILER_FRAMEWORK, job.framework.version)
    framework = job.framework
    if release is not None:
        # Both images are named in full, so that neither falls back to a newer Python by default.
        python = framework.python or release.python[-1]
        framework = framework.model_copy(update={"version": release.version, "python": python})
    native = Distribution(strategy=Strategy.TORCHRUN, processes_per_host=job.distribution.processes_per_host)
    return job.model_copy(update={"framework": framework, "distribution": native})


def job_image_software(job: JobSpec, facts: InstanceFacts | None) -> ImageSoftware | None:
    """The software of the image that the job names, or that its framework and strategy lead to.

    None for an image of the user's own, and for one that the table does not know.
    """
    if job.image is not None:
        named = parse_aws_image(job.image)
        return image_software(named.framework, named.version) if named is not None else None
    if job.framework is None:
        return None
    try:
        table = TENSORFLOW if job.framework.name == TENSORFLOW else strategy_of(job).image_framework(facts)
    except ImageUnavailableError:
        return None
    return image_software(table, job.framework.version)


def efa_plugin_version(software: ImageSoftware | None) -> Version | None:
    """The version of the aws-ofi-nccl plugin in an image; None where nobody knows it."""
    return Version(software.efa_plugin) if software and software.efa_plugin else None
