"""A local run whose files are not what the launcher wrote: it is named, and hides no other."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import RunLaunch

HOME = Path(".slipway") / "local"


def lay_down(name: str, **changes: Any) -> Path:
    """The folder of a run that completed."""
    host = HOME / name / "hosts" / "algo-1"
    host.mkdir(parents=True)
    (host / "log").write_text("one\ntwo\n")
    (host / "log.times").write_text("format 1\n8 1760000001.000\n")
    record = {
        "format": 1, "name": name, "launcher": {"pid": 1, "started": 1.5}, "hosts": 1, "state": "Completed",
        "phase": "Completed", "failure_reason": None, "started": 1760000000.0, "ended": 1760000009.0,
    }  # fmt: skip
    (HOME / name / "status.json").write_text(json.dumps({**record, **changes}))
    request = {"TrainingJobName": name, "ResourceConfig": {"InstanceCount": 1}}
    (HOME / name / "request.json").write_text(json.dumps({"format": 1, "request": request}))
    return HOME / name


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lay_down("good")
    return tmp_path


def in_place_of(file: Path, kind: str) -> None:
    """Put something else where the file is."""
    file.unlink()
    if kind == "fifo":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "endless":
        file.symlink_to("/dev/zero")
    elif kind == "dangling":
        file.symlink_to("nowhere")
    else:
        file.write_text(kind)


NEWER = '{"format": 2}'
DEEP = "[" * 100_000
WHOLE = '{"format": 1, "state": "InProgress", "hosts": 1, "phase": "Training", "started": 1760000000.0'
STATUS = {
    "": "it is empty",
    '{"format": 1, "state": "Comp': "it is not JSON",
    DEEP: "it is not JSON",
    "[1]": "something else than a JSON object",
    NEWER: "it is of the format 2, and this launcher knows up to 1",
    '{"format": "x"}': "its format is 'x'",
    "{}": "its launcher is missing",
    f'{WHOLE}, "launcher": 5}}': "its launcher is 5",
    f'{WHOLE}, "launcher": {{"pid": -4, "started": 1}}}}': "its pid is -4",
    f'{WHOLE[:-12]}1e300, "launcher": {{"pid": 4, "started": 1}}}}': "its started is 1e\\+300",
    f'{WHOLE[:-12]}{"9" * 400}, "launcher": {{"pid": 4, "started": 1}}}}': "its started is 999",
    WHOLE.replace('"hosts": 1', '"hosts": 99999') + ', "launcher": {"pid": 4, "started": 1}}': "hosts is",
    WHOLE + ', "launcher": {"pid": 4, "started": 1}, "stop": {"cause": "whim"}}': "its stop is",
    WHOLE + ', "launcher": {"pid": 4, "started": 1}, "stop": {"cause": []}}': "its stop is",
    WHOLE.replace("InProgress", "Lost") + ', "launcher": {"pid": 4, "started": 1}}': "its state is 'Lost'",
    "fifo": "it is a pipe",
    "folder": "it is a folder",
    "endless": "it is a device",
    "dangling": "it is a link to what is not there",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "problem"), STATUS.items(), ids=range(len(STATUS)))
def test_a_broken_status_is_told_in_one_line_and_the_other_runs_are_listed(
    run_launch: RunLaunch, kind: str, problem: str
) -> None:
    broken = lay_down("bad")
    in_place_of(broken / "status.json", kind)
    code, out, err = run_launch("list", "--local", "--output", "json")
    assert code == 0
    assert [job["name"] for job in json.loads(out)["jobs"]] == ["good"]
    (line,) = err.splitlines()
    assert line.startswith(f"not listed: {broken.absolute() / 'status.json'} cannot be read: ")
    assert re.search(problem, line)
    assert f"elete {broken.absolute()}" in line


@pytest.mark.parametrize("command", ["status", "logs", "stop", "diagnose", "resume"])
@pytest.mark.parametrize("kind", ["", NEWER, "fifo", "[1]"])
def test_what_asks_for_the_broken_run_says_what_to_delete(
    run_launch: RunLaunch, command: str, kind: str
) -> None:
    broken = lay_down("bad")
    in_place_of(broken / "status.json", kind)
    code, out, err = run_launch(command, "bad")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {broken.absolute() / 'status.json'} cannot be read: ")
    assert f"elete {broken.absolute()}" in err


@pytest.mark.parametrize("command", ["status", "logs", "stop", "diagnose", "resume"])
@pytest.mark.parametrize(
    "kind", ["", NEWER, "fifo", "[1]", '{"format": 1, "request": 3}', '{"HyperParameters": 7}']
)
def test_so_does_a_run_with_a_broken_request(run_launch: RunLaunch, command: str, kind: str) -> None:
    broken = lay_down("bad")
    in_place_of(broken / "request.json", kind)
    code, out, err = run_launch(command, "bad")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {broken.absolute() / 'request.json'} cannot be read: ")
    assert f"elete {broken.absolute()}" in err


@pytest.mark.parametrize(
    "kind", ['{"ResourceConfig": "x"}', '{"CheckpointConfig": {"S3Uri": 3}}', '{"Tags": [1]}']
)
def test_a_request_with_a_spoilt_part_is_not_resumed(run_launch: RunLaunch, kind: str) -> None:
    broken = lay_down("bad")
    in_place_of(broken / "request.json", kind)
    code, out, err = run_launch("resume", "bad")
    assert (code, out) == (2, "")
    assert "it holds no request of a training job" in err


def test_a_field_that_a_newer_launcher_added_is_left_out(run_launch: RunLaunch) -> None:
    lay_down("newer", mood="good", launcher={"pid": 1, "started": 1.5, "host": "here"})
    code, out, err = run_launch("list", "--local", "--output", "json")
    assert (code, err) == (0, "")
    assert sorted(job["name"] for job in json.loads(out)["jobs"]) == ["good", "newer"]


def test_a_run_of_the_launchers_that_wrote_no_format_is_read(run_launch: RunLaunch) -> None:
    older = lay_down("older", folder="/elsewhere")
    record = json.loads((older / "status.json").read_text())
    del record["format"]
    (older / "status.json").write_text(json.dumps(record))
    (older / "request.json").write_text(json.dumps({"TrainingJobName": "older"}))
    (older / "hosts" / "algo-1" / "log.times").write_text("8 1760000001.000\n")
    assert run_launch("status", "older", "--output", "json")[0] == 0
    code, out, _ = run_launch("logs", "older", "--output", "json")
    assert code == 0
    assert [json.loads(line)["time"] for line in out.splitlines()] == [1760000001.0] * 2


def test_a_mistyped_name_is_answered_in_spite_of_a_broken_run(
    run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    in_place_of(lay_down("bad") / "status.json", "")
    code, _, err = run_launch("status", "goood")
    assert code in (2, 3)
    assert "local job good" in err
    assert "fault of the launcher" not in err


@pytest.mark.parametrize("name", ["log", "log.times"])
@pytest.mark.parametrize("kind", ["fifo", "folder", "endless"])
def test_logs_that_are_something_else_are_not_waited_for(run_launch: RunLaunch, name: str, kind: str) -> None:
    file = lay_down("bad") / "hosts" / "algo-1" / name
    in_place_of(file, kind)
    for command in ("logs", "diagnose"):
        code, _, err = run_launch(command, "bad")
        assert code == 2
        assert f"{file.absolute()} cannot be read: it is a" in err


def test_times_of_a_newer_format_are_said(run_launch: RunLaunch) -> None:
    file = lay_down("bad") / "hosts" / "algo-1" / "log.times"
    file.write_text("format 2\nwhatever\n")
    code, _, err = run_launch("logs", "bad")
    assert code == 2
    assert "it is of the format 2, and this launcher knows up to 1" in err


@pytest.mark.parametrize(
    "notes", ["", "8", "8 17600", "garbage\n8 1760000001.000\n", "8 nan\n" * 3, "\0" * 5000]
)
def test_notes_of_the_time_that_a_full_disk_cut_cost_no_line(run_launch: RunLaunch, notes: str) -> None:
    (lay_down("bad") / "hosts" / "algo-1" / "log.times").write_text(notes)
    code, out, _ = run_launch("logs", "bad", "--output", "json")
    assert code == 0
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["one", "two"]


def test_a_home_that_is_no_folder_is_said(run_launch: RunLaunch, tmp_path: Path) -> None:
    (tmp_path / ".slipway").rename(tmp_path / "moved")
    (tmp_path / ".slipway").mkdir()
    (tmp_path / ".slipway" / "local").write_text("")
    code, _, err = run_launch("list", "--local")
    assert code == 2
    assert "Not a directory" in err


def test_drafts_of_a_launcher_that_was_killed_are_collected_with_its_job(run_launch: RunLaunch) -> None:
    gone = {"pid": 2**22 - 1, "started": 1.5}
    killed = lay_down("killed", state="InProgress", phase="Starting", ended=None, launcher=gone)
    (killed / "status.json.k3x9.new").write_text("{")
    code, out, err = run_launch("list", "--local", "--output", "json")
    assert (code, err) == (0, "")
    assert {job["name"]: job["state"] for job in json.loads(out)["jobs"]} == {
        "good": "Completed",
        "killed": "Stopped",
    }
    assert list(killed.glob("*.new")) == []
