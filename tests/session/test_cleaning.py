"""Which local runs go, and that nothing else does."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.backends.interface import BackendError, JobState
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.status import JobRecord
from launcher.session.cleaning import Kind, delete, plan_cleaning

NOW = 1_800_000_000.0
DAY = 86_400.0
GONE = ProcessId(2**22 - 1, 1.0)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / ".slipway" / "local"
    home.mkdir(parents=True)
    return home


def write_run(
    home: Path, name: str, age: float = 0.0, state: JobState = JobState.COMPLETED, **fields: object
) -> Path:
    """A run with 1,000 bytes of checkpoints beside its record."""
    folder = home / name
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "state").write_bytes(bytes(1000))
    given = {"launcher": GONE, "started": NOW - age, "ended": NOW - age, **fields}
    JobRecord(folder, hosts=1, state=state, phase=state.value, **given).write()
    return folder


def write_environment(home: Path, name: str, age: float) -> Path:
    folder = home.parent / "environments" / name
    (folder / "bin").mkdir(parents=True)
    for beside in (".lock", ".log"):
        folder.with_suffix(beside).touch()
    os.utime(folder, (NOW - age, NOW - age))
    return folder


def names(home: Path, keep: int) -> list[str]:
    return [each.name for each in plan_cleaning(home, keep, NOW).goes]


def test_the_newest_runs_stay_whatever_their_names(home: Path) -> None:
    for name, age in (("a", 3.0), ("b", 1.0), ("c", 2.0)):
        write_run(home, name, age)
    assert names(home, 1) == ["c", "a"]
    assert names(home, 3) == []
    found = plan_cleaning(home, 2, NOW)
    assert (found.kept, found.running) == (2, ())
    [old] = found.goes
    assert (old.kind, old.state, old.created) == (Kind.RUN, "Completed", NOW - 3.0)
    status = (home / "a" / "status.json").stat().st_size
    assert old.size == found.size == 1000 + status


def test_a_run_whose_launcher_lives_is_never_deleted(home: Path) -> None:
    write_run(home, "old", 9.0, JobState.IN_PROGRESS, launcher=ProcessId.of_this_process(), ended=None)
    write_run(home, "new")
    found = plan_cleaning(home, 0, NOW)
    assert ([each.name for each in found.goes], found.running) == (["new"], ("old",))


def test_a_run_whose_launcher_was_killed_has_ended(home: Path) -> None:
    write_run(home, "left", 9.0, JobState.IN_PROGRESS, ended=None)
    [old] = plan_cleaning(home, 0, NOW).goes
    assert old.state == "Stopped"


def test_a_run_of_which_a_process_lives_is_never_deleted(home: Path) -> None:
    folder = write_run(home, "ended")
    root = folder / "hosts" / "algo-1" / "ml"
    waiting = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**os.environ, "SLIPWAY_ROOT": str(root)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert waiting.stdin is not None
    assert waiting.stdout is not None
    try:
        waiting.stdout.readline()
        found = plan_cleaning(home, 0, NOW)
        assert (found.goes, found.running) == ((), ("ended",))
    finally:
        waiting.communicate(b"\n")


def test_a_run_that_cannot_be_read_goes_by_its_age(home: Path) -> None:
    folder = write_run(home, "broken")
    (folder / "status.json").write_text("{")
    os.utime(folder, (NOW - 5.0, NOW - 5.0))
    write_run(home, "older", 10.0)
    found = plan_cleaning(home, 1, NOW)
    assert [each.name for each in found.goes] == ["older"]
    assert plan_cleaning(home, 0, NOW).goes[0].state is None


def test_deletion_takes_all_of_it_and_nothing_behind_links(home: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "kept").touch()
    folder = write_run(home, "run")
    (folder / "train").symlink_to(data, target_is_directory=True)
    [old] = plan_cleaning(home, 0, NOW).goes
    delete(old)
    delete(old)
    assert list(home.iterdir()) == []
    assert (data / "kept").exists()


def test_a_run_that_is_a_link_is_left_alone(home: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "elsewhere", "run")
    (home / "run").symlink_to(tmp_path / "elsewhere" / "run", target_is_directory=True)
    assert plan_cleaning(home, 0, NOW).goes == ()


@pytest.mark.parametrize("linked", [".slipway", ".slipway/local", ".slipway/environments"])
def test_nothing_is_deleted_behind_a_link_in_place_of_a_folder(tmp_path: Path, linked: str) -> None:
    behind = tmp_path / "behind"
    write_run(behind / "local", "run")
    place = tmp_path / "project" / linked
    place.parent.mkdir(parents=True)
    place.symlink_to(behind / "local" if linked.endswith("local") else behind, target_is_directory=True)
    with pytest.raises(BackendError, match=f"{linked} is a link to {behind}"):
        plan_cleaning(tmp_path / "project" / ".slipway" / "local", 0, NOW)


def test_what_an_interrupted_deletion_left_goes_with_the_next(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(home, "run")
    [old] = plan_cleaning(home, 0, NOW).goes

    def interrupted(folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.rmtree", interrupted)
        with pytest.raises(PermissionError):
            delete(old)
    # No longer a run that is listed or resumed.
    [left] = plan_cleaning(home, 10, NOW).goes
    assert left.kind is Kind.REMAINS
    delete(left)
    assert list(home.iterdir()) == []


def test_folders_that_are_no_runs_stay(home: Path) -> None:
    (home / "notes").mkdir()
    (home / "status.json").touch()
    (home.parent / "other").mkdir()
    assert names(home, 0) == []


def test_environments_go_that_no_kept_run_uses_and_nobody_changed_of_late(home: Path) -> None:
    used = write_environment(home, "used", 30 * DAY)
    write_environment(home, "new", 6 * DAY)
    write_environment(home, "unused", 8 * DAY)
    write_run(home, "run", python=Path(sys.executable), environment=used)
    assert names(home, 1) == ["unused"]
    # Who keeps no run needs none of them.
    assert names(home, 0) == ["run", "new", "unused", "used"]
    write_run(home, "running", 0.0, JobState.IN_PROGRESS, launcher=ProcessId.of_this_process(), ended=None)
    assert names(home, 0) == ["run"]


def test_nothing_stays_of_an_environment_that_goes(home: Path) -> None:
    folder = write_environment(home, "unused", 8 * DAY)
    [old] = plan_cleaning(home, 1, NOW).goes
    delete(old)
    assert list(folder.parent.iterdir()) == []


def test_an_environment_in_the_making_stays(home: Path) -> None:
    folder = write_environment(home, "new", 0.0)
    with folder.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert names(home, 0) == []
    assert names(home, 0) == ["new"]


def test_very_deep_folders_are_counted_and_said_to_be_too_deep(home: Path) -> None:
    folder = write_run(home, "run")
    deepest = folder
    for _ in range(1_100):
        deepest /= "d"
        deepest.mkdir()
    [old] = plan_cleaning(home, 0, NOW).goes
    assert old.size > 1000
    try:
        delete(old)
        assert list(home.iterdir()) == []
    except OSError as error:
        # As Python's own removal recurses up to 3.12.
        assert "nested too deeply; delete it with: rm -r" in str(error)
    finally:
        subprocess.run(["rm", "-r", "--", *home.iterdir()], check=False)


def test_without_runs_there_is_nothing(tmp_path: Path) -> None:
    assert plan_cleaning(tmp_path / ".slipway" / "local", 0, NOW).goes == ()
