"""`[tool.slipway.lint]` is read with all that is wrong in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.failure_modes.model import Severity
from launcher.scripts.configuration import Configurations, LintConfiguration, is_among, read_configuration

WHOLE = """
[tool.slipway.lint]
select = ["DDP", "CKPT008"]
ignore = ["DDP006"]
exclude = ["old", "*_test.py"]

[tool.slipway.lint.per-file-ignores]
"tools/*" = ["DDP004"]
"""


def read(folder: Path, text: str) -> LintConfiguration:
    (folder / "pyproject.toml").write_text(text, "utf-8")
    found = read_configuration(folder / "pyproject.toml")
    assert found is not None
    return found


def test_a_family_stands_for_its_codes() -> None:
    assert is_among("DDP004", ["DDP"])
    assert is_among("DDP004", ["DDP004"])
    assert not is_among("DDP004", ["DD", "DDP00", "DDP008", "DATA"])


def test_everything_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert found.findings == ()
    assert [found.selects(code) for code in ("DDP004", "CKPT008", "CKPT007")] == [True, True, False]
    assert found.ignores("DDP006", tmp_path / "train.py")
    assert found.ignores("DDP004", tmp_path / "tools" / "deep" / "train.py")
    assert not found.ignores("DDP004", tmp_path / "train.py")
    assert found.excludes(tmp_path / "old")
    assert found.excludes(tmp_path / "old" / "train.py")
    assert found.excludes(tmp_path / "sub" / "a_test.py")
    assert not found.excludes(tmp_path / "older.py")


def test_a_folder_above_the_project_is_not_matched(tmp_path: Path) -> None:
    project = tmp_path / "old"
    project.mkdir()
    assert not read(project, WHOLE).excludes(project / "train.py")


def test_without_the_section_there_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nselect = 1\n", "utf-8")
    assert read_configuration(tmp_path / "pyproject.toml") is None


def test_the_nearest_file_that_has_the_section_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.slipway.lint]\nignore = ["DDP004"]\n', "utf-8")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'a'\n", "utf-8")
    assert Configurations().of(inner / "train.py").ignore == ("DDP004",)


@pytest.mark.parametrize(
    ("text", "code", "message", "place", "remedy"),
    [
        ('ignore = ["DDP04"]', "SPEC002", "DDP04 in `ignore`", (2, 11), "Did you mean DDP004?"),
        ('selct = ["DDP"]', "SPEC002", "unknown key `selct`", (2, 1), "Did you mean `select`?"),
        ('select = "DDP"', "SPEC003", "`select` of [tool.slipway.lint] is no list", (2, 1), "Write it as"),
        ("per-file-ignores = 3", "SPEC003", "`per-file-ignores` is no table", (2, 1), "Write it as"),
        ('[tool.slipway.lint.per-file-ignores]\n"a" = 1', "SPEC003", "`a` of", (3, 1), "Write it as"),
    ],
)
def test_what_is_wrong_is_told_where_it_stands(
    tmp_path: Path, text: str, code: str, message: str, place: tuple[int, int], remedy: str
) -> None:
    (finding,) = read(tmp_path, f"[tool.slipway.lint]\n{text}\n").findings
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert finding.message.startswith(message)
    assert finding.remedy.startswith(remedy)
    assert finding.location is not None
    assert (finding.location.line, finding.location.column) == place


@pytest.mark.parametrize("text", ["[tool.slipway.lint\n", "tool = 1 # slipway\n", "[tool]\nslipway = 3\n"])
def test_a_file_that_is_no_toml_or_no_table_is_a_finding(tmp_path: Path, text: str) -> None:
    (finding,) = read(tmp_path, text).findings
    assert finding.code == "SPEC001"


def test_what_is_right_beside_a_mistake_holds(tmp_path: Path) -> None:
    assert read(tmp_path, '[tool.slipway.lint]\nignore = ["DDP004", "X"]\n').ignore == ("DDP004", "X")
