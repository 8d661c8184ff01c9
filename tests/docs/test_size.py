"""What users read stays short: how many pages there are, and how long the first ones may be."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from launcher.cli.app import main
from tests.docs.pages import ROOT, blocks


@pytest.mark.parametrize(("page", "most"), [("README.md", 900), ("docs/design.md", 1500)])
def test_a_first_page_stays_short(page: str, most: int) -> None:
    assert len((ROOT / page).read_text("utf-8").split()) <= most


def test_users_have_few_pages_and_each_begins_with_its_contents() -> None:
    pages = sorted((ROOT / "docs").glob("*.md"))
    assert len(pages) <= 18
    for page in pages:
        text = page.read_text("utf-8")
        if text.count("\n## ") > 2:
            assert re.search(r"^Contents: \[", text.partition("\n## ")[0], re.MULTILINE), page.name


def test_the_job_file_of_the_readme_has_no_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = blocks((ROOT / "README.md").read_text("utf-8"), "yaml")
    (tmp_path / "src").symlink_to(ROOT / "examples" / "ddp" / "src")
    (tmp_path / "job.yaml").write_text(example)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(tmp_path / "job.yaml"), "--output", "json"])
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [each["code"] for each in found if each["severity"] != "info"] == []
    assert not ended.value.code
