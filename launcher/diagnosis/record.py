"""A line of a log as it comes, and what its prefixes say.

Prefixes stack, in any order: `[1,23]<stdout>:` (mpirun), `[rank3]:` (torch), `algo-1-ABCDE_1  | ` (docker
compose), `10.0.0.1: ` (pdsh), `algo-1:126:199 [5] ` (NCCL; the 5 is the local device, not the rank), ISO
times, the kernel's seconds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class LogRecord(Protocol):
    """One line: seconds since the epoch or None, the host (`algo-2`), the text without its line break."""

    @property
    def time(self) -> float | None:
        """Seconds since the epoch, None where the stream has no times."""
        ...

    @property
    def host(self) -> str:
        """The host that printed it."""
        ...

    @property
    def text(self) -> str:
        """The line without its line break."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """A log record of one's own making, as read from a file."""

    time: float | None
    host: str
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its prefixes; `rank` is global; `stream` tells the writers of one host apart."""

    text: str
    rank: int | None = None
    host: str | None = None
    device: int | None = None

    @property
    def stream(self) -> int | None:
        """What keeps the lines of one process together where many are mixed."""
        return self.rank


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NO_HOST = r"(?<!\.py)(?<!Error)(?<!Exception)(?<!Warning)(?<!Failure)"
"""What ends a script's name, or an exception's with its module, and not the name of a host."""

_PREFIX = re.compile(
    r"\s*(?:"
    r"\[1,(?:mpirank:)?(?P<mpi>\d{1,6})(?:,(?P<mpihost>[\w.-]+))?\]<std(?:out|err|diag)>: ?"
    r"|\[rank(?P<rank>\d{1,6})\]: ?"
    r"|\[default\d+\]: ?"
    r"|\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\]?[ \t]"
    r"|\[ *\d+\.\d+\] |\[\w{3} \w{3} +\d+ [\d:]+ \d{4}\] "
    r"|(?:\w+-)?(?P<algo>algo-\d+)-\w+(?:_\d+)? *\| ?"
    r"|(?P<nccl>[A-Za-z][\w.-]*):\d+:\d+ \[(?P<device>\d+)\] "
    r"|(?P<pdsh>(?:\d{1,3}\.){3}\d{1,3}|algo-\d+|(?=[^\s:]*\d)[A-Za-z]\w*[-.][\w.-]+" + _NO_HOST + "): "
    r")"
)
_MOST_PREFIXES = 8


def without_controls(text: str) -> str:
    """The text without colours, cursor movements and other control characters; tabs stay."""
    return _CONTROL.sub("", _ANSI.sub("", text)) if not text.isprintable() else text


def parse(text: str) -> Line:
    """The line behind its prefixes. Spaces before a prefix go with it, the indentation after it stays."""
    text = without_controls(text)
    rank = host = device = None
    position = 0
    for _ in range(_MOST_PREFIXES):
        match = _PREFIX.match(text, position)
        if match is None:
            break
        position = match.end()
        if (inner := match["rank"] or match["mpi"]) is not None:
            rank = int(inner)
        host = match["mpihost"] or match["algo"] or match["nccl"] or match["pdsh"] or host
        if match["device"] is not None:
            device = int(match["device"])
    return Line(text[position:], rank, host, device)


_ISO = re.compile(r"\b(\d{4}-\d\d-\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,](\d{1,6}))?")
_GLOG = re.compile(r"(?:^|\[)[EWIF](\d{1,2})(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?")


def printed_time(text: str) -> tuple[str, float] | None:
    """The kind of clock and the seconds on it that a line prints, or None: only like clocks compare.

    glog's lines have no year; PyTorch writes the month without a leading zero.
    """
    if match := _GLOG.search(text):
        return _seconds("glog", f"2000-{int(match[1]):02}-{match[2]}", match[3], match[4])
    if match := _ISO.search(text):
        return _seconds("iso", match[1], match[2], match[3])
    return None


def _seconds(clock: str, day: str, time: str, fraction: str | None) -> tuple[str, float] | None:
    try:
        moment = datetime.fromisoformat(f"{day}T{time}+00:00")
    except ValueError:
        return None
    return clock, moment.timestamp() + float(f"0.{fraction or 0}")
