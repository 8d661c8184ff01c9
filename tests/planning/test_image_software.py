"""What AWS's images hold, and until when they are patched."""

from __future__ import annotations

from datetime import date

import pytest

from launcher.planning.image_software import (
    compute_capabilities,
    first_cuda_for,
    image_software,
    is_patched,
)
from launcher.planning.images import image_versions


def test_the_software_of_a_release_is_that_of_its_dockerfile() -> None:
    software = image_software("pytorch", "2.13")
    assert software is not None
    assert software.version == "2.13.0"
    assert (software.cuda, software.nccl, software.efa_installer) == ("13.3", "2.29.7", "1.49.0")
    assert software.efa_plugin == "1.20.0"
    assert software.architectures == ("x86_64",)
    assert software.patched_until == date(2027, 7, 20)


def test_what_is_not_known_of_an_image_is_none() -> None:
    old = image_software("pytorch", "1.4.0")
    assert old is not None
    assert (old.cuda, old.efa_plugin, old.compute_capabilities, old.patched_until) == (None,) * 4
    assert image_software("pytorch", "9.9") is None


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_a_newer_release_has_no_older_cuda_and_is_patched_for_longer(framework: str) -> None:
    # From 2.0 on: the last 1.13 was patched for longer than that.
    since = [version for version in image_versions(framework) if version.startswith("2.")]
    known = [image_software(framework, version) for version in since]
    for figure in (
        [tuple(map(int, each.cuda.split("."))) for each in known if each and each.cuda],
        [each.patched_until for each in known if each and each.patched_until],
    ):
        assert len(figure) >= 2
        assert figure == sorted(figure)


def test_every_cuda_of_the_images_says_which_gpus_it_makes_code_for() -> None:
    used = [image_software("pytorch", version) for version in image_versions("pytorch")]
    assert [each.version for each in used if each and each.cuda and not each.compute_capabilities] == []


@pytest.mark.parametrize(
    ("capability", "cuda"),
    [("8.0", "11.3"), ("9.0", "11.8"), ("10.0", "12.8"), ("12.0", "12.8"), ("99", None)],
)
def test_the_first_cuda_for_a_gpu(capability: str, cuda: str | None) -> None:
    assert first_cuda_for(capability) == cuda


def test_cuda_13_makes_no_code_for_v100() -> None:
    assert compute_capabilities("12.9") == ("5.0", "12.1")
    assert compute_capabilities("13.0") == ("7.5", "12.1")


@pytest.mark.parametrize(
    ("version", "day", "patched"),
    [
        ("2.10.0", date(2027, 1, 21), True),
        ("2.10.0", date(2027, 1, 22), False),
        # Older than one that has ended, without a date of its own.
        ("1.9.1", date(2026, 11, 22), False),
        ("2.14", date(2026, 11, 22), True),
    ],
)
def test_a_release_is_patched_until_its_day(version: str, day: date, patched: bool) -> None:
    assert is_patched("pytorch", version, day) is patched


def test_nothing_is_known_of_the_patches_of_neuron_images() -> None:
    assert is_patched("pytorch-neuron", "2.9.0", date(2026, 11, 22)) is None
