"""What AWS's training images hold, by framework and version, and until when AWS patches them.

The table `image_releases.json` is kept by hand, from the places that it names under `source`; which images
there are at all is in `images.json`. None means unknown: no rule may judge by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any

from packaging.version import Version

from launcher.facts.data_file import read_data_file
from launcher.planning.images import image_release


@dataclass(frozen=True, slots=True)
class ImageSoftware:
    """The software of one release of AWS's images.

    `version` is the framework's in full. `cuda` is the toolkit's version (`12.8`), `nccl` and `efa_plugin`
    (aws-ofi-nccl) are those that the image with GPUs loads, `efa_installer` is what brought libfabric.
    `architectures` are the CPUs that it runs on, as in the instance table. `compute_capabilities` are the
    oldest and the newest that its CUDA makes code for. `patched_until` is the last day on which AWS patches
    it.
    """

    framework: str
    version: str
    python: tuple[str, ...]
    cuda: str | None
    nccl: str | None
    efa_installer: str | None
    efa_plugin: str | None
    compute_capabilities: tuple[str, str] | None
    patched_until: date | None
    architectures: tuple[str, ...] = ("x86_64",)
    """AWS builds its training images for SageMaker for x86 alone (the buildspecs' `arch_type`)."""


def image_software(framework: str, version: str) -> ImageSoftware | None:
    """What the image of a release holds; None where the table has no such image.

    `framework` is one of the image table, `version` may be an alias (2.8 for 2.8.0).
    """
    release = image_release(framework, version)
    if release is None:
        return None
    row = _table()["frameworks"].get(framework, {}).get(release.version, {})
    until = row.get("patched_until")
    cuda = row.get("cuda")
    return ImageSoftware(
        framework=framework,
        version=release.version,
        python=release.python,
        cuda=cuda,
        nccl=row.get("nccl"),
        efa_installer=row.get("efa_installer"),
        efa_plugin=row.get("efa_plugin"),
        compute_capabilities=compute_capabilities(cuda) if cuda else None,
        patched_until=date.fromisoformat(until) if until else None,
    )


def compute_capabilities(cuda: str) -> tuple[str, str] | None:
    """The oldest and the newest compute capability that a version of CUDA makes code for."""
    pair = _table()["cuda_gpus"].get(cuda)
    return None if pair is None else (pair[0], pair[1])


def first_cuda_for(capability: str) -> str | None:
    """The oldest version of CUDA of the table that makes code for GPUs of a compute capability."""
    able = [cuda for cuda, pair in _table()["cuda_gpus"].items() if _within(capability, pair)]
    return min(able, key=Version, default=None)


def is_patched(framework: str, version: str, today: date) -> bool | None:
    """Whether AWS still patches a release; None where nothing is known of its end.

    One without a date is as its neighbours are: older than one that has ended it has ended too, and newer
    than all whose end is known it is patched.
    """
    software = image_software(framework, version)
    if software is None:
        return None
    if software.patched_until is not None:
        return today <= software.patched_until
    ends = {
        Version(release): date.fromisoformat(row["patched_until"])
        for release, row in _table()["frameworks"].get(framework, {}).items()
        if "patched_until" in row
    }
    own = Version(software.version)
    if any(own < release and end < today for release, end in ends.items()):
        return False
    return True if ends and own > max(ends) else None


def _within(capability: str, pair: list[str]) -> bool:
    return Version(pair[0]) <= Version(capability) <= Version(pair[1])


@cache
def _table() -> dict[str, Any]:
    return read_data_file(__file__, "image_releases.json")
