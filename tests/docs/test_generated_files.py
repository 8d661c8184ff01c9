"""What is generated is current."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from launcher.cluster.specification import ClusterSpec
from launcher.jobs.specification import job_schema
from tools.generate import (
    api_model,
    architecture_diagram,
    boot_signatures,
    cluster_file_page,
    command_line_page,
    costs_page,
    create_only,
    failure_mode_page,
    failure_modes,
    image_table,
    job_file_page,
    lint_findings_page,
    lint_rules_page,
    rooms_diagram,
)
from tools.generate.generated import ROOT, write_or_check
from tools.generate.page_text import filled_in

GENERATORS = (
    api_model,
    architecture_diagram,
    cluster_file_page,
    command_line_page,
    costs_page,
    boot_signatures,
    create_only,
    failure_mode_page,
    failure_modes,
    image_table,
    job_file_page,
    lint_rules_page,
    lint_findings_page,
    rooms_diagram,
)


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: generator.__name__)
def test_what_is_generated_is_current(generator: ModuleType) -> None:
    stale = [path for path, text in generator.generated().items() if path.read_text("utf-8") != text]
    assert stale == [], f"run `{generator.COMMAND}`"


@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: generator.__name__)
def test_the_command_that_is_named_is_the_generators(generator: ModuleType) -> None:
    assert f"python -m {generator.__name__}" == generator.COMMAND


def test_check_changes_nothing_and_fails_on_a_file_that_is_not_current(
    capsys: pytest.CaptureFixture[str],
) -> None:
    absent = ROOT / "docs" / "absent.md"
    assert write_or_check(lambda: {absent: "text"}, "python -m absent", ["--check"]) == 1
    assert "docs/absent.md is not current; run `python -m absent`" in capsys.readouterr().err
    assert not absent.exists()


def test_a_stale_file_is_written_and_then_current(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("root")
    monkeypatch.setattr("tools.generate.generated.ROOT", folder)
    file = folder / "page.md"
    assert write_or_check(lambda: {file: "text"}, "python -m page", []) == 0
    assert file.read_text("utf-8") == "text"
    assert write_or_check(lambda: {file: "text"}, "python -m page", ["--check"]) == 0


SCHEMAS = {
    job_file_page.PAGE: job_schema(),
    cluster_file_page.PAGE: ClusterSpec.model_json_schema(),
}


@pytest.mark.parametrize("page", SCHEMAS, ids=lambda page: page.stem)
def test_every_field_of_a_file_is_on_its_page(page: Path) -> None:
    text, schema = page.read_text("utf-8"), SCHEMAS[page]
    parts = [schema, *(part for part in schema["$defs"].values() if "properties" in part)]
    for part in parts:
        missing = [name for name in part["properties"] if f"| `{name}` |" not in text]
        assert missing == [], part["title"]


def test_a_page_without_a_place_for_what_is_generated_is_refused() -> None:
    with pytest.raises(ValueError, match=r"job-file\.md and what is generated for it differ in: extra"):
        filled_in(job_file_page.PAGE, "python -m page", "code", {"fields": "", "extra": ""})
