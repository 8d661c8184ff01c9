"""Jobs in a list: whole names, whatever the terminal's width."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from launcher.backends.interface import JobState, JobSummary
from launcher.cli.job_table import job_lines

CREATED = datetime(2026, 8, 20, 11, 30, tzinfo=UTC)
LONG = "lightning-boring-01m805e3hkrzq6weg"


def jobs(*names: str) -> list[JobSummary]:
    ended = CREATED + timedelta(hours=12, minutes=34, seconds=56)
    states = [(JobState.STOPPED, "MaxRuntimeExceeded", ended), (JobState.IN_PROGRESS, "Training", None)]
    return [
        JobSummary(name, *states[number % 2][:2], CREATED, states[number % 2][2])
        for number, name in enumerate(names)
    ]


def lines(width: int, *names: str) -> list[str]:
    return [line.plain for line in job_lines(jobs(*names), width)]


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("name", ["a-1", "digits-01m805e3hkrzq6weg", LONG, "n" * 63])
def test_a_list_fits_the_terminal_with_whole_names(name: str, width: int) -> None:
    shown = lines(width, name, "b-2")
    assert max(map(len, shown)) <= width
    assert shown[1].split()[0] == name
    assert "Stopped" in shown[1]


def test_what_has_room_is_shown_in_full() -> None:
    heads, first, second = lines(100, LONG, "b-2")
    assert heads.split() == ["NAME", "STATE", "CREATED", "TOOK"]
    assert "Stopped (MaxRuntimeExceeded)  2026-08-20" in first
    assert first.endswith("  12h34m")
    assert "InProgress (Training)" in second


def test_the_phase_goes_before_the_time() -> None:
    first = lines(80, LONG)[1]
    assert "MaxRuntimeExceeded" not in first
    assert first.split()[1:3] == ["Stopped", "2026-08-20"]


def test_a_name_wider_than_the_terminal_is_still_whole() -> None:
    assert lines(40, "n" * 63)[1].startswith("n" * 63)
