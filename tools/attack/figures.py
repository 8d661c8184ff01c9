"""The figures of a run: one row for each area, as JSON and as the table of docs/reliability.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools import ROOT
from tools.generate.generated import table_of

FILE = ROOT / "tools" / "attack" / "figures.json"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- figures: written by `make attack` -->", "<!-- end of the figures -->"


@dataclass(frozen=True, slots=True)
class Figure:
    """What came of an area: how much was tried, how much of it failed, what else is to be said, and each
    cause of a failure with how to see one again."""

    area: str
    tried: int
    failed: int
    seen: str
    date: str
    machine: str
    causes: Sequence[str] = field(default=())


def read(file: Path = FILE) -> list[Figure]:
    """The figures of the last runs, one an area."""
    return [Figure(**each) for each in json.loads(file.read_text("utf-8"))]


def keep(figures: Iterable[Figure], file: Path = FILE, page: Path = PAGE) -> None:
    """Put the figures in the place of earlier ones of their areas, and the table into the page."""
    known = {figure.area: figure for figure in read(file)} if file.exists() else {}
    known |= {figure.area: figure for figure in figures}
    text = json.dumps([asdict(each) for each in known.values()], indent=1)
    file.write_text(f"{text}\n", "utf-8")
    page.write_text(with_table(page.read_text("utf-8"), known.values()), "utf-8")


def with_table(page: str, figures: Iterable[Figure]) -> str:
    """The page with the table of these figures."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(figures)}\n{END}{after}"


def table(figures: Iterable[Figure]) -> str:
    """The figures as a table in Markdown."""
    rows = [(each.area, f"{each.tried:,}", f"{each.failed:,}", each.seen, each.date) for each in figures]
    return table_of(("area", "tried", "failed", "seen", "date"), rows, (1, 2)).rstrip()
