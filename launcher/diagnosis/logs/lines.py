"""The lines of a log: as they come, cut out of streams of bytes, behind their prefixes, and fit to be
shown.

A stream of bytes is an iterator of blocks, cut anywhere and read once. `LogRecord` is what whoever reads
logs hands over, `Windows` cuts streams of bytes, `parse` takes the prefixes off, and `shown` and `redacted`
see to it that no secret and nothing that acts on a terminal is shown.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import lru_cache
from itertools import chain
from typing import Final, Protocol, TypeAlias

from launcher.frozen import frozen
from launcher.text.log_lines import LONGEST_LINE, origin_of
from launcher.text.values import CREDENTIAL_FORMS, HIDDEN, without_controls, without_secrets

BLOCK: Final = 1 << 18
"""Bytes that are read, or unpacked, at once."""

HEAD: Final = 1 << 16
"""Bytes at the beginning by which a stream is judged."""

LONGEST_RAW_LINE: Final = 1 << 16
"""Bytes of a line that are kept: sixteen times what patterns see (LONGEST_LINE), for prefixes, colours and
what JSON stands around a message."""


def split_head(blocks: Iterable[bytes], length: int = HEAD) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes of a stream, fewer than `length` only where it ends, and the whole stream again."""
    rest = iter(blocks)
    taken: list[bytes] = []
    size = 0
    while size < length and (block := next(rest, None)) is not None:
        taken.append(block)
        size += len(block)
    return b"".join(taken)[:length], chain(taken, rest)


def has_longer_line(text: bytes, longest: int) -> bool:
    """Whether a line of a text is longer than so many bytes, without its line feed."""
    start = 0
    while start + longest < len(text):
        end = text.rfind(b"\n", start, start + longest + 1)
        if end < 0:
            return True
        start = end + 1
    return False


def lines_of(blocks: Iterable[bytes]) -> Iterator[str]:
    """The lines of clean text (see `decode.as_text`), without their breaks."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line.decode("utf-8", errors="replace")
    if rest:
        yield rest.decode("utf-8", errors="replace")


def characters_of(blocks: Iterable[bytes]) -> Iterator[str]:
    """The text in pieces of any size; characters that two blocks share are put together."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for block in blocks:
        yield decoder.decode(block)
    yield decoder.decode(b"", final=True)


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


@frozen
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


@frozen
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


Writer: TypeAlias = "int | str | None"
"""Which of the processes whose lines are mixed wrote a line; None where it does not tell."""


@frozen
class Line:
    """A line without its prefixes, and what these tell (see `Origin`).

    `rank` is global, `local_rank` counts on its host. `writer` keeps the lines of one process together where
    those of many are mixed.
    """

    text: str
    rank: int | None = None
    host: str | None = None
    device: int | None = None
    writer: Writer = field(default=None, compare=False)
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


# A stream of bytes as windows of whole lines, of bounded size whatever the stream holds.
#
# Lines end at a line feed, a carriage return or both: progress bars write over themselves, and what they
# are glued to is a line of its own. Of a line only the beginning is kept that patterns see.


WINDOW: Final = 1 << 18
"""Bytes that are searched together."""

_FIRST = 1 << 16
"""Bytes that are searched first, and then twice as many each time: in a storm they show that lines may be
left out unsearched."""

AHEAD: Final = 8
"""Lines after a line that may belong to it: a traceback's frames, torchrun's table of failures."""

TAIL: Final = 128
"""The last lines of a stream, which are kept."""

LONGEST_KEPT: Final = 4 * LONGEST_LINE
"""Bytes of a line that are kept: as many as LONGEST_LINE characters can have."""


class Window:
    """Lines of a stream, each ended by a line feed: the first `count` are those to search, what follows is
    for looking ahead.

    `start` is the number of the first line in its stream, from 0, `ahead` how many follow. Of most windows
    few lines are looked at, so they are not cut apart before somebody wants all of them.
    """

    __slots__ = ("_ahead", "_lines", "_places", "count", "joined", "start", "text")

    def __init__(self, text: bytes, joined: bytes, start: int, ahead: int) -> None:
        self.text = text
        self.joined = joined
        """The text without its breaks, which are as many as it is shorter."""
        self.count = len(text) - len(joined) - ahead
        self.start = start
        self._ahead = ahead
        self._lines: list[bytes] | None = None
        self._places: dict[int, int] = {}

    @property
    def lines(self) -> list[bytes]:
        """All lines without their breaks."""
        if self._lines is None:
            self._lines = self.text.split(b"\n")
            self._lines.pop()
        return self._lines

    def note(self, number: int, place: int) -> None:
        """Remember at which byte of the text a line begins, by its number from 0."""
        self._places[number] = place

    def line(self, number: int) -> bytes:
        """One line without its break."""
        place = self._places.get(number)
        if self._lines is not None or place is None:
            return self.lines[number]
        return self.text[place : self.text.index(b"\n", place)]

    def after(self, number: int) -> list[bytes]:
        """The AHEAD lines after one, fewer where the stream ends."""
        place = self._places.get(number)
        if self._lines is not None or place is None:
            return self.lines[number + 1 : number + 1 + AHEAD]
        first = end = self.text.index(b"\n", place) + 1
        for _ in range(AHEAD):
            end = self.text.find(b"\n", end) + 1
            if not end:
                end = len(self.text)
                break
        return self.text[first:end].split(b"\n")[:-1]

    def last(self, most: int) -> list[bytes]:
        """The last of the lines to search, at most so many."""
        lines = self.text[_beginning_of_last(self.text, self._ahead + min(most, self.count)) :].split(b"\n")
        return lines[: -1 - self._ahead]


class Windows:
    """Cuts one stream; feed it with blocks and end it. The answers do not depend on where blocks end."""

    def __init__(self, size: int = WINDOW) -> None:
        self._most = size
        self._size = min(size, _FIRST)
        self._blocks: list[bytes] = []
        """The last lines of the window before, and what comes behind them."""
        self._waiting = 0
        self.length = 0
        """How many lines were given out to be searched."""

    def cut(self, blocks: Iterable[bytes]) -> Iterator[Window]:
        """All windows of a stream that ends with these blocks."""
        for block in blocks:
            yield from self.feed(block)
        yield from self.end()

    def feed(self, block: bytes) -> Iterator[Window]:
        """Take the next block; the windows that are full with it."""
        at = 0
        while at < len(block):
            part = block[at : at + self._size]
            at += len(part)
            self._blocks.append(part)
            self._waiting += len(part)
            if self._waiting >= self._size:
                yield from self._cut(last=False)
                self._size = min(2 * self._size, self._most)

    def end(self) -> Iterator[Window]:
        """What is left when the stream has ended, or its last line is known to be whole."""
        yield from self._cut(last=True)

    def _at_last_break(self) -> tuple[bytes, bytes]:
        """What came until the last break, and what came behind it.

        The break is mostly in the last block, so that the others need not be copied twice.
        """
        *before, block = self._blocks
        end = _end_of_lines(block)
        if not end:
            before, block = [], b"".join(self._blocks)
            end = _end_of_lines(block)
        return b"".join([*before, memoryview(block)[:end]]), block[end:]

    def _cut(self, *, last: bool) -> Iterator[Window]:
        text, rest = (b"".join(self._blocks), b"") if last else self._at_last_break()
        text = _end_lines(text)
        if len(rest) > LONGEST_KEPT:
            # No break comes for long: what is kept of the line is here, and a break that is cut in half.
            rest = rest[:LONGEST_KEPT] + b"x" + rest[-1:]
        joined = text.replace(b"\n", b"")
        ahead = 0 if last else min(AHEAD, len(text) - len(joined))
        self._blocks = [text[_beginning_of_last(text, ahead) :], rest]
        self._waiting = len(rest)
        window = Window(text, joined, self.length, ahead)
        if window.count:
            yield window
            self.length += window.count


def _end_of_lines(text: bytes) -> int:
    """Behind which byte the last whole line of a text ends, 0 where there is none."""
    end = text.rfind(b"\n")
    # A carriage return at the very end may be half of a break.
    return max(end, text.rfind(b"\r", end + 1, len(text) - 1)) + 1


def _beginning_of_last(text: bytes, lines: int) -> int:
    """Where the last lines of a text begin that ends with a line."""
    place = len(text)
    for _ in range(lines):
        if not place:
            break
        place = text.rfind(b"\n", 0, place - 1) + 1
    return place


def _end_lines(text: bytes) -> bytes:
    """A text that ends with a line, each line ended by a line feed and none longer than is kept."""
    if not text:
        return text
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not text.endswith(b"\n"):
        text += b"\n"
    if has_longer_line(text, LONGEST_KEPT):
        text = b"\n".join([line[:LONGEST_KEPT] for line in text.split(b"\n")])
    return text


LONGEST_SHOWN = 400

_TOKEN = r"token(?!i[sz]|s[\w.-]{0,40}[\"']?[ =:]{1,4}[\d.]+(?![\w.]))"
"""A token that may be one of access. Tokenizers have none, and tokens that are counted are words."""

_NAME = (
    r"(?>[\w.-]*?(?:secret|" + _TOKEN + r"|passw(?:or)?d|passwd|credential|api[_-]?key|access[_-]?key"
    r"|private[_-]?key|auth(?!or))[\w.-]*)"
)
"""The whole of a name with such a word in it. It begins where no name goes on and is never tried in part, so
that a name of any length is read once."""

_BY_WHAT_STANDS_BESIDE = (
    re.compile(
        r"(?i:(?<![\w.-])" + _NAME + r"[\"']?\s*(?:=|:|=>)\s*)(?P<value>\"[^\"]*\"?|'[^']*'?|[^\s,;&}]+)"
    ),
    re.compile(r"(?i:(?<![\w.-])--" + _NAME + r"\s+)(?P<value>[^\s]+)"),
    re.compile(r"(?i:\b(?:bearer|basic)\s+)(?P<value>[\w.~+/=-]{8,})"),
    re.compile(
        r"[?&](?i:X-Amz-(?:Signature|Credential|Security-Token)|sig(?:nature)?)=(?P<value>[^\s&\"']+)"
    ),
)
_LIKE_A_KEY = re.compile(
    r"(?P<value>(?<![\w/+.-])(?=[\w/+]*[a-z])(?=[\w/+]*[A-Z])(?=[\w/+]*\d)[A-Za-z0-9/+]{40}(?![\w/+=.-]))"
)
"""Secret keys of AWS, by what is known of their form: forty characters, with both cases and a digit."""

_SECRETS = (*_BY_WHAT_STANDS_BESIDE, *(form for _, form in CREDENTIAL_FORMS), _LIKE_A_KEY)
_GAPS = re.compile(r"[ \t]{3,}")
_ENVIRONMENT = re.compile(r"^\s*(?:export |declare -x )?([A-Z][A-Z0-9_]{2,})=\S.*$")
_DICTIONARY = re.compile(r"\benviron\(\{|\benv(?:ironment)?[\"']?\s*[:=]\s*\{", re.I)


def shown(text: str, longest: int = LONGEST_SHOWN) -> str:
    """The line as evidence: one line, printable, its secrets hidden, cut to `longest` characters."""
    text = without_controls(text.replace("\n", " ")).strip()
    text = _GAPS.sub("  ", redacted(text))
    return text if len(text) <= longest else text[: longest - 1] + "…"


def redacted(text: str) -> str:
    """The text with what may be a secret replaced by `[hidden]`.

    Values of names that speak of secrets, keys by their known forms, whole lines that print an environment
    variable or a dictionary of them. Of a line beyond LONGEST_LINE only the beginning is given back.
    """
    text = _read_in_full(text)
    if match := _ENVIRONMENT.match(text):
        return text[: match.end(1) + 1] + HIDDEN
    if match := _DICTIONARY.search(text):
        return text[: match.end()] + HIDDEN
    for pattern in _SECRETS:
        text = without_secrets(text, pattern)
    return text


def _read_in_full(text: str) -> str:
    """What of a text is short enough to be read, without the word that the cut tore: half of a secret has no
    form that could be known."""
    if len(text) <= LONGEST_LINE:
        return text
    words = text[:LONGEST_LINE].rsplit(None, 1)
    return f"{words[0]} …" if len(words) == 2 else HIDDEN
