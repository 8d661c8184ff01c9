"""A line of a log as it comes, and as the diagnosis reads it; a stream of such lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
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

    @property
    def stream(self) -> str:
        """The name of the stream it stands in, of which no other stream is called the same."""
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """A log record that no backend made, such as a line of a file; the fields are those of LogRecord.

    Without a name for its stream it stands in that of its host.
    """

    time: float | None
    host: str
    text: str
    stream: str = ""

    def __post_init__(self) -> None:
        if not self.stream:
            object.__setattr__(self, "stream", self.host)


@dataclass(frozen=True, slots=True)
class LogStream:
    """One stream of lines without times: UTF-8 in blocks of any size, cut anywhere, read once.

    `name` tells it from all others (two `stderr.log` of two ranks are two streams), `host` is who printed
    it, empty where that is not known. `rank` (global) and `local_rank` are what its path tells: they count
    for the lines whose prefixes name no rank.
    """

    name: str
    host: str
    rank: int | None
    local_rank: int | None
    blocks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its prefixes, and what these tell (see `Origin`).

    `rank` is global, `local_rank` counts on its host. `writer` keeps the lines of one process together where
    those of many are mixed.
    """

    text: str
    rank: int | None = None
    host: str | None = None
    device: int | None = None
    writer: int | str | None = field(default=None, compare=False)
    local_rank: int | None = None


@lru_cache(maxsize=64)
def parse(text: str) -> Line:
    """The line behind its prefixes, without control characters and no longer than LONGEST_LINE.

    The last ones are remembered: each line is looked at once for itself and as what follows others.
    """
    text = without_controls(text[:LONGEST_LINE])
    origin = origin_of(text)
    return Line(
        text[origin.start :], origin.rank, origin.host, origin.device, origin.writer, origin.local_rank
    )


def is_plain(raw: bytes) -> bool:
    """Whether a line is read as it stands: ASCII, without control characters, not too long."""
    if len(raw) > LONGEST_LINE or not raw.isascii():
        return False
    return raw.decode("ascii").replace("\t", " ").isprintable()


def may_be_indented(raw: bytes) -> bool:
    """Whether what a line says may begin with spaces, as prefixes end before a space, or with one.

    False is certain, and told without taking the prefixes off.
    """
    if raw[:1] in (b" ", b"\t") or b"  " in raw or b"\t" in raw:
        return True
    return not is_plain(raw)
