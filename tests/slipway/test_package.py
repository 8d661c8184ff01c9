"""The package as a whole: what scripts import of it, which Pythons it runs on, which codes it announces.

The container brings no catalogue along: what it says of failure modes agrees with the catalogue.
"""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
import tomllib
import traceback
from functools import cache
from pathlib import Path

import pytest

import slipway
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import CATALOGUE
from launcher.source.packaging import build_boot
from slipway.errors import SlipwayError
from slipway.failure import REPORTS
from slipway.output_signatures import CASCADE, table
from tools.checks.old_versions import interpreter

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


def test_a_traceback_begins_with_the_public_name_and_the_code() -> None:
    (line,) = traceback.format_exception_only(SlipwayError("NUM001", "the loss is nan"))
    assert line == "slipway.SlipwayError: NUM001 the loss is nan\n"


def test_an_error_comes_through_a_workers_pipe() -> None:
    error = pickle.loads(pickle.dumps(SlipwayError("NUM001", "the loss is nan")))
    assert (error.code, str(error)) == ("NUM001", "NUM001 the loss is nan")


def test_what_is_offered_is_there() -> None:
    for name in ("SlipwayError", "even_batches", "guard", "sorted_inputs"):
        assert name in dir(slipway)
        assert getattr(slipway, name).__name__ == name


VERSIONS = ("3.8", "3.9", "3.10", "3.12", "3.13")
IMPORTS_ALL = """\
import importlib, sys, warnings, zipfile
archive = sys.argv[1]
sys.path.insert(0, archive)
warnings.simplefilter("error", SyntaxWarning)
for name in sorted(zipfile.ZipFile(archive).namelist()):
    if name.startswith("slipway/") and name.endswith(".py"):
        importlib.import_module(name[:-3].replace("/", ".").replace(".__init__", ""))
from slipway.failure import judge_output
from slipway.output_signatures import compiled, table
for row in table().rows + table().contexts:
    compiled(row.pattern, row.flags)
print(judge_output("RuntimeError: CUDA error: uncorrectable ECC error encountered", 1, "/opt/ml/code").code)
"""


@pytest.mark.few_cases("3.8")
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


ONLY_THE_SERVICE_SAYS = {"CKPT004", "FSX005"}
"""Planned for the container by other means: the lines of their signatures are printed outside of it."""


@cache
def codes_written() -> set[str]:
    """The codes of failure modes that stand as strings in the container's code, the list itself left out."""
    written: set[str] = set()
    for file in Path(str(slipway.__file__)).parent.rglob("*.py"):
        for statement in ast.parse(file.read_text("utf-8")).body:
            if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "REPORTS":
                continue
            written |= {node.value for node in ast.walk(statement) if isinstance(node, ast.Constant)} & set(
                CATALOGUE
            )
    return written


@cache
def codes_read_from_outputs() -> set[str]:
    """Those by which an output can be judged."""
    rows = {row.code for row in table().rows if row.role <= CASCADE}
    return rows | {context.code for context in table().contexts}


def test_the_container_announces_every_code_that_it_writes() -> None:
    assert codes_written() <= set(REPORTS)


def test_it_announces_what_it_reads_from_outputs_where_that_is_planned() -> None:
    planned = {code for code in codes_read_from_outputs() if Stage.RUNTIME in CATALOGUE[code].stages}
    assert planned - ONLY_THE_SERVICE_SAYS <= set(REPORTS)


@pytest.mark.parametrize("code", REPORTS)
def test_it_announces_nothing_that_it_cannot_say(code: str) -> None:
    assert code in codes_written() | codes_read_from_outputs()
    assert Stage.RUNTIME in CATALOGUE[code].stages
