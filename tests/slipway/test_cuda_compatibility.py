"""When the image's library for older drivers is loaded, by what drivers say of themselves.

The first version text is from a machine with driver 580.159.04 (2026-11-22), the others have the forms of
NVIDIA's README for the proprietary and the open kernel modules.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.cuda_compatibility import is_loaded, is_older, with_compatibility

OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {0}  Release Build  (dvs-builder@U22)\n"
    "GCC version:  gcc version 12.3.0\n"
)
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {0}  Tue Jan 1 00:00:00 UTC 2026\n"


def of_host(folder: Path, text: str, library: str | None) -> tuple[Path, Path]:
    compat, driver = folder / "compat", folder / "version"
    compat.mkdir()
    if library is not None:
        (compat / f"libcuda.so.{library}").touch()
        (compat / "libcuda.so.1").symlink_to(f"libcuda.so.{library}")
    driver.write_text(text)
    return compat, driver


@pytest.mark.parametrize("text", [OPEN, PROPRIETARY])
@pytest.mark.parametrize(
    ("driver", "library", "needed"),
    [
        ("535.183.01", "550.54.15", True),
        ("550.54.14", "550.54.15", True),
        ("550.54.15", "550.54.15", False),
        ("580.159.04", "580.95.05", False),
        ("1000.1", "580.95.05", False),
    ],
)
def test_an_older_driver_gets_the_library_that_the_image_carries(
    tmp_path: Path, text: str, driver: str, library: str, needed: bool
) -> None:
    folder, version = of_host(tmp_path, text.format(driver), library)
    given = with_compatibility({"LD_LIBRARY_PATH": "/opt/amazon/efa/lib"}, folder, version)
    expected = f"{folder}:/opt/amazon/efa/lib" if needed else "/opt/amazon/efa/lib"
    assert given == {"LD_LIBRARY_PATH": expected}


@pytest.mark.parametrize(
    ("text", "library"),
    [("", "550.54.15"), (OPEN.format("535.1"), None), ("NVRM version: unknown\n", "550.1")],
)
def test_where_there_is_no_driver_or_no_library_nothing_changes(
    tmp_path: Path, text: str, library: str | None
) -> None:
    folder, version = of_host(tmp_path, text, library)
    assert with_compatibility({"A": "1"}, folder, version) == {"A": "1"}
    assert with_compatibility({"A": "1"}, folder, tmp_path / "none") == {"A": "1"}


def test_what_the_user_put_there_is_not_put_there_twice(tmp_path: Path) -> None:
    folder, version = of_host(tmp_path, OPEN.format("535.1"), "550.1")
    once = with_compatibility({}, folder, version)
    assert once == {"LD_LIBRARY_PATH": str(folder)}
    assert is_loaded(once, folder)
    assert with_compatibility(once, folder, version) == once


def test_versions_are_compared_number_by_number() -> None:
    assert is_older("99.9", "535.1")
    assert not is_older("535.10", "535.9")
