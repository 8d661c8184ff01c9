"""A file that the launch left out, and that the job then misses, is named with its pattern."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import LogLine
from launcher.cli.app import main
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from launcher.session.left_out import (
    KEPT_SECONDS,
    MOST_NAMES,
    LeftOutNote,
    note_left_out,
    noted_left_out,
    told_what_was_left_out,
)
from launcher.source.files import IgnoredPath
from launcher.source.tree import SourceTree, read_source


@pytest.fixture
def source(tmp_path: Path) -> SourceTree:
    folder = tmp_path / "src"
    modules = ("generated.py", "made/__init__.py", "lib/made/__init__.py")
    for name in ("train.py", "data/x.bin", "code/a.csv", ".venv/a.txt", *modules):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / ".gitignore").write_text("*.bin\ngenerated.py\nmade/\n*.csv\n")
    return read_source(folder, "train.py")


def failed_with(error: str) -> Diagnosis:
    lines = (
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 4, in <module>',
        "    load()",
        error,
    )
    return diagnose([LogLine(float(number), "algo-1", line) for number, line in enumerate(lines)])


def told(error: str, source: SourceTree) -> str:
    note_left_out("job-1", source)
    diagnosis = told_what_was_left_out(failed_with(error), noted_left_out("job-1"))
    assert diagnosis.root_cause is not None
    assert diagnosis.findings[0] == diagnosis.root_cause.finding
    return diagnosis.root_cause.finding.message


@pytest.mark.parametrize(
    ("error", "name", "pattern"),
    [
        ("FileNotFoundError: [Errno 2] No such file or directory: 'data/x.bin'", "data/x.bin", "*.bin"),
        ("FileNotFoundError: [Errno 2] No such file or directory: './data/x.bin'", "data/x.bin", "*.bin"),
        ("FileNotFoundError: [Errno 2] No such file or directory: b'data/x.bin'", "data/x.bin", "*.bin"),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/code/data/x.bin'",
            "data/x.bin",
            "*.bin",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: "
            "'/me/code/.slipway/local/job-1/algo-1/opt/ml/code/code/a.csv'",
            "code/a.csv",
            "*.csv",
        ),
        ("ModuleNotFoundError: No module named 'generated'", "generated.py", "generated.py"),
        ("ModuleNotFoundError: No module named 'made'", "made/__init__.py", "made/"),
        ("ModuleNotFoundError: No module named 'lib.made'", "lib/made/__init__.py", "made/"),
    ],
)
def test_a_missing_file_that_was_left_out_is_named_with_its_pattern(
    source: SourceTree, error: str, name: str, pattern: str
) -> None:
    said = told(error, source)
    assert f"{name} lies in the source folder and was not packed: the pattern {pattern} of" in said


@pytest.mark.parametrize(
    "error",
    [
        "FileNotFoundError: [Errno 2] No such file or directory: 'data/y.bin'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/x.bin'",
        "FileNotFoundError: [Errno 2] No such file or directory: '../data/x.bin'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'train.py'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'x.bin'",
        "ModuleNotFoundError: No module named 'einops'",
        "ValueError: bad file 'data/x.bin'",
    ],
)
def test_what_was_not_left_out_or_never_was_there_is_the_scripts_own(source: SourceTree, error: str) -> None:
    assert told(error, source) == str(failed_with(error).findings[0].message)


def test_the_remedy_brings_the_file_back(source: SourceTree) -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: 'data/x.bin'"
    note_left_out("job-1", source)
    finding = told_what_was_left_out(failed_with(error), noted_left_out("job-1")).findings[0]
    assert f"Add the line !data/x.bin to {source.folder / '.slipwayignore'}" in finding.remedy
    (source.folder / ".slipwayignore").write_text("!data/x.bin\n")
    assert read_source(source.folder, "train.py").why_ignored("data/x.bin") is None


def test_a_file_in_a_folder_that_is_never_packed_says_so(source: SourceTree) -> None:
    said = told("FileNotFoundError: [Errno 2] No such file or directory: '.venv/a.txt'", source)
    assert said.endswith("as .venv/ never is")


def test_a_job_without_a_note_is_diagnosed_as_ever() -> None:
    diagnosis = failed_with("FileNotFoundError: [Errno 2] No such file or directory: 'x'")
    assert told_what_was_left_out(diagnosis, noted_left_out("nobody")) is diagnosis


def test_a_healthy_job_stays_healthy(source: SourceTree) -> None:
    note_left_out("job-1", source)
    assert told_what_was_left_out(diagnose([]), noted_left_out("job-1")) == diagnose([])


def test_a_note_is_bounded(tmp_path: Path) -> None:
    ignored = tuple(IgnoredPath(f"{number}.log", "*.log", tmp_path) for number in range(MOST_NAMES + 5))
    note_left_out("job-1", SourceTree(tmp_path, "train.py", True, True, ignored=ignored))
    assert noted_left_out("job-1") == LeftOutNote(tmp_path, ignored[:MOST_NAMES])


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"folder": "/", "left_out": [1]}', "[" * 100_000])
def test_a_broken_note_is_none(source: SourceTree, content: str) -> None:
    note_left_out("job-1", source)
    (note,) = Path(os.environ["XDG_CACHE_HOME"]).rglob("job-1.json")
    note.write_text(content)
    assert noted_left_out("job-1") is None


def test_notes_on_jobs_of_long_ago_go(source: SourceTree) -> None:
    note_left_out("job-1", source)
    (note,) = Path(os.environ["XDG_CACHE_HOME"]).rglob("job-1.json")
    os.utime(note, (note.stat().st_mtime - KEPT_SECONDS - 60,) * 2)
    note_left_out("job-2", source)
    assert noted_left_out("job-1") is None and noted_left_out("job-2") is not None


def test_without_a_home_there_is_no_note(source: SourceTree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    note_left_out("job-1", source)
    assert noted_left_out("job-1") is None


def test_a_local_run_tells_of_the_file_that_it_misses(
    write_job: Callable[..., Path], tmp_path: Path, monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_job(
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 1}, distribution={"strategy": "none"}
    )
    (tmp_path / "src" / "train.py").write_text("open('data.bin')\n")
    (tmp_path / "src" / "data.bin").touch()
    (tmp_path / "src" / ".gitignore").write_text("*.bin")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main([str(file), "--local"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "the pattern *.bin of" in printed and "Add the line !data.bin to" in printed
