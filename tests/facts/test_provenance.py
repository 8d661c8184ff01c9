"""Every table of facts says when it was last looked at, and for how long it may be believed."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from launcher.facts import Provenance, provenance_of, read_data_file
from tools.facts.tables import DERIVED

LAUNCHER = Path(__file__).parents[2] / "launcher"
DATA_FILES = sorted(set(LAUNCHER.rglob("*.json")) - {LAUNCHER.parent / path for path in DERIVED})
HEAD = {"as_of": "2026-01-31", "shelf_life_days": 90, "source": "a page"}


@pytest.mark.parametrize("path", DATA_FILES, ids=lambda path: path.name)
def test_a_data_file_says_when_it_was_looked_at(path: Path) -> None:
    head = provenance_of(json.loads(path.read_text("utf-8")))
    assert head.as_of <= datetime.date.today()
    assert 30 <= head.shelf_life_days <= 730
    assert head.source


def test_there_are_data_files() -> None:
    assert {"instances.json", "images.json", "prices.json"} <= {path.name for path in DATA_FILES}


@pytest.mark.parametrize("missing", sorted(HEAD))
def test_a_data_file_without_a_head_is_not_read(tmp_path: Path, missing: str) -> None:
    head = {key: value for key, value in HEAD.items() if key != missing}
    (tmp_path / "table.json").write_text(json.dumps(head), "utf-8")
    with pytest.raises(KeyError, match=missing):
        read_data_file(str(tmp_path / "module.py"), "table.json")


def test_a_data_file_lies_beside_its_module(tmp_path: Path) -> None:
    (tmp_path / "table.json").write_text(json.dumps({**HEAD, "rows": [1]}), "utf-8")
    assert read_data_file(str(tmp_path / "module.py"), "table.json")["rows"] == [1]


def test_the_shelf_life_ends_after_its_last_day() -> None:
    looked = Provenance(datetime.date(2026, 1, 1), shelf_life_days=30, source="a page")
    last = datetime.date(2026, 1, 31)
    assert looked.age_days(last) == 30
    assert not looked.is_past_its_shelf_life(last)
    assert looked.is_past_its_shelf_life(last + datetime.timedelta(days=1))
