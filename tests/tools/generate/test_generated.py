"""Files that are made from packages keep the day on which something was read anew."""

from __future__ import annotations

import datetime
import json
from importlib.metadata import version
from pathlib import Path

from tools.generate.generated import dated

TODAY = datetime.date.today().isoformat()
LONG_AGO = "2020-02-02"


def made(path: Path, rows: list[int], as_of: str | None = None) -> dict:
    table = dated(path, "pytest", {"rows": rows}, shelf_life_days=90, packages=["pytest"])
    if as_of is not None:
        table["as_of"] = as_of
    path.write_text(json.dumps(table), "utf-8")
    return table


def test_a_new_file_is_dated_today_and_names_its_packages(tmp_path: Path) -> None:
    table = made(tmp_path / "table.json", [1])
    assert next(iter(table)) == "as_of"
    assert table["as_of"] == TODAY
    assert table["packages"] == {"pytest": version("pytest")}


def test_a_file_that_says_the_same_keeps_its_day(tmp_path: Path) -> None:
    made(tmp_path / "table.json", [1], as_of=LONG_AGO)
    assert made(tmp_path / "table.json", [1])["as_of"] == LONG_AGO


def test_a_file_that_says_something_else_is_dated_anew(tmp_path: Path) -> None:
    made(tmp_path / "table.json", [1], as_of=LONG_AGO)
    assert made(tmp_path / "table.json", [1, 2])["as_of"] == TODAY
