"""What is generated is current."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from launcher.cluster.specification import ClusterSpec
from launcher.jobs.specification import job_schema
from tools.generate.__main__ import GENERATORS
from tools.generate.generated import ROOT, command_of, filled_in, write_or_check
from tools.generate.pages.field_pages import CLUSTER_PAGE, JOB_PAGE


@pytest.mark.parametrize("name", GENERATORS)
def test_what_is_generated_is_current(name: str) -> None:
    generated = import_module(GENERATORS[name]).generated()
    stale = [path for path, text in generated.items() if path.read_text("utf-8") != text]
    assert stale == [], f"run `{command_of(name)}`"


def test_check_changes_nothing_and_fails_on_a_file_that_is_not_current(
    capsys: pytest.CaptureFixture[str],
) -> None:
    absent = ROOT / "docs" / "absent.md"
    assert write_or_check({absent: "text"}, "python -m absent", check=True) == 1
    assert "docs/absent.md is not current; run `python -m absent`" in capsys.readouterr().err
    assert not absent.exists()


def test_a_stale_file_is_written_and_then_current(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("root")
    monkeypatch.setattr("tools.generate.generated.ROOT", folder)
    file = folder / "page.md"
    assert write_or_check({file: "text"}, "python -m page", check=False) == 0
    assert file.read_text("utf-8") == "text"
    assert write_or_check({file: "text"}, "python -m page", check=True) == 0


SCHEMAS = {
    JOB_PAGE: job_schema(),
    CLUSTER_PAGE: ClusterSpec.model_json_schema(),
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
        filled_in(JOB_PAGE, "page", "code", {"fields": "", "extra": ""})
