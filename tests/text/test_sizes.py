"""Bytes as they are shown."""

from __future__ import annotations

import pytest

from launcher.text.sizes import gibibytes, gigabytes, size_in_words


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (999, "999 B"),
        (999_400, "999 kB"),
        (999_600, "1 MB"),
        (3_400_000, "3.4 MB"),
        (12e9, "12 GB"),
        (1e15, "1 PB"),
        (1.5e18, "1,500 PB"),
    ],
)
def test_a_size_is_shown_in_the_unit_that_fits_it(size: float, words: str) -> None:
    assert size_in_words(size) == words


def test_what_is_compared_with_a_disk_is_in_the_units_of_disks() -> None:
    assert gigabytes(10_000 * 1000**3) == "10,000 GB"
    assert gigabytes(501 * 1000**3) == "501 GB"


def test_memory_is_in_the_units_of_memory() -> None:
    assert gibibytes(40 * 2**30) == "40.0 GiB"
