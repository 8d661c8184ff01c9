"""Which AWS deep learning container runs a job: framework, version, Python, region, processor.

The table `images.json` is generated from the SageMaker SDK's data files
(scripts/generate_image_table.py), and a test compares every entry with the SDK's own answer. Its
frameworks are the SDK's: `pytorch`, `pytorch-smp` (SMP version 2, by PyTorch version),
`pytorch-training-compiler`, `pytorch-neuron` and `tensorflow`, the latter from version 2 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from launcher.facts.data_file import read_data_file
from launcher.text.nearest import nearest


class ImageUnavailableError(Exception):
    """No image fits: `message` says what was asked for, `remedy` what there is."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class ImageRelease:
    """A framework's version in full, and the Python versions that its image comes with."""

    version: str
    python: tuple[str, ...]


def training_image(
    framework: str, version: str, python: str | None, region: str, processor: str, instance_type: str = ""
) -> str:
    """The URI of the training image.

    `version` may be an alias (2.8 for 2.8.0), `python` None for the newest that the version has,
    `processor` is `cpu`, `gpu` or `neuron`, and `instance_type` matters where a release has images for
    several drivers. Raises ImageUnavailableError, naming the nearest there is.
    """
    table = _table()
    releases = table["frameworks"][framework]
    full = releases["aliases"].get(version, version)
    release = releases["versions"].get(full)
    if release is None:
        known = list(releases["versions"])
        near = nearest(full, known, most=3, likeness=0.5) or known[-3:]
        raise ImageUnavailableError(
            f"there is no {framework} {version} training image",
            f"Use one of the versions near it: {', '.join(near)}; the newest is {known[-1]}. For another, "
            "give `image` explicitly.",
        )
    if python is not None and python not in release["python"]:
        raise ImageUnavailableError(
            f"the {framework} {full} training image has no {python}",
            f"Use {' or '.join(release['python'])}.",
        )
    if processor not in release["processors"]:
        raise ImageUnavailableError(
            f"there is no {framework} {full} training image for {processor}",
            "Choose an instance type with GPUs." if processor == "cpu" else "Give `image` explicitly.",
        )
    account = table["registries"][release["registries"]].get(region)
    if account is None:
        raise ImageUnavailableError(
            f"the {framework} {full} training image is not in the region {region}",
            "Choose another region, or copy the image into a registry of your own and give `image`.",
        )
    suffix = table["dns_suffixes"].get(region, "amazonaws.com")
    parts = [full, processor, python or release["python"][-1]]
    parts.append(_tag_suffix(release.get("suffixes", {}), instance_type))
    tag = "-".join(part for part in parts if part)
    return f"{account}.dkr.ecr.{region}.{suffix}/{release['repository']}:{tag}"


def image_release(framework: str, version: str) -> ImageRelease | None:
    """The release that a version or its alias names, or None where there is none."""
    releases = _table()["frameworks"][framework]
    full = releases["aliases"].get(version, version)
    release = releases["versions"].get(full)
    return None if release is None else ImageRelease(full, tuple(release["python"]))


def image_versions(framework: str) -> list[str]:
    """The versions of a framework of the table, in full, oldest first."""
    return list(_table()["frameworks"][framework]["versions"])


def _tag_suffix(suffixes: Mapping[str, str], instance_type: str) -> str:
    for part, suffix in suffixes.items():
        if part and part in instance_type:
            return suffix
    return suffixes.get("", "")


@cache
def _table() -> dict[str, Any]:
    return read_data_file(__file__, "images.json")
