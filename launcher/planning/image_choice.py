"""The image of a job: the user's own, or the AWS deep learning container that its strategy needs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from launcher.account.images import parse_image_uri
from launcher.cluster.instances import InstanceFacts
from launcher.failure_modes import images
from launcher.failure_modes.model import Finding, Path, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.aws_image import aws_image
from launcher.planning.image_fit import misfit
from launcher.planning.image_software import image_software, is_patched
from launcher.planning.images import ImageUnavailableError, image_release, image_versions, training_image
from launcher.planning.strategies.strategy import TENSORFLOW, LaunchStrategy


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def choose_image(
    job: JobSpec, facts: InstanceFacts | None, strategy: LaunchStrategy, region: str
) -> tuple[str | None, list[Finding]]:
    """The URI of the image with what keeps it from running there, or None and why no image fits.

    Of the user's own image only what its URI says is judged.
    """
    if job.image is not None or job.framework is None:
        return job.image, [*_elsewhere(job, region), *_unfit(job, job.image, facts)]
    wanted, table = job.framework, image_table_of(job, facts, strategy)
    try:
        _check_accelerator(table, wanted.version, facts)
        image = training_image(
            table,
            wanted.version,
            wanted.python,
            region,
            _processor(facts),
            job.resources.instance_type,
        )
        return image, [*_unfit(job, image, facts)]
    except ImageUnavailableError as error:
        no_image = images.IMAGE_UNAVAILABLE.at(("framework", "version"), error.message, remedy=error.remedy)
        return None, [no_image]


def image_table_of(job: JobSpec, facts: InstanceFacts | None, strategy: LaunchStrategy) -> str:
    """The framework of the image table that a job's framework and strategy lead to."""
    tensorflow = job.framework is not None and job.framework.name == TENSORFLOW
    return TENSORFLOW if tensorflow else strategy.image(facts)


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def no_longer_patched(job: JobSpec, image: str | None, today: date) -> Iterator[Finding]:
    """An image past AWS's end of patches runs as before; who chooses it should know."""
    known = aws_image(image) if image is not None else None
    if known is None or is_patched(known.framework, known.version, today) is not False:
        return
    software = image_software(known.framework, known.version)
    until = software.patched_until if software else None
    patched = [
        version for version in image_versions(known.framework) if is_patched(known.framework, version, today)
    ]
    name = "TensorFlow" if known.framework == TENSORFLOW else "PyTorch"
    yield images.IMAGE_UNAVAILABLE.at(
        _named_at(job),
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
def _elsewhere(job: JobSpec, region: str) -> Iterator[Finding]:
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
def _unfit(job: JobSpec, image: str | None, facts: InstanceFacts | None) -> Iterator[Finding]:
    """The image against the machine, as far as both are known."""
    found = misfit(image, facts) if image is not None else None
    if found is not None:
        yield images.DRIVER_MISMATCH.at(_named_at(job), found.message, remedy=found.remedy)


def _named_at(job: JobSpec) -> Path:
    return ("image",) if job.image is not None else ("framework", "version")


def _check_accelerator(framework: str, version: str, facts: InstanceFacts | None) -> None:
    """Raise ImageUnavailableError where an image for Neuron devices is from before this one."""
    release = image_release(framework, version)
    if facts is None or release is None:
        return
    if not _is_for(framework, version, facts.accelerator):
        able = [other for other in image_versions(framework) if _is_for(framework, other, facts.accelerator)]
        raise ImageUnavailableError(
            f"the {framework} {release.version} training image is not for {facts.accelerator}",
            f"Use {' or '.join(able)}." if able else "Give `image` explicitly.",
        )


def _is_for(framework: str, version: str, accelerator: str | None) -> bool:
    release = image_release(framework, version)
    return release is not None and (release.accelerators is None or accelerator in release.accelerators)


def _processor(facts: InstanceFacts | None) -> str:
    """The image table's word; an unknown instance type counts as one with GPUs."""
    if facts is None or facts.has_gpus:
        return "gpu"
    return "neuron" if facts.accelerator_kind == "neuron" else "cpu"
