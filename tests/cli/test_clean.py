"""`launch clean`: what it shows, asks and prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.backends.interface import JobState
from launcher.backends.local.processes import ProcessId
from launcher.backends.local.status import JobRecord

RunLaunch = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three ended runs of a project, the first the oldest, seen from a folder of it."""
    home = tmp_path / ".slipway" / "local"
    for number in range(3):
        folder = home / f"run-{number}"
        folder.mkdir(parents=True)
        times = {"started": 1_800_000_000.0 + number, "ended": 1_800_000_010.0}
        JobRecord(folder, ProcessId(2**22 - 1, 1.0), 1, JobState.COMPLETED, "Completed", **times).write()
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    return home


def left(home: Path) -> list[str]:
    return sorted(each.name for each in home.iterdir())


def test_nothing_goes_while_there_are_few(home: Path, run_launch: RunLaunch) -> None:
    code, out, err = run_launch("clean")
    assert (code, out) == (0, "")
    assert err == f"nothing to delete in {home}; 3 ended runs stay.\n"


def test_old_runs_go_after_they_were_shown(home: Path, run_launch: RunLaunch) -> None:
    code, out, _ = run_launch("clean", "--keep", "1", "--yes")
    assert code == 0
    assert out.index("run-1") < out.index("run-0")
    assert "run-2" not in out
    assert "deleted 2, " in out
    assert left(home) == ["run-2"]


def test_without_anybody_to_ask_nothing_goes(home: Path, run_launch: RunLaunch) -> None:
    code, out, err = run_launch("clean", "--all")
    assert (code, "Add --yes" in err) == (2, True)
    assert "run-0" in out
    assert len(left(home)) == 3


@pytest.mark.parametrize(("answer", "stay"), [(True, 1), (False, 3)])
def test_the_answer_decides(
    home: Path, run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch, answer: bool, stay: int
) -> None:
    asked = []
    monkeypatch.setattr("launcher.cli.clean.must_ask", lambda yes, output: not yes)
    monkeypatch.setattr("launcher.cli.clean.confirmed", lambda question: (asked.append(question), answer)[1])
    code, _, err = run_launch("clean", "--keep", "1")
    assert code == 0
    assert asked[0].startswith("Delete 2 runs, ")
    assert asked[0].endswith("B? 1 ended run stays.")
    assert ("nothing was deleted" in err) is not answer
    assert len(left(home)) == stay


def test_json_says_what_went(home: Path, run_launch: RunLaunch) -> None:
    size = (home / "run-0" / "status.json").stat().st_size
    code, out, _ = run_launch("clean", "--keep", "2", "--yes", "--output", "json")
    printed = json.loads(out)
    created = printed["deleted"][0].pop("created")
    assert created.startswith("2027-01-1")
    assert (code, printed) == (
        0,
        {
            "deleted": [{"name": "run-0", "kind": "run", "state": "Completed", "bytes": size}],
            "failed": [],
            "kept": 2,
            "running": [],
        },
    )


def test_what_cannot_be_deleted_is_said(
    home: Path, run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("shutil.rmtree", refuse)
    code, _, err = run_launch("clean", "--keep", "2", "--yes", "--output", "json")
    assert code == 1
    assert f"not deleted: {home}/run-0: Permission denied" in err


def test_a_negative_number_is_refused(home: Path, run_launch: RunLaunch) -> None:
    code, _, err = run_launch("clean", "--keep", "-1")
    assert (code, "--keep -1 is not a number of runs" in err) == (2, True)
