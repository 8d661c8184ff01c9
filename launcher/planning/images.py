"""Which AWS deep learning container runs a job: framework, version, Python, region, processor.

The table `images.json` is generated from the SageMaker SDK's data files
(tools/generate/image_table.py), and a test compares every entry with the SDK's own answer. Its
frameworks are the SDK's: `pytorch`, with the images on Amazon Linux 2023, `pytorch-smp` (SMP version 2, by
PyTorch version), `pytorch-training-compiler`, `pytorch-neuron`, with those for Trainium that the SDK does not
have, and `tensorflow`, the latter from version 2 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from packaging.version import InvalidVersion, Version

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
    """A framework's version in full, and the Python versions that its image comes with.

    `python` is empty where that is not known. `accelerators` are those that it has a driver's library for,
    None where it does not depend on them.
    """

    version: str
    python: tuple[str, ...]
    accelerators: tuple[str, ...] | None = None


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
        near = nearest_versions(full, known)
        raise ImageUnavailableError(
            f"there is no {framework} {version} training image",
            f"Use one of the versions near it: {', '.join(near)}; the newest is {known[-1]}. For another, "
            "give `image` explicitly.",
        )
    if python is not None and release["python"] and python not in release["python"]:
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
    if "tags" in release:
        tag = release["tags"][processor]
    else:
        parts = [full, processor, python or release["python"][-1]]
        parts.append(_tag_suffix(release.get("suffixes", {}), instance_type))
        tag = "-".join(part for part in parts if part)
    return f"{account}.dkr.ecr.{region}.{suffix}/{release['repository']}:{tag}"


def image_release(framework: str, version: str) -> ImageRelease | None:
    """The release that a version or its alias names, or None where there is none."""
    releases = _table()["frameworks"][framework]
    full = releases["aliases"].get(version, version)
    release = releases["versions"].get(full)
    if release is None:
        return None
    accelerators = release.get("accelerators")
    return ImageRelease(full, tuple(release["python"]), None if accelerators is None else tuple(accelerators))


def image_versions(framework: str) -> list[str]:
    """The versions of a framework of the table, in full, oldest first."""
    return list(_table()["frameworks"][framework]["versions"])


def nearest_versions(version: str, known: list[str], *, most: int = 3) -> list[str]:
    """The known versions that are nearest to the given one, the nearest first.

    Releases of one major version are nearer than those of another, and so on down to the patch. What is not a
    version at all is compared as text; the newest, where it is like none.
    """
    try:
        wanted = Version(version)
    except InvalidVersion:
        return nearest(version, known, most=most, likeness=0.5) or known[: -most - 1 : -1]

    def place(release: Version) -> int:
        return (release.major * 1000 + release.minor) * 1000 + release.micro

    # From the newest, which is the better of two that are as far away.
    newest_first = known[::-1]
    return sorted(newest_first, key=lambda other: abs(place(Version(other)) - place(wanted)))[:most]


def is_registry_of_aws(account: str) -> bool:
    """Whether an account is one of those from whose registries AWS gives its training images."""
    return any(account in accounts.values() for accounts in _table()["registries"].values())


def _tag_suffix(suffixes: Mapping[str, str], instance_type: str) -> str:
    for part, suffix in suffixes.items():
        if part and part in instance_type:
            return suffix
    return suffixes.get("", "")


@cache
def _table() -> dict[str, Any]:
    return read_data_file(__file__, "images.json")
