"""The figures that docs/reliability.md quotes are those of the last runs."""

from __future__ import annotations

from pathlib import Path

from tools.attack.figures import FILE, PAGE, Figure, keep, read, with_table

ONE = Figure("kills", 100, 2, "two", "2026-11-22", "a machine", ["a cause"])


def test_the_page_has_the_table_of_the_kept_figures() -> None:
    page = PAGE.read_text("utf-8")
    assert with_table(page, read(FILE)) == page


def test_a_new_figure_takes_the_place_of_the_one_of_its_area(tmp_path: Path) -> None:
    file, page = tmp_path / "figures.json", tmp_path / "page.md"
    page.write_text(
        "before\n<!-- figures: written by `make attack` -->\nold\n<!-- end of the figures -->\nafter\n"
    )
    keep([Figure("other", 1, 0, "", "", "", ()), ONE], file, page)
    keep([Figure("kills", 300, 0, "none", "2026-11-23", "a machine", ())], file, page)
    assert [(each.area, each.tried) for each in read(file)] == [("other", 1), ("kills", 300)]
    text = page.read_text()
    assert "| kills | 300 | 0 | none | 2026-11-23 |" in text
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
