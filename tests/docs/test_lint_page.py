"""The page of the lint prints what the lint prints."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from launcher.rules.script.acceptance import read_configuration
from tests.cli.conftest import RunLaunch, run_launch

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "lint.md").read_text("utf-8")
HOOKS = ROOT / ".pre-commit-hooks.yaml"
__all__ = ["run_launch"]


def blocks(language: str) -> Iterator[str]:
    """The texts of the code blocks in a language, "" for those without one."""
    for part in PAGE.split("```")[1::2]:
        found, _, text = part.partition("\n")
        if found == language:
            yield text


def test_each_example_prints_what_stands_there(
    run_launch: RunLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in blocks("python"):
        head, _, rest = text.partition("\n")
        if head.startswith("# "):
            Path(head.removeprefix("# ")).write_text(f"{head}\n{rest}", "utf-8")
    examples = [text for text in blocks("") if text.startswith("$ launch ")]
    assert examples
    for text in examples:
        command, _, printed = text.partition("\n")
        _, out, err = run_launch(*shlex.split(command)[2:])
        assert f"{out}{err}" == printed


def test_the_examples_of_the_repository_are_judged_and_silent(run_launch: RunLaunch) -> None:
    code, out, err = run_launch("lint", ROOT / "examples")
    assert (code, out) == (0, "")
    assert err.startswith("no errors in ")


def test_the_configuration_of_the_page_is_right(tmp_path: Path) -> None:
    (text,) = blocks("toml")
    (tmp_path / "pyproject.toml").write_text(text, "utf-8")
    found = read_configuration(tmp_path / "pyproject.toml")
    assert found is not None
    assert found.findings == ()
    assert set(tomllib.loads(text)["tool"]["slipway"]["lint"]) == {
        "select",
        "ignore",
        "exclude",
        "per-file-ignores",
    }


def test_the_hook_that_the_page_names_is_the_repositorys() -> None:
    _, configuration = (yaml.safe_load(text) for text in blocks("yaml"))
    (wanted,) = configuration["repos"][0]["hooks"]
    (hook,) = yaml.safe_load(HOOKS.read_text("utf-8"))
    assert wanted["id"] == hook["id"]


def test_the_hook_takes_file_names_in_one_process(
    run_launch: RunLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (hook,) = yaml.safe_load(HOOKS.read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    for name in ("a.py", "b.py"):
        Path(name).write_text("a = 1\n", "utf-8")
    program, *arguments = shlex.split(hook["entry"])
    assert program == "launch"
    assert run_launch(*arguments, "a.py", "b.py") == (0, "", "no errors in 2 files of 2 programs\n")


def test_workflow_and_hook_take_the_launcher_from_one_place() -> None:
    workflow, hooks = (yaml.safe_load(text) for text in blocks("yaml"))
    (repository,) = hooks["repos"]
    runs = [step["run"] for step in workflow["jobs"]["lint"]["steps"] if "run" in step]
    assert runs[0] == f"pip install git+{repository['repo']}@{repository['rev']}"


def test_the_workflow_of_the_page_asks_for_annotations() -> None:
    workflow, _ = (yaml.safe_load(text) for text in blocks("yaml"))
    *_, last = workflow["jobs"]["lint"]["steps"]
    assert last == {"run": "launch lint . --output github"}
