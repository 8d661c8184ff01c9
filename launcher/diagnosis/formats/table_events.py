"""Log lines in tables: CSV of Insights and of CloudWatch's console, and `--output text` of the AWS CLI."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Final

from launcher.diagnosis.formats.blocks import lines_of
from launcher.diagnosis.formats.event import LARGEST_EVENT, Event, event_of

_MESSAGES = frozenset({"@message", "message"})
_OTHERS = frozenset(
    {"@timestamp", "timestamp", "@logStream", "logStreamName", "@ingestionTime", "ingestionTime"}
)
_COLUMNS: Final = {
    4: ("", "ingestionTime", "message", "timestamp"),
    6: ("", "eventId", "ingestionTime", "logStreamName", "message", "timestamp"),
}
"""The CLI writes the fields of an event in the order of their names: those of get-log-events and those of
filter-log-events."""
EVENTS_MARK: Final = "EVENTS\t"


def columns_of(line: str) -> list[str] | None:
    """The columns that a CSV's first line names, None where it is not one of a table of log lines."""
    try:
        names = [name.strip() for name in next(csv.reader([line]), [])]
    except csv.Error:
        return None
    known = _MESSAGES.intersection(names) and (_OTHERS.intersection(names) or names == ["@message"])
    return names if known else None


def of_csv(blocks: Iterable[bytes]) -> Iterator[Event]:
    """The events of a CSV whose first line names the columns.

    A row whose quotes do not end within what a field may have is let go, and reading goes on behind it.
    """
    # The limit is the whole process's, and meant against fields without an end: it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_EVENT))
    lines = (f"{line}\n" for line in lines_of(blocks))
    columns = columns_of(next(lines, "")) or []
    while True:
        rows = csv.reader(lines)
        try:
            for row in rows:
                if (event := event_of(dict(zip(columns, row, strict=False)))) is not None:
                    yield event
            return
        except csv.Error:
            # The reader has taken the lines up to here; those behind them begin anew.
            continue


def of_cli_text(blocks: Iterable[bytes]) -> Iterator[Event]:
    """The events that the AWS CLI prints with `--output text`, a line each; tabs in messages stay."""
    for line in lines_of(blocks):
        parts = line.split("\t")
        columns = _COLUMNS[6] if _has_id(parts) else _COLUMNS[4]
        if not line.startswith(EVENTS_MARK) or len(parts) < len(columns):
            if line.strip():
                yield Event(None, "", line)
            continue
        before = columns.index("message")
        message = "\t".join(parts[before : len(parts) - 1])
        told = dict(zip(columns[:before], parts[:before], strict=True))
        yield event_of({**told, "message": message, "timestamp": parts[-1]}) or Event(None, "", line)


def _has_id(parts: list[str]) -> bool:
    """Whether it is an event of filter-log-events: its id has 56 digits, a time 13."""
    return len(parts) >= len(_COLUMNS[6]) and len(parts[1]) > 20
