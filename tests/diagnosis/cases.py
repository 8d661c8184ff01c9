"""The labelled logs that were modelled on public threads, and records made from text."""

from __future__ import annotations

from launcher.diagnosis.logs.lines import Record
from tests.logs.cases import LogCase, log_cases


def cases() -> list[LogCase]:
    """Those of them that were modelled, by name."""
    return [case for case in log_cases() if case.modelled]


def records(text: str, host: str = "", start: float | None = None) -> list[Record]:
    """The lines of a host, a second apart from `start` on, or without times."""
    lines = text.strip("\n").split("\n")
    return [
        Record(None if start is None else start + number, host, line) for number, line in enumerate(lines)
    ]
