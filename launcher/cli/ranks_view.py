"""The table of ranks on a terminal: those that differ from the rest first, the rest in one line."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from launcher.diagnosis.redaction import shown

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from launcher.diagnosis.ranks import CollectiveCall, RankState

_MOST_ROWS = 20
"""As many as a screen of 24 lines shows with the heading and what is left out."""


def ranks_table(ranks: Sequence[RankState]) -> Table:
    """A row for each group of ranks that are alike in all but host and time, the smallest groups first."""
    from rich.table import Table
    from rich.text import Text

    groups: dict[tuple[object, ...], list[RankState]] = {}
    for row in ranks:
        groups.setdefault(
            (row.is_silent, row.step, row.enqueued, row.completed, row.exit, row.state, row.frame), []
        ).append(row)
    order = sorted(groups.values(), key=lambda group: (len(group), group[0].rank))
    kept, left = order[:_MOST_ROWS], order[_MOST_ROWS:]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("RANKS", "HOST", "LAST OUTPUT", "STEP", "CALLED", "ENDED", "PROCESS", "AT"):
        table.add_column(heading, overflow="fold")
    for group in kept:
        table.add_row(*_cells(group))
    if left:
        rest = [row.rank for group in left for row in group]
        table.add_row(Text(f"{len(rest)} more", "dim"), *[Text("")] * 7)
    return table


def _cells(group: Sequence[RankState]) -> list[Text]:
    from rich.text import Text

    from launcher.diagnosis.naming import ranks_in_words

    first = group[0]
    hosts = sorted({row.host for row in group if row.host})
    times = [row.last_output for row in group if row.last_output is not None]
    cells = [
        ranks_in_words([row.rank for row in group]).partition(" ")[2],
        hosts[0] if len(hosts) == 1 else f"{len(hosts)} hosts" if hosts else "",
        _time(max(times)) if times else "",
        "" if first.step is None else str(first.step),
        _collective(first.enqueued),
        _collective(first.completed),
        "never reported"
        if first.is_silent
        else ", ".join(each for each in (first.exit, first.state) if each),
        first.frame or "",
    ]
    return [Text(shown(cell)) for cell in cells]


def _collective(collective: CollectiveCall | None) -> str:
    if collective is None:
        return ""
    number = "" if collective.sequence is None else f" #{collective.sequence}"
    group = f" ({collective.group})" if collective.group else ""
    return f"{collective.name}{number}{group}"


def _time(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return ""
