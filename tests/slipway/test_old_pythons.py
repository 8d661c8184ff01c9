"""The package is imported by real interpreters of the images: syntax alone does not show what they lack."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from launcher.source.packaging import build_boot
from tools.checks.old_versions import interpreter

VERSIONS = ("3.8", "3.9", "3.10", "3.12", "3.13")
IMPORTS_ALL = """\
import importlib, sys, warnings, zipfile
archive = sys.argv[1]
sys.path.insert(0, archive)
warnings.simplefilter("error", SyntaxWarning)
for name in sorted(zipfile.ZipFile(archive).namelist()):
    if name.startswith("slipway/") and name.endswith(".py"):
        importlib.import_module(name[:-3].replace("/", ".").replace(".__init__", ""))
from slipway.evidence import judge
from slipway.signatures.table import compiled, table
for row in table().rows + table().contexts:
    compiled(row.pattern, row.flags)
print(judge("RuntimeError: CUDA error: uncorrectable ECC error encountered", 1, "/opt/ml/code").code)
"""


@pytest.mark.few_cases("3.8", "3.13")
@pytest.mark.parametrize("version", VERSIONS)
def test_everything_is_imported_and_an_output_judged(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    build_boot(tmp_path / "slipway.pyz")
    shown = subprocess.run(
        [python, "-I", "-c", IMPORTS_ALL, tmp_path / "slipway.pyz"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert shown.stderr == ""
    assert shown.stdout == "HW001\n"


def test_an_interpreter_that_is_not_there_is_none() -> None:
    assert interpreter("3.0") is None
    assert interpreter(f"{sys.version_info[0]}.{sys.version_info[1]}") is not None
