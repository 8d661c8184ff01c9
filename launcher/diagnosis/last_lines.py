"""The last lines of each stream, as whoever judges how a job ended wants them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from launcher.diagnosis.record import Line
from launcher.diagnosis.redaction import shown
from launcher.diagnosis.sighting import is_dealt_with

_BAR = re.compile(
    r"\d{1,3}%\|[^|]{0,400}\|? ?\d|\b\d{1,12}(?:/\d{1,12}|it) \[[\d:]{4,10}(?:<|,)|\b\d{1,3}%$"
    r"|^\[(?:batch|epoch)=\d{1,12}(?:/\d{1,12})?\]:"
)
"""What goes on: tqdm's bars, shares at the end of a line, the headings of Composer's records."""


DATED = ("stream", "iso")
"""The clocks that know the day and the year."""


@dataclass(frozen=True, slots=True)
class LastLine:
    """One of the last lines of a stream: its number, behind its prefixes, and who printed it when.

    `time` is on its `clock` (see `candidates.time_of`). `progresses` is whether a counter of steps or epochs
    stands in it.
    """

    index: int
    line: Line
    raw: str
    host: str
    time: float | None
    progresses: bool
    clock: str | None = None

    @property
    def text(self) -> str:
        """What was printed, without prefixes."""
        return self.line.text

    @property
    def goes_on(self) -> bool:
        """Whether it is of a job that goes on: it counts, or says that it has dealt with an error."""
        return self.progresses or _BAR.search(self.raw) is not None or is_dealt_with(self.raw)

    @property
    def told(self) -> str:
        """The line as it is shown to people, with who printed it."""
        rank = None if self.line.rank is None else f"rank {self.line.rank}"
        who = " ".join(each for each in (self.host, rank) if each)
        return shown(f"{who}: {self.text.strip()}" if who else self.text.strip())


@dataclass(slots=True)
class Closing:
    """The last lines of each stream, and how many lines there were in all."""

    lines: int = 0
    streams: dict[str, list[LastLine]] = field(default_factory=dict)

    def add(self, stream: str, line: LastLine) -> None:
        """Take the next of the last lines of a stream into account."""
        if line.text.strip():
            self.streams.setdefault(stream, []).append(line)

    @property
    def last_time(self) -> float | None:
        """When the last line of all came, in seconds since the epoch; None where no line has a date."""
        dated = [
            each.time
            for lines in self.streams.values()
            for each in lines
            if each.time is not None and each.clock in DATED
        ]
        return max(dated, default=None)
