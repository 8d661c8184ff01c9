"""The tables of images against AWS's own descriptions of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from launcher.planning.images import image_release, image_software, image_versions
from tools.facts.comparison import Comparison, Figure, compare
from tools.facts.references import quoted

FRAMEWORKS: Final = {
    "pytorch": "pytorch",
    "pytorch-training": "pytorch",
    "pytorch-training-neuronx": "pytorch-neuron",
    "tensorflow-training": "tensorflow",
}
"""Our names of what is in AWS's repositories."""


def releases() -> Iterator[Comparison]:
    """Which images there are, with which Python: made from the SDK, and AWS says it again."""
    quotation = quoted("aws/deep-learning-containers")
    yield compare(str(quotation), _releases(quotation.rows), independent=True)


def software() -> Iterator[Comparison]:
    """What the images hold and until when they are patched."""
    quotation = quoted("aws/deep-learning-containers")
    yield compare(str(quotation), _software(quotation.rows), independent=False)


def _releases(rows: Mapping[str, Any]) -> Iterator[Figure]:
    for framework, version, image, row in _images(rows):
        yield f"{image}, an image of the table", version in image_versions(framework), True
        release = image_release(framework, version)
        if release is not None and release.python:
            yield f"Python of {image}", row["python"] in release.python, True


def _software(rows: Mapping[str, Any]) -> Iterator[Figure]:
    for framework, version, image, row in _images(rows):
        ours = image_software(framework, version)
        if ours is None:
            continue
        if "eop" in row:
            yield f"patch end of {image}", str(ours.patched_until), row["eop"]
        if "cuda" in row and ours.cuda is not None:
            yield f"CUDA of {image}", f"cu{ours.cuda.replace('.', '')}", row["cuda"]


def _images(rows: Mapping[str, Any]) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Framework, version, the image's name and what AWS says of it."""
    for image, row in rows.items():
        repository, _, tag = image.partition(":")
        yield FRAMEWORKS[repository], tag.split("-")[0], image, row
