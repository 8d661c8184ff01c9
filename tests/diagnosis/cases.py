"""The labelled logs, and records made from text."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.diagnosis.record import Record

LOGS = Path(__file__).parents[1] / "logs"


@dataclass(frozen=True)
class Case:
    """A log and what is known of it."""

    name: str
    text: str
    label: dict[str, Any]


def cases() -> list[Case]:
    """All labelled logs."""
    return [
        Case(file.stem, file.read_text("utf-8"), json.loads(file.with_suffix(".json").read_text("utf-8")))
        for file in sorted(LOGS.glob("*.log"))
    ]


def records(text: str, host: str = "", start: float | None = None) -> list[Record]:
    """The lines of a host, a second apart from `start` on, or without times."""
    lines = text.strip("\n").split("\n")
    return [
        Record(None if start is None else start + number, host, line) for number, line in enumerate(lines)
    ]
