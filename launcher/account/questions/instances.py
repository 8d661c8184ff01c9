"""The hosts' part of the live stage: the image that they run, and where their type is to be had."""

from __future__ import annotations

from typing import Any

from launcher.account.facts import Fact
from launcher.account.images import Image, ImageReference, parse_image, parse_image_uri
from launcher.account.questions.asking import Answers, Question, Service
from launcher.account.questions.wanted import Wanted
from launcher.aws.errors import aws_errors

_ACCEPTED = (
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
)


class InstanceQuestions:
    """What is asked about a job's image and instance type, and what comes of it."""

    def __init__(self, wanted: Wanted) -> None:
        image = parse_image_uri(wanted.image) if wanted.image else None
        self._image: Question[Image] | None = None
        if image is not None:
            # Asked in the registry's own region, so that it is found also where the job's is another.
            ecr = Service("ecr", image.region)
            self._image = ecr.question(f"the image {image.uri}", "ecr:BatchGetImage", fetch_image, image)
        self._zones: Question[frozenset[str]] | None = None
        if wanted.instance_type:
            self._zones = Service("ec2", wanted.region).question(
                f"where {wanted.instance_type} is offered",
                "ec2:DescribeInstanceTypeOfferings",
                fetch_offering_zones,
                wanted.instance_type,
            )

    def questions(self) -> list[Question[Any]]:
        """All that is asked; nothing waits for an answer."""
        return [question for question in (self._image, self._zones) if question is not None]

    def image(self, answers: Answers) -> Fact[Image] | None:
        """The image, None where it is not in ECR."""
        return None if self._image is None else answers.of(self._image)

    def offered_in(self, answers: Answers) -> Fact[frozenset[str]] | None:
        """The availability zones that offer the type; None where the job names no type."""
        return None if self._zones is None else answers.of(self._zones)


def fetch_image(ecr: Any, reference: ImageReference) -> Image:
    """Whether the registry has the image.

    Asked for with the call that a pull begins with: whoever may pull may make it, also from the
    registries of AWS's own images, whose policies need not allow to describe them. Raises AwsRefusal
    where AWS refuses or cannot be reached.
    """
    parts = {"imageTag": reference.tag, "imageDigest": reference.digest}
    with aws_errors(f"look for the image {reference.uri} (ecr:BatchGetImage)"):
        try:
            answer = ecr.batch_get_image(
                registryId=reference.account,
                repositoryName=reference.repository,
                imageIds=[{name: value for name, value in parts.items() if value}],
                acceptedMediaTypes=list(_ACCEPTED),
            )
        except ecr.exceptions.RepositoryNotFoundException:
            return Image(reference.uri, False, reference.region)
    return parse_image(reference, answer)


def fetch_offering_zones(ec2: Any, instance_type: str) -> frozenset[str]:
    """The zones that offer a SageMaker instance type; empty where EC2 offers it nowhere in the region.

    SageMaker's types are EC2's with `ml.` before them. Raises AwsRefusal where AWS refuses or cannot be
    reached.
    """
    with aws_errors(f"look where {instance_type} is offered (ec2:DescribeInstanceTypeOfferings)"):
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [instance_type.removeprefix("ml.")]}],
        )
        return frozenset(each["Location"] for page in pages for each in page["InstanceTypeOfferings"])
