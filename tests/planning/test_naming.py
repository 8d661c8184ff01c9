"""Unique names."""

from __future__ import annotations

import re
from unittest import mock

import pytest

from launcher.jobs.specification import MAX_NAME_LENGTH
from launcher.planning import naming


def test_the_longest_base_makes_a_name_that_the_service_takes() -> None:
    name = naming.job_name("x" * MAX_NAME_LENGTH, naming.unique_part())
    assert len(name) == 63
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name)


def test_names_sort_by_time() -> None:
    with mock.patch.object(naming.time, "time_ns", side_effect=[10**15, 10**18, 10**18 + 10**6]):
        parts = [naming.unique_part() for _ in range(3)]
    assert parts == sorted(parts)


@pytest.mark.parametrize("times", [1000])
def test_parts_of_one_moment_differ(times: int) -> None:
    with mock.patch.object(naming.time, "time_ns", return_value=10**18):
        assert len({naming.unique_part() for _ in range(times)}) == times
