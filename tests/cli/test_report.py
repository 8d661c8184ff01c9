"""`launch report` on log files and on jobs."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import RunLaunch
from tests.logs.cases import log_case, write_log


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_log_files_become_one_page_in_the_current_folder(run_launch: RunLaunch, tmp_path: Path) -> None:
    code, out, _ = run_launch("report", "--log", write_log("027", tmp_path))
    assert (code, out) == (0, "log-report.html\n")
    assert "MEM001" in (tmp_path / "log-report.html").read_text("utf-8")


def test_the_page_is_written_again_over_an_earlier_one(run_launch: RunLaunch, tmp_path: Path) -> None:
    run_launch("report", "--log", write_log("027", tmp_path))
    code, out, _ = run_launch("report", "--log", write_log("120", tmp_path), "--output", "json")
    assert code == 0
    assert json.loads(out) == {"file": "log-report.html", "name": "120.log", "verdict": "healthy"}
    assert "No failure was found in 120.log" in (tmp_path / "log-report.html").read_text("utf-8")


def test_a_file_that_is_no_page_is_written_over_by_force_alone(run_launch: RunLaunch, tmp_path: Path) -> None:
    mine = tmp_path / "mine.html"
    mine.write_text("<html>mine</html>", "utf-8")
    code, _, err = run_launch("report", "--log", write_log("027", tmp_path), "--file", mine)
    assert code == 2
    assert "is no page of a run" in err and "--force" in err
    assert mine.read_text("utf-8") == "<html>mine</html>"
    assert run_launch("report", "--log", write_log("027", tmp_path), "--file", mine, "--force")[0] == 0
    assert "MEM001" in mine.read_text("utf-8")


def test_a_place_that_cannot_be_written_is_told(run_launch: RunLaunch, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "folder", Path("/proc/absent/page.html")):
        code, _, err = run_launch("report", "--log", write_log("027", tmp_path), "--file", place, "--force")
        assert code == 2
        assert "error: " in err and "--file" in err


def test_standard_input_is_read(run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.TextIOWrapper(io.BytesIO(log_case("036").text.encode()))
    monkeypatch.setattr(sys, "stdin", log)
    code, out, _ = run_launch("report", "--log", "-", "--output", "json")
    assert (code, json.loads(out)["verdict"]) == (0, "failed")


@pytest.mark.parametrize("arguments", [(), ("one", "two"), ("--log", "/absent/algo-1.log")])
def test_what_cannot_be_read_is_a_mistake_of_usage(
    run_launch: RunLaunch, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    code, out, err = run_launch("report", *arguments)
    assert (code, out) == (2, "")
    assert "error: " in err
    assert not list(tmp_path.glob("*.html"))
