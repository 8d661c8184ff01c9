"""The table of jobs on terminals of any width."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from launcher.backends.interface import JobState, JobSummary
from launcher.cli.list_jobs import show_jobs

START = datetime(2026, 8, 20, 11, 30, tzinfo=UTC)
NAME = "lightning-boring-01m805e3hkrzq6weg"


def shown(width: int, *jobs: tuple[str, JobState, str]) -> list[str]:
    stream = io.StringIO()
    summaries = [
        JobSummary(name, state, phase, START, START + timedelta(seconds=1347)) for name, state, phase in jobs
    ]
    show_jobs(Console(file=stream, width=width, force_terminal=True, color_system=None), summaries)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_eighty_columns_hold_the_name_the_state_and_the_whole_time() -> None:
    for line in shown(
        80,
        (NAME, JobState.STOPPED, "MaxRuntimeExceeded"),
        (NAME, JobState.IN_PROGRESS, "Tuning (3 completed, 1 in progress, 12 waiting)"),
    )[1:]:
        assert len(line) <= 80
        assert line.startswith(NAME)
        assert line.endswith("22m27s")


def test_what_stopped_a_job_is_not_cut_in_eighty_columns() -> None:
    for phase, words in (("MaxRuntimeExceeded", "time up"), ("MaxWaitTimeExceeded", "max wait")):
        assert f"Stopped: {words} " in shown(80, (NAME, JobState.STOPPED, phase))[1]


@pytest.mark.parametrize("width", [20, 80])
def test_the_longest_name_is_whole_however_narrow_the_terminal(width: int) -> None:
    (line,) = shown(width, ("x" * 63, JobState.IN_PROGRESS, "DownloadingTrainingImage"))[1:]
    assert line.startswith("x" * 63 + "  InProgress")
    assert line.endswith("22m27s")


def test_a_state_that_says_all_is_not_said_twice() -> None:
    assert f"{NAME}  Completed  2026" in shown(80, (NAME, JobState.COMPLETED, "Completed"))[1]
