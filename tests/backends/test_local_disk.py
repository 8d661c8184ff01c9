"""Local jobs on a disk that takes nothing more: they end as they would have, and the launcher knows how."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import BackendError, JobQuery, JobState
from launcher.backends.local import files, job
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.files import read_state, write_state
from tests.backends.workplace import WAIT, Workplace, eventually, finish, texts


def full(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "status.json.new")


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From then on nothing that the launcher writes finds room, as on a full disk."""

    def fill() -> None:
        monkeypatch.setattr(files, "replace_file", full)
        monkeypatch.setattr(files, "_write_over", full)

    return fill


WAITS = f"""{WAIT}
    (shared / "running").touch()
    wait_for("go on")
    sys.exit(int((shared / "go on").read_text()))
"""


def running_on_a_full_disk(workplace: Workplace, local: LocalBackend, fill: Callable[[], None]) -> None:
    local.submit(workplace.plan(WAITS))
    eventually(workplace.shared("running").exists)
    fill()


def end_with(workplace: Workplace, code: str) -> None:
    """Let the script end with this exit code, which it sees whole or not at all."""
    workplace.shared("draft").write_text(code)
    workplace.shared("draft").rename(workplace.shared("go on"))


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(("code", "state"), [("0", JobState.COMPLETED), ("3", JobState.FAILED)])
def test_the_job_ends_as_it_would_have(
    workplace: Workplace, local: LocalBackend, fill: Callable[[], None], code: str, state: JobState
) -> None:
    running_on_a_full_disk(workplace, local, fill)
    end_with(workplace, code)
    status = finish(local)
    assert status.state is state
    assert status.explanation == (
        f"the disk of {workplace.home / 'job-1'} is full; what is kept there of this job is not complete"
    )
    assert f"slipway: {status.explanation}" in texts(local)


def test_it_is_not_seen_ended_before_what_could_not_be_written(
    workplace: Workplace, local: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.submit(workplace.plan(WAITS))
    eventually(workplace.shared("running").exists)
    seen = []

    def look_and_be_full(*_: Any, **__: Any) -> None:
        seen.append(local.describe("job-1").state)
        full()

    monkeypatch.setattr(files, "replace_file", look_and_be_full)
    monkeypatch.setattr(files, "_write_over", full)
    end_with(workplace, "3")
    assert finish(local).state is JobState.FAILED
    assert seen == [JobState.IN_PROGRESS]


def test_it_can_be_stopped(workplace: Workplace, local: LocalBackend, fill: Callable[[], None]) -> None:
    running_on_a_full_disk(workplace, local, fill)
    local.stop("job-1")
    assert finish(local).state is JobState.STOPPED
    assert not (workplace.home / "job-1" / "stop").exists()


def test_a_job_whose_files_are_gone_is_known_to_the_launcher_that_runs_it(
    workplace: Workplace, local: LocalBackend
) -> None:
    local.submit(workplace.plan(WAITS))
    for name in ("request.json", "status.json"):
        (workplace.home / "job-1" / name).unlink()
    assert local.describe("job-1").state is JobState.IN_PROGRESS
    local.stop("job-1")
    assert finish(local).state is JobState.STOPPED


def test_a_watch_that_breaks_fails_the_job_and_leaves_nothing_of_it(
    workplace: Workplace,
    local: LocalBackend,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    local.submit(workplace.plan(WAITS))
    eventually(workplace.shared("running").exists)

    def broken(*_: Any) -> None:
        raise RuntimeError("the clock stopped")

    monkeypatch.setattr(job.LocalJob, "_note_ends", broken)
    status = finish(local)
    assert (status.state, status.failure_reason) == (
        JobState.FAILED,
        "InternalServerError: the launcher could not go on with the job: RuntimeError: the clock stopped",
    )
    assert workplace.processes() == []
    assert "Traceback" not in capfd.readouterr().err


def test_a_job_that_says_nothing_on_a_full_disk_has_failed_of_it(
    workplace: Workplace, local: LocalBackend, fill: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "disk_is_full", lambda folder: True)
    local.submit(workplace.plan(f"{WAITS}"))
    eventually(workplace.shared("running").exists)
    # The boot has no place for its report.
    (workplace.home / "job-1" / "hosts" / "algo-1" / "ml" / "output" / "failure").mkdir()
    workplace.shared("go on").write_text("3")
    assert finish(local).failure_reason == (
        f"AlgorithmError: DISK001 the disk of {workplace.home / 'job-1'} is full (No space left on device): "
        f"free some of it, such as old runs in {workplace.home}, or launch from a folder on another disk, "
        "exit code: 3"
    )


def test_a_job_for_which_there_is_no_room_is_refused_and_leaves_nothing(
    workplace: Workplace, local: LocalBackend, fill: Callable[[], None]
) -> None:
    fill()
    with pytest.raises(BackendError, match=r"job-1: No space left on device .*Free some of the disk"):
        local.submit(workplace.plan("pass"))
    assert local.jobs(JobQuery()) == []
    assert not (workplace.home / "job-1").exists()


def test_without_room_for_a_draft_a_state_is_written_over_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "status.json"
    with monkeypatch.context() as no_old_one, pytest.raises(OSError, match="No space left"):
        no_old_one.setattr(files, "replace_file", full)
        write_state(file, {})
    write_state(file, {"state": "InProgress", "reason": "something that is longer than what follows"})
    monkeypatch.setattr(files, "replace_file", full)
    write_state(file, {"state": "Failed"})
    assert read_state(file) == {"format": 1, "state": "Failed"}
