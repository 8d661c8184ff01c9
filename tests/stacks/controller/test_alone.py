"""What the controller's function is deployed as runs where Lambda unpacks it: read-only, without a home."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stacks.controller_package import controller_package

OF_LAMBDA = ("boto3", "botocore", "s3transfer", "jmespath", "python-dateutil", "six", "urllib3")
"""boto3, which Lambda's own Python has, and what it needs."""

PROGRAM = """
import sys
sys.path[:0] = sys.argv[1:]
import boto3
import launcher.controller
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.report.page import page_of
from launcher.report.run_report import RunReader, RunReport
from launcher.session.plan_notes import read_plan_note

line = Record(1_790_000_000.0, "algo-1", "RuntimeError: CUDA error: an illegal memory access", "algo-1")
reader = RunReader()
reader.read(line, 0)
report = RunReport("digits-1", diagnose([line]), reader.result(), 1_790_000_001.0, "1.0")
assert read_plan_note("digits-1") is None
print(launcher.__file__)
print(page_of(report))
"""


@pytest.fixture
def unpacked() -> Iterator[Path]:
    """The package, with nothing in it that can be written."""
    folder = controller_package().folder
    parts = [folder, *folder.rglob("*")]
    for part in parts:
        part.chmod(0o555 if part.is_dir() else 0o444)
    yield folder
    for part in parts:
        part.chmod(0o755 if part.is_dir() else 0o644)


@pytest.fixture
def python_of_lambda(tmp_path: Path) -> Path:
    """A folder with nothing but boto3 and what boto3 needs."""
    for name in OF_LAMBDA:
        for file in importlib.metadata.files(name) or ():
            part, place = file.parts[0], Path(str(file.locate()))
            link = tmp_path / part
            if part != ".." and not link.exists():
                link.symlink_to(place.parents[len(file.parts) - 2] if len(file.parts) > 1 else place)
    return tmp_path


def test_the_step_and_its_page_are_made_of_the_package_and_boto3_alone(
    unpacked: Path, python_of_lambda: Path
) -> None:
    before = sorted(unpacked.rglob("*"))
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", PROGRAM, str(unpacked), str(python_of_lambda)],
        cwd="/",
        env={},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    where, _, page = run.stdout.partition("\n")
    assert where == str(unpacked / "launcher" / "__init__.py")
    assert page.startswith("<!DOCTYPE html>") and "illegal memory access" in page
    assert sorted(unpacked.rglob("*")) == before
