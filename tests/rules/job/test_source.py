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


def test_of_an_archive_that_cannot_be_read_no_script_is_missed(judge, tmp_path: Path) -> None:
    (tmp_path / "source.tar.gz").write_text("no archive")
    (finding,) = judge("CODE002", code_section={**TRAIN, "source_dir": "source.tar.gz"})
    assert "cannot be read as tar.gz" in finding.message


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


def modules(src: Path, *names: str) -> None:
    for name in names:
        file = src / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


@pytest.mark.parametrize("module", ["train", "pkg.train", "pkg.deep", "pkg.deep.run"])
def test_a_module_of_the_source_is_there(judge, src: Path, module: str) -> None:
    modules(src, "pkg/train.py", "pkg/deep/__main__.py", "pkg/deep/run.py")
    assert judge("CODE002", code_section={"source_dir": "src", "module": module}) == []


@pytest.mark.parametrize(
    ("module", "meant"),
    [("pkg.trian", "pkg.train?"), ("pkg.deep", "pkg.deep.run?"), ("pkg.zzz", "Python imports")],
)
def test_a_module_that_its_package_does_not_hold_is_an_error(
    judge, src: Path, module: str, meant: str
) -> None:
    modules(src, "pkg/__init__.py", "pkg/train.py", "pkg/deep/run.py")
    (finding,) = judge("CODE002", code_section={"source_dir": "src", "module": module})
    assert (finding.severity, finding.path) == ("error", ("code", "module"))
    assert meant in finding.remedy


def test_a_module_that_is_left_out_is_named_with_the_pattern(judge, src: Path) -> None:
    modules(src, "pkg/train.py")
    (src / ".gitignore").write_text("pkg/")
    (finding,) = judge("CODE002", code_section={"source_dir": "src", "module": "pkg.train"})
    assert (finding.severity, "the pattern pkg/ fits pkg/" in finding.message) == ("error", True)


@pytest.mark.parametrize(("module", "severity"), [("torchtitan.train", "info"), ("trian", "warning")])
def test_a_module_of_no_package_of_the_source_may_be_installed(
    judge, src: Path, module: str, severity: str
) -> None:
    modules(src, "torchtitan/notes.txt")
    (finding,) = judge("CODE002", code_section={"source_dir": "src", "module": module})
    assert finding.severity == severity
    assert ("Did you mean train?" in finding.remedy) == (severity == "warning")


def test_a_source_that_is_missing_is_said_of_a_module_too(judge) -> None:
    (finding,) = judge("CODE002", code_section={"source_dir": "elsewhere", "module": "pkg.train"})
    assert finding.path == ("code", "source_dir")
