"""Compare every table of facts with the sources that are at hand, and say what differs and what is old.

    python -m tools.facts

Exits with 1 where a figure differs without a reason, or where a table must be looked at again.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Iterator
from textwrap import fill

from launcher.failure_modes.model import SHELF_LIFE_DAYS
from launcher.failure_modes.registry import CATALOGUE
from tools.facts import actions
from tools.facts.comparison import Comparison
from tools.facts.freshness import installed_versions, must_be_looked_at, newer_sources
from tools.facts.tables import Table, tables

_MOST = 12
"""Differences of one comparison that are shown; a source that has moved on differs in hundreds."""


def main() -> int:
    """Print a paragraph for each table, and the sum."""
    today = datetime.date.today()
    compared, findings = 0, 0
    print("What we take for true, and who else says so\n")
    for table in tables():
        print(f"{table.path}\n    looked at {_age(table, today)}; from {_short(table.provenance.source)}")
        comparisons = list(table.comparisons())
        for line in _lines_of(comparisons):
            print(line)
        for line in _staleness(table, today):
            print(line)
        compared += sum(each.compared for each in comparisons)
        findings += _findings(comparisons) + bool(_must(table, today))
        print()
    print("IAM actions in constructs, stacks and the launcher")
    permissions = list(actions.comparisons())
    for line in _lines_of(permissions):
        print(line)
    compared += sum(each.compared for each in permissions)
    findings += _findings(permissions)
    print(f"\n{_catalogue(today)}\n")
    print(f"{compared:,} figures compared; {_number(findings, 'thing')} to look at")
    return 1 if findings else 0


def _lines_of(comparisons: list[Comparison]) -> Iterator[str]:
    if not comparisons:
        yield "    no source of it can be had offline: to be read again by hand"
    for each in comparisons:
        kind = "" if each.independent else " (its own source: copied right, and not moved on)"
        unexplained = each.unexplained
        mark, verdict = ("✗", _number(len(unexplained), "difference")) if unexplained else ("✓", "agrees")
        yield f"  {mark} {_number(each.compared, 'figure')} against {each.against}{kind}: {verdict}"
        for difference in unexplained[:_MOST]:
            yield f"      {difference}"
        if len(unexplained) > _MOST:
            yield f"      and {len(unexplained) - _MOST} more"
        for difference in each.differences:
            if difference.because is not None:
                yield fill(f"meant: {difference}", 108, initial_indent="      ", subsequent_indent="        ")


def _staleness(table: Table, today: datetime.date) -> Iterator[str]:
    must = _must(table, today)
    newer = newer_sources(table.provenance, installed_versions(table.provenance))
    if must is not None:
        yield f"  ✗ {must}"
    elif newer:
        yield f"  - newer here: {', '.join(newer)}"
    elif table.provenance.is_past_its_shelf_life(today):
        yield "  - past its shelf life; nothing newer is installed to compare it with"


def _must(table: Table, today: datetime.date) -> str | None:
    return must_be_looked_at(table.provenance, today, installed_versions(table.provenance))


def _findings(comparisons: list[Comparison]) -> int:
    return sum(len(each.unexplained) for each in comparisons)


def _age(table: Table, today: datetime.date) -> str:
    origin = table.provenance
    days = origin.age_days(today)
    when = "today" if days == 0 else f"{_number(days, 'day')} ago"
    return f"{origin.as_of} ({when}, keeps {origin.shelf_life_days} days)"


def _catalogue(today: datetime.date) -> str:
    """The sources of the failure modes: pages for people, so only their age can be told."""
    sources = {source.title: source for mode in CATALOGUE.values() for source in mode.sources}
    oldest = min(source.as_of for source in sources.values())
    newest = max(source.as_of for source in sources.values())
    old = [title for title, source in sources.items() if (today - source.as_of).days > SHELF_LIFE_DAYS]
    lines = [
        f"The catalogue of failure modes\n    {len(sources)} sources, looked at from {oldest} to {newest}; "
        f"each keeps {SHELF_LIFE_DAYS} days"
    ]
    return "\n".join([*lines, *(f"  - past its shelf life: {title}" for title in old)])


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _short(source: str) -> str:
    return source if len(source) <= 90 else f"{source[:87]}..."


if __name__ == "__main__":
    sys.exit(main())
