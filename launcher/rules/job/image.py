"""An image that the job file names by its URI: what the URI says of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.account.images import parse_image_uri
from launcher.failure_modes import distribution, images
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.planning.aws_image import aws_image
from launcher.planning.images import image_release, image_versions, is_registry_of_aws, nearest_versions
from launcher.planning.strategies.in_tuning_job import IN_TUNING_JOB
from launcher.rules.job.subject import JobSubject

_REGISTRY = re.compile(r"\d{12}\.dkr[.-]ecr[.-]")
"""How the address of every registry of ECR begins, whatever the partition calls its domain."""


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def image_has_the_toolkit(subject: JobSubject) -> Iterator[Finding]:
    """In a tuning job it has to start the script by itself, where the boot would do so otherwise."""
    job = subject.job
    if job.tuning is None or job.image is None:
        return
    if job.distribution.strategy in IN_TUNING_JOB:
        yield distribution.UNSUPPORTED_COMBINATION.at(
            ("image",),
            f"in a tuning job the image's own entry point starts the script: {job.image} must have the "
            "SageMaker training toolkit, or each training job runs something else",
            remedy="Build it on an AWS deep learning container, or install sagemaker-training in it.",
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def image_is_in_ecr(subject: JobSubject) -> Iterator[Finding]:
    """Training jobs pull from ECR; from another registry only with TrainingImageConfig, which is not sent.

    Source: the SageMaker API reference, AlgorithmSpecification and TrainingImageConfig.
    """
    uri = subject.job.image
    if uri is None or subject.here or _REGISTRY.match(uri):
        return
    yield images.IMAGE_UNAVAILABLE.at(
        ("image",),
        f"{uri} is not the address of an image in Amazon ECR: CreateTrainingJob would refuse it",
        remedy="Copy it into ECR in the job's region and name it as "
        "ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG; or name one of AWS's images by `framework`.",
    )


@finds(Stage.SPEC, images.IMAGE_UNAVAILABLE)
def image_of_aws_is_known(subject: JobSubject) -> Iterator[Finding]:
    """A warning, as AWS may have built images since the table was made."""
    reference = parse_image_uri(subject.job.image or "")
    if reference is None or subject.here or not is_registry_of_aws(reference.account):
        return
    image = aws_image(reference.uri)
    if reference.repository.endswith(("-inference", "-inference-arm64")):
        problem = f"{reference.repository} is made to serve models: it lacks what training needs"
        remedy = "Take the repository of the same name with `training`, or name the image by `framework`."
    elif image is not None and image_release(image.framework, image.version) is None:
        known = image_versions(image.framework)
        problem = f"AWS is not known to have {image.name}, and the pull would fail after waiting for hosts"
        remedy = (
            f"Versions near it are {', '.join(nearest_versions(image.version, known))}, the newest is "
            f"{known[-1]}; `launch check JOB.yaml --live` asks the registry."
        )
    elif reference.tag == "latest":
        problem = f"{reference.uri} names no version, and no tag `latest` is known of AWS's training images"
        remedy = "Name the image by `framework: {version: latest}`, which chooses one and says which."
    else:
        return
    yield images.IMAGE_UNAVAILABLE.at(("image",), problem, remedy=remedy, severity=Severity.WARNING)


@finds(Stage.SPEC, images.DRIVER_MISMATCH)
def image_uses_the_gpus(subject: JobSubject) -> Iterator[Finding]:
    """A warning: an image for CPUs runs on a host with GPUs, and uses none of them."""
    image = aws_image(subject.job.image or "")
    facts = subject.facts
    if image is None or facts is None or subject.here or image.processor != "cpu" or not facts.has_gpus:
        return
    yield images.DRIVER_MISMATCH.at(
        ("image",),
        f"{image.name} is built for CPUs: torch.cuda.is_available() is false in it, and the "
        f"{facts.accelerators} GPUs of {facts.instance_type} stand idle",
        remedy="Take the image with gpu in its tag, name it by `framework`, or choose a type without GPUs.",
        severity=Severity.WARNING,
    )
