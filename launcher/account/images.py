"""A training image in Amazon ECR, as plain data: whether the registry has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.failure_modes.refusal import AwsRefusal

_URI = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\."
    r"(?:amazonaws\.com(?:\.cn)?|on\.aws|on\.amazonwebservices\.com\.cn)/"
    r"(?P<repository>[a-z0-9._/-]+?)(?::(?P<tag>[\w.-]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_ABSENT = frozenset(
    {"ImageNotFound", "ImageTagDoesNotMatchDigest", "InvalidImageDigest", "InvalidImageTag"},
)


@dataclass(frozen=True, slots=True)
class ImageReference:
    """What an image's URI in ECR says; without a tag and a digest the tag is `latest`."""

    uri: str
    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None


@dataclass(frozen=True, slots=True)
class Image:
    """A training image in a registry; `exists` is false where the registry has no such tag or digest.

    `region` is that of the registry, None where the URI does not say.
    """

    uri: str
    exists: bool
    region: str | None = None


def parse_image_uri(uri: str) -> ImageReference | None:
    """The parts of an image's URI; None where it is not in ECR.

    Source: ECR user guide, registries (the endpoints `dkr.ecr` and, over IPv4 and IPv6, `dkr-ecr`).
    """
    match = _URI.fullmatch(uri)
    if match is None:
        return None
    tag = match["tag"] or (None if match["digest"] else "latest")
    return ImageReference(uri, match["account"], match["region"], match["repository"], tag, match["digest"])


def parse_image(reference: ImageReference, answer: Mapping[str, Any]) -> Image:
    """The image from what BatchGetImage answers.

    Raises AwsRefusal where ECR has the image but cannot hand it out.
    """
    for failure in answer.get("failures", ()):
        if failure.get("failureCode") in _ABSENT:
            return Image(reference.uri, False, reference.region)
        raise AwsRefusal(
            f"ECR cannot hand out the image {reference.uri}: {failure.get('failureCode')}: "
            f"{failure.get('failureReason', '')}.",
            "Correct what the message names, then try again.",
        )
    return Image(reference.uri, bool(answer.get("images")), reference.region)
