"""The contract of launcher/backends/interface.py, the same for every backend."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import (
    BackendError,
    Cursor,
    JobQuery,
    JobState,
    JobStatus,
    LogBatch,
    LogLine,
    UnknownJob,
)
from launcher.failure_modes.model import Severity, Stage
from launcher.failure_modes.registry import CATALOGUE
from tests.backends.places import PLACES, Place
from tests.backends.workplace import eventually

LINES = {f"algo-{host}": [f"line {number} of {host}" for number in range(30)] for host in (1, 2)}
ONE = {"algo-1": ["line 0"]}
ABSENT = "absent-0unique"


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slurm) if name == "slurm" else name for name in PLACES]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, manifest: dict[str, Any]) -> Iterator[Place]:
    with PLACES[request.param](tmp_path, manifest) as place:
        yield place


def start(place: Place, name: str = "digits", lines: dict[str, list[str]] = ONE, end: str = "ends") -> str:
    return place.backend.submit(place.plan(name, lines, end))


def finish(place: Place, name: str) -> JobStatus:
    def final() -> JobStatus | None:
        status = place.backend.describe(name)
        return status if status.state.is_final else None

    return eventually(final)


def read(place: Place, name: str, cursor: Cursor | None = None) -> list[LogBatch]:
    """The batches from a cursor to the first empty one, which is the last of them."""
    batches = [place.backend.read_logs(name, cursor or {})]
    while batches[-1].lines:
        batches.append(place.backend.read_logs(name, batches[-1].cursor))
    return batches


def told(batches: list[LogBatch], host: str) -> list[str]:
    """What the script on a host printed; other lines are the boot's."""
    lines = [line for batch in batches for line in batch.lines]
    return [line.text for line in lines if line.host == host and line.text.startswith("line ")]


def test_a_submitted_job_is_known_by_the_name_that_came_back(place: Place) -> None:
    name = start(place)
    assert name == "digits-0unique"
    status = place.backend.describe(name)
    assert (status.name, place.created()) == (name, [name])
    assert status.hosts in (None, 1)


def test_a_refused_plan_is_refused_and_nothing_is_created(place: Place) -> None:
    plan = place.plan("digits", ONE, "ends")
    finding = CATALOGUE["CODE002"].finding(Stage.SPEC, "no entry point", severity=Severity.ERROR)
    for refused in (replace(plan, findings=(finding,)), replace(plan, request=None)):
        with pytest.raises(BackendError, match="has errors"):
            place.backend.submit(refused)
    assert place.created() == []


def test_a_finding_that_is_accepted_refuses_nothing(place: Place) -> None:
    plan = place.plan("digits", ONE, "ends")
    finding = CATALOGUE["CODE002"].finding(Stage.SPEC, "no entry point", severity=Severity.ERROR)
    name = place.backend.submit(replace(plan, findings=(replace(finding, ignored=True),)))
    assert place.created() == [name]


def test_every_line_comes_once_and_in_the_order_of_its_host(place: Place) -> None:
    name = start(place, lines=LINES)
    batches = read(place, name)
    while not place.backend.describe(name).state.is_final:
        batches += read(place, name, batches[-1].cursor)
    batches += read(place, name, batches[-1].cursor)
    assert {host: told(batches, host) for host in LINES} == LINES
    assert place.backend.read_logs(name, batches[-1].cursor) == LogBatch([], batches[-1].cursor)


def test_a_job_that_has_ended_stays_so_and_its_lines_are_read_as_often_as_asked_for(place: Place) -> None:
    name = start(place, lines=LINES)
    ended = finish(place, name)
    again = place.backend.describe(name)
    assert (ended.state, ended.phase, ended.failure_reason) == (JobState.COMPLETED, "Completed", None)
    assert (again.state, again.phase, again.seconds) == (ended.state, ended.phase, ended.seconds)

    def lines(cursor: Cursor) -> list[LogLine]:
        return [line for batch in read(place, name, cursor) for line in batch.lines]

    batches = read(place, name)
    for batch in batches:
        times = [line.time for line in batch.lines]
        assert times == sorted(times)
    assert lines({}) == [line for batch in batches for line in batch.lines]
    assert lines(batches[0].cursor) == [line for batch in batches[1:] for line in batch.lines]
    place.backend.renew()
    assert place.backend.describe(name).state is JobState.COMPLETED
    renewed = [batches[0], *read(place, name, batches[0].cursor)]
    assert {host: told(renewed, host) for host in LINES} == LINES
    assert [job.name for job in place.backend.jobs(JobQuery())] == [name]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.few_cases("sagemaker-1", "sagemaker-2", "queue-1", "queue-2", "local-2")
def test_a_running_job_that_is_asked_to_stop_once_or_twice_ends_stopped(place: Place, times: int) -> None:
    name = start(place, end="waits")
    place.backend.describe(name)
    for _ in range(times):
        place.backend.stop(name)
    ended = finish(place, name)
    assert (ended.state, ended.failure_reason) == (JobState.STOPPED, None)


FORM = r"AlgorithmError: CODE001 rank 0 on algo-1: ValueError: planted .*, exit code: 1"
"""Of a failure reason, as the service has it."""


@pytest.mark.few_cases("local-fails", "sagemaker-fails", "queue-fails")
@pytest.mark.parametrize("end", ["ends", "fails"])
def test_a_job_that_has_ended_is_not_stopped_and_a_failure_keeps_its_reason(place: Place, end: str) -> None:
    name = start(place, end=end)
    ended = finish(place, name)
    if end == "fails":
        assert ended.state is JobState.FAILED
        assert re.fullmatch(FORM, ended.failure_reason or "", re.DOTALL)
    place.backend.stop(name)
    after = finish(place, name)
    assert (after.state, after.phase, after.failure_reason) == (
        ended.state, ended.phase, ended.failure_reason,
    )  # fmt: skip


def test_a_name_that_no_job_has_is_unknown(place: Place) -> None:
    start(place)
    for name in (ABSENT, "no_name", "../digits-0unique"):
        with pytest.raises(UnknownJob, match=re.escape(name)):
            place.backend.describe(name)
        with pytest.raises(UnknownJob, match=re.escape(name)):
            place.backend.read_logs(name, {})
        with pytest.raises(UnknownJob, match=re.escape(name)):
            place.backend.stop(name)


def test_jobs_are_listed_newest_first_as_far_as_they_are_asked_for(place: Place) -> None:
    for name, end in (("one", "ends"), ("two", "fails"), ("six", "ends")):
        finish(place, start(place, name, end=end))

    def listed(**query: Any) -> list[str]:
        return [job.name for job in place.backend.jobs(JobQuery(**query))]

    assert listed() == ["six-0unique", "two-0unique", "one-0unique"]
    assert listed(name="wo-0") == ["two-0unique"]
    assert listed(state=JobState.FAILED) == ["two-0unique"]
    assert listed(state=JobState.COMPLETED, limit=1) == ["six-0unique"]
    assert listed(limit=2) == ["six-0unique", "two-0unique"]
    middle = place.backend.jobs(JobQuery())[1]
    assert listed(since=middle.created) == ["six-0unique"]
    assert listed(name="one", state=JobState.FAILED) == []
    assert middle.created.utcoffset() is not None
