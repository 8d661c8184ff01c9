"""`watchdog` of the job file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.jobs.load import load_job
from launcher.jobs.watchdog import PAUSES, STALL_SECONDS, WatchdogLimits
from slipway.watchdog import beats

WriteJob = Callable[..., Path]


@pytest.mark.parametrize(
    ("watchdog", "said"),
    [
        ("fast", "`watchdog`: 'fast' is neither off nor a mapping of limits"),
        ({"stall": "-3s"}, "`watchdog.stall`: '-3s' is not a duration"),
        ({"stall": 0}, "`watchdog.stall`: 0 is not valid"),
        ({"first": "30m"}, "unknown field `watchdog.first`"),
    ],
)
def test_a_mistake_is_one_error_at_its_field(write_job: WriteJob, watchdog: Any, said: str) -> None:
    loaded = load_job(write_job(watchdog=watchdog))
    assert loaded.spec is None
    (found,) = loaded.findings
    assert said in found.message


@pytest.mark.parametrize(
    ("watchdog", "read"),
    [("off", "off"), ({"stall": "10m"}, WatchdogLimits(stall=600)), ({}, WatchdogLimits())],
)
def test_off_and_limits_are_taken(write_job: WriteJob, watchdog: Any, read: object) -> None:
    spec = load_job(write_job(watchdog=watchdog)).spec
    assert spec is not None
    assert spec.watchdog == read


def test_the_defaults_are_those_of_the_boot() -> None:
    assert (STALL_SECONDS, PAUSES) == (beats.SHORTEST_STALL, beats.PAUSES)
