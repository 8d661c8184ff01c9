"""The wheel is whole: what it holds works without the repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import launcher
from tools import ROOT
from tools.checks.check_wheel import WITH_AN_ACCOUNT, WITHOUT_AN_ACCOUNT, Expected, problems
from tools.generate.pages.command_line_page import commands

QUICK = (
    *("--version", "schema", "explain EFA001", "check job.yaml", "plan job.yaml", "job.yaml --local"),
    "list --local",
)
"""Those of the commands that are tried here; `make wheel-check` tries all."""

LAUNCH = [sys.executable, "-m", "launcher.cli.app"]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this repository, built and unpacked where nothing else of it is."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    for folder in ("launcher", "slipway"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    build = f"from setuptools.build_meta import build_wheel; build_wheel({str(built)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, check=True)
    [wheel] = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(built / "unpacked")
    return built / "unpacked"


def test_the_wheel_holds_the_launcher_with_types_and_license_and_nothing_else(unpacked: Path) -> None:
    [about] = unpacked.glob("*.dist-info")
    assert about.name == f"slipway_launch-{launcher.__version__}.dist-info"
    assert {each.name for each in unpacked.iterdir()} == {"launcher", "slipway", about.name}
    assert (unpacked / "launcher" / "py.typed").exists()
    assert (unpacked / "slipway" / "py.typed").exists()
    assert "Apache License" in (about / "licenses" / "LICENSE").read_text("utf-8")


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert launcher.__version__ == project["version"]


@pytest.mark.exhaustive
def test_the_commands_of_the_wheel_need_nothing_of_the_repository(unpacked: Path) -> None:
    chosen = [each for each in WITHOUT_AN_ACCOUNT if each.words in QUICK]
    assert len(chosen) == len(QUICK)
    assert list(problems(LAUNCH, chosen, {"PYTHONPATH": str(unpacked)})) == []


def test_no_command_is_left_out() -> None:
    tried = [each.words for each in (*WITHOUT_AN_ACCOUNT, *WITH_AN_ACCOUNT)]
    # The command that takes a job file and no other word is tried by its job file.
    wanted = ["job.yaml" if name == "launch" else name for name in commands()]
    assert [name for name in wanted if not any(f"{words} ".startswith(f"{name} ") for words in tried)] == []


def test_a_command_that_does_otherwise_is_told_with_what_it_printed(unpacked: Path, tmp_path: Path) -> None:
    broken = shutil.copytree(unpacked, tmp_path / "broken")
    (broken / "launcher" / "planning" / "images.json").unlink()
    expected = [Expected("explain EFA001", 0, "EFA001"), Expected("plan job.yaml", 0, "ml.m5.xlarge")]
    [problem] = problems(LAUNCH, expected, {"PYTHONPATH": str(broken)})
    assert problem.startswith("launch plan job.yaml: exit code 1\n")
    assert "images.json" in problem
