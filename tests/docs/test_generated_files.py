"""What is generated is current."""

from __future__ import annotations

from types import ModuleType

import pytest

from scripts import (
    generate_api_model,
    generate_architecture_diagram,
    generate_failure_mode_page,
    generate_image_table,
    generate_job_file_page,
    generate_rooms_diagram,
)
from scripts.generated import ROOT, write_or_check

GENERATORS = (
    generate_api_model,
    generate_architecture_diagram,
    generate_failure_mode_page,
    generate_image_table,
    generate_job_file_page,
    generate_rooms_diagram,
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
    monkeypatch.setattr("scripts.generated.ROOT", folder)
    file = folder / "page.md"
    assert write_or_check(lambda: {file: "text"}, "python -m page", []) == 0
    assert file.read_text("utf-8") == "text"
    assert write_or_check(lambda: {file: "text"}, "python -m page", ["--check"]) == 0


def test_every_field_of_the_job_file_is_on_its_page() -> None:
    page = generate_job_file_page.PAGE.read_text("utf-8")
    schema = generate_job_file_page.job_schema()
    parts = [schema, *(part for part in schema["$defs"].values() if "properties" in part)]
    for part in parts:
        missing = [name for name in part["properties"] if f"| `{name}` |" not in page]
        assert missing == [], part["title"]
