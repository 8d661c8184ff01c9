"""The page of each construct: it is there, says what the code says, and its example synthesizes."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path

import aws_cdk as cdk
import pytest

from tests.stacks.synthesis import ROOT

PAGES = ROOT / "docs" / "reference" / "constructs"
HELPERS = {
    "job_logs",
    "mounted_file_system",
    "permissions",
    "weak_references",
}
"""Modules without a construct of their own."""

MODULES = sorted({path.stem for path in (ROOT / "constructs").glob("*.py")} - HELPERS)


def page_of(module: str) -> str:
    return (PAGES / f"{module.replace('_', '-')}.md").read_text(encoding="utf-8")


def construct_of(module: str) -> type:
    name = page_of(module).splitlines()[0].removeprefix("# ")
    found: type = getattr(importlib.import_module(f"constructs.{module}"), name)
    return found


def test_every_page_is_that_of_a_construct_and_stands_in_the_index() -> None:
    pages = {path.stem.replace("-", "_") for path in PAGES.glob("*.md")} - {"README"}
    linked = set(re.findall(r"\(([a-z-]+)\.md\)", (PAGES / "README.md").read_text(encoding="utf-8")))
    assert pages == set(MODULES) == {name.replace("-", "_") for name in linked}


@pytest.mark.parametrize("module", MODULES)
def test_a_page_lists_the_properties_that_the_construct_has(module: str) -> None:
    parameters = inspect.signature(construct_of(module).__init__).parameters.values()
    by_keyword = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    assert re.findall(r"^\| `(\w+)` \|", page_of(module), re.MULTILINE) == by_keyword


@pytest.mark.parametrize("module", MODULES)
def test_a_page_links_what_the_construct_prevents(module: str) -> None:
    prevented = getattr(importlib.import_module(f"constructs.{module}"), "PREVENTS", ())
    linked = re.findall(
        r"^- \[(\w+)\]\(\.\./failure-modes/[a-z0-9-]+\.md#(\w+)\)", page_of(module), re.MULTILINE
    )
    assert linked == [(mode.code, mode.code.lower()) for mode in prevented]


@pytest.mark.parametrize("module", MODULES)
def test_the_example_of_a_page_synthesizes_with_the_construct_in_it(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", page_of(module), re.MULTILINE | re.DOTALL)
    context = {"aws:cdk:enable-path-metadata": True}
    monkeypatch.setattr(cdk, "App", functools.partial(cdk.App, context=context, outdir=str(tmp_path)))
    names: dict[str, object] = {}
    exec(compile(example, f"{module}.md", "exec"), names)
    templates = list(tmp_path.glob("*.template.json"))
    assert templates and construct_of(module).__name__ in names
    assert f"{construct_of(module).__name__}(" in example
