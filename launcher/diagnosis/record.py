"""A line of a log as it comes, and as the diagnosis reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from launcher.text.controls import without_controls
from launcher.text.line_length import LONGEST_LINE
from launcher.text.line_origin import origin_of


class LogRecord(Protocol):
    """One line of one host, as whoever reads logs hands it to the diagnosis."""

    @property
    def time(self) -> float | None:
        """Seconds since the epoch, None where the stream has no times."""
        ...

    @property
    def host(self) -> str:
        """The host in whose stream it stands, such as `algo-2`; empty where the source names none."""
        ...

    @property
    def text(self) -> str:
        """The line as printed, with its prefixes and without its line break."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """A log record that no backend made, such as a line of a file; the fields are those of LogRecord."""

    time: float | None
    host: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its prefixes, and what these tell (see `Origin`).

    `rank` is global. `writer` keeps the lines of one process together where those of many are mixed.
    """

    text: str
    rank: int | None = None
    host: str | None = None
    device: int | None = None
    writer: int | None = field(default=None, compare=False)


def parse(text: str) -> Line:
    """The line behind its prefixes, without control characters and no longer than LONGEST_LINE."""
    text = without_controls(text[:LONGEST_LINE])
    origin = origin_of(text)
    return Line(text[origin.start :], origin.rank, origin.host, origin.device, origin.writer)
