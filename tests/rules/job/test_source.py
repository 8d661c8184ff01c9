"""The source directory and the script in it: CODE002."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launcher.rules.job import source as source_rules

TRAIN = {"source_dir": "src", "entry_point": "train.py"}


@pytest.fixture
def src(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    return folder


def test_the_nearest_script_is_named(judge, src: Path) -> None:
    (finding,) = judge("CODE002", code_section={**TRAIN, "entry_point": "tran.py"})
    assert finding.path == ("code", "entry_point")
    assert "Did you mean train.py?" in finding.remedy


def test_a_folder_that_is_missing_is_said_once(judge) -> None:
    (finding,) = judge("CODE002", code_section={**TRAIN, "source_dir": "elsewhere"})
    assert (finding.path, finding.subject) == (("code", "source_dir"), "code.source_dir")


def test_all_that_is_in_the_way_of_packing_is_told(judge, src: Path) -> None:
    (src / "data").symlink_to("/data")
    os.mkfifo(src / "pipe")
    finding, other = judge("CODE002")
    assert (finding.severity, finding.subject) == ("error", "code.source_dir")
    assert "src/data is a symbolic link" in finding.message
    assert "src/pipe is neither" in other.message
    assert not finding.message.endswith(".")


def test_a_source_that_cannot_be_packed_may_lack_its_script_too(judge, src: Path) -> None:
    os.mkfifo(src / "pipe")
    found = judge("CODE002", code_section={**TRAIN, "entry_point": "missing.py"})
    assert [finding.subject for finding in found] == ["code.entry_point", "code.source_dir"]


@pytest.mark.parametrize(
    ("entry_point", "ignored", "says", "do"),
    [
        pytest.param("train.py", "*.py", "pattern *.py fits train.py", "add the line !train.py", id="file"),
        pytest.param("lib/a.py", "lib/", "pattern lib/ fits lib/", "add the line !lib/", id="folder"),
        pytest.param(".venv/a.py", "", ".venv/, which is never packed", "Move the script", id="never packed"),
        pytest.param("../a.py", "", "outside of", "without `..`", id="outside"),
    ],
)
def test_a_script_that_is_not_packed_is_missing_on_the_hosts(
    judge, src: Path, entry_point: str, ignored: str, says: str, do: str
) -> None:
    script = src / entry_point
    script.parent.mkdir(exist_ok=True)
    script.touch()
    (src / ".gitignore").write_text(ignored)
    (finding,) = judge("CODE002", code_section={**TRAIN, "entry_point": entry_point})
    assert (finding.severity, finding.path) == ("error", ("code", "entry_point"))
    assert says in finding.message
    assert do in finding.remedy


def test_the_line_that_is_proposed_brings_the_script_back(judge, src: Path) -> None:
    (src / "lib").mkdir()
    (src / "lib" / "a.py").touch()
    (src / ".gitignore").write_text("lib/")
    assert judge("CODE002", code_section={**TRAIN, "entry_point": "lib/a.py"})
    (src / ".slipwayignore").write_text("!lib/")
    assert judge("CODE002", code_section={**TRAIN, "entry_point": "lib/a.py"}) == []


@pytest.mark.parametrize(("megabytes", "found"), [(99, False), (101, True)])
def test_code_is_large_from_a_hundred_megabytes_on(judge, src: Path, megabytes: int, found: bool) -> None:
    with (src / "weights.bin").open("wb") as file:
        file.truncate(megabytes * 1_000_000)
    assert bool(judge("CODE002")) is found


def test_large_code_is_a_warning(judge, src: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_rules, "LARGE_BYTES", 1_000_000)
    (src / "weights.bin").write_bytes(bytes(2_000_000))
    (finding,) = judge("CODE002")
    assert (finding.severity, finding.path) == ("warning", ("code", "source_dir"))
    assert "weights.bin (2 MB)" in finding.message
