"""What scripts import from the package: named in one place, and free until it is asked for."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import slipway

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", slipway._OFFERED)
def test_what_is_offered_is_there_under_that_name(name: str) -> None:
    assert getattr(slipway, name).__name__ == name


def test_what_is_not_offered_is_not_there() -> None:
    with pytest.raises(AttributeError, match="'slipway' has no attribute 'checkpointmanager'"):
        slipway.checkpointmanager  # noqa: B018


def test_importing_the_package_imports_no_torch() -> None:
    asked = "import sys, slipway; slipway.CheckpointManager; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", asked], cwd=ROOT, check=True)


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert slipway.__version__ == project["version"]
