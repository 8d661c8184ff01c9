"""The folder `constructs/` extends the PyPI package of the same name and must not shadow it."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import constructs
import pytest

from launcher.failure_modes.model import FailureMode

FOLDER = Path(__file__).parents[2] / "constructs"
MODULES = sorted(path.stem for path in FOLDER.glob("*.py"))


def test_folder_has_no_init_file() -> None:
    assert not (FOLDER / "__init__.py").exists()
    assert not (Path(__file__).parent / "__init__.py").exists()


def test_library_comes_from_site_packages() -> None:
    assert constructs.__file__ is not None
    assert "site-packages" in Path(constructs.__file__).parts


def test_every_planned_failure_mode_is_prevented() -> None:
    prevented: set[str] = set()
    for name in MODULES:
        modes: tuple[FailureMode, ...] = getattr(
            importlib.import_module(f"constructs.{name}"), "PREVENTS", ()
        )
        prevented |= {mode.code for mode in modes}

    assert prevented == {"EFA001", "EFA002", "EFA003", "EFA004", "FSX004", "IAM001", "IAM002"}


@pytest.mark.parametrize("name", MODULES)
def test_construct_imports_only_the_ground_floor(name: str) -> None:
    tree = ast.parse((FOLDER / f"{name}.py").read_text("utf-8"))
    imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in imported if module.split(".")[0] in ("launcher", "stacks", "slipway")}

    assert all(module.startswith(("launcher.cluster", "launcher.failure_modes")) for module in ours)
