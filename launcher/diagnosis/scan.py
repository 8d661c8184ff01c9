"""Find the few lines that matter among very many: one pass, a bounded number of lines in memory.

Lines are taken in chunks for each stream. A chunk is searched as one text for the literals of all rows; only
lines in which one occurs are looked at more closely. As the lines are joined without a break, a literal
torn over two lines is found as well.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

from launcher.diagnosis.record import LogRecord, LogStream, Record
from launcher.text.line_length import LONGEST_LINE

CHUNK = 1024
"""Lines of a stream that are joined and searched together."""

AHEAD = 8
"""Lines after a candidate that may belong to it: a traceback's frames, torchrun's table of failures."""

TAIL = 128
"""The last lines of a stream, which are read whatever stands in them."""

_Tree: TypeAlias = dict[str, "_Tree"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A line in which a literal occurs, or which the caller wanted: its text, its number and what follows.

    `stream` is the name of its stream, `rank` and `local_rank` what the path of that stream tells.
    """

    stream: str
    rank: int | None
    local_rank: int | None
    host: str
    index: int
    time: float | None
    text: str
    following: tuple[str, ...]


@dataclass(slots=True)
class _Stream:
    host: str
    rank: int | None = None
    local_rank: int | None = None
    records: list[LogRecord] = field(default_factory=list)
    start: int = 0
    tail: deque[tuple[int, float | None, str]] = field(default_factory=lambda: deque(maxlen=TAIL))


class Scanner:
    """Finds candidates; `all_of` names the streams of which every line is wanted for the moment."""

    def __init__(self, literals: Iterable[str]) -> None:
        self._literals = re.compile(alternation(literals))
        self._streams: dict[str, _Stream] = {}
        self.all_of: set[str] = set()

    def feed(self, records: Iterable[LogRecord], streams: Iterable[LogStream] = ()) -> Iterator[Candidate]:
        """The candidates among the records, whose lines are mixed, and then in the streams, one by one."""
        for record in records:
            stream = self._streams.get(record.stream)
            if stream is None:
                stream = self._streams[record.stream] = _Stream(record.host)
            stream.records.append(record)
            if len(stream.records) >= CHUNK + AHEAD:
                yield from self._search(record.stream, stream, CHUNK)
        for name in sorted(self._streams):
            yield from self._search(name, self._streams[name], len(self._streams[name].records))
        for each in streams:
            stream = self._streams[each.name] = _Stream(each.host, each.rank, each.local_rank)
            for line in _lines_of(each.blocks):
                stream.records.append(Record(None, each.host, line, each.name))
                if len(stream.records) >= CHUNK + AHEAD:
                    yield from self._search(each.name, stream, CHUNK)
            yield from self._search(each.name, stream, len(stream.records))

    def tails(self) -> Iterator[Candidate]:
        """The last lines of each stream, stream by stream, once all of them were searched."""
        for name, stream in self._streams.items():
            for index, time, text in stream.tail:
                yield Candidate(name, stream.rank, stream.local_rank, stream.host, index, time, text, ())

    def lengths(self) -> dict[str, int]:
        """How many lines the longest stream of each host had, of those searched so far."""
        longest: dict[str, int] = {}
        for stream in self._streams.values():
            longest[stream.host] = max(stream.start, longest.get(stream.host, 0))
        return longest

    def _search(self, name: str, stream: _Stream, count: int) -> Iterator[Candidate]:
        """The candidates among the first records, which then are let go."""
        lines, times = _lines(stream.records[:count])
        ahead, _ = _lines(stream.records[count:])
        found = self._found([*lines, *ahead[:1]], len(lines))
        hits = sorted(found)
        number = -1
        while True:
            # What is wanted may change with every candidate, so it is looked up each time.
            number = number + 1 if name in self.all_of else _after(hits, number, len(lines))
            if number >= len(lines):
                break
            following = lines[number + 1 : number + 1 + AHEAD]
            following += ahead[: AHEAD - len(following)]
            yield Candidate(
                name,
                stream.rank,
                stream.local_rank,
                stream.host,
                stream.start + number,
                times[number],
                lines[number],
                tuple(following),
            )
        first = max(0, len(lines) - TAIL)
        for number in range(first, len(lines)):
            stream.tail.append((stream.start + number, times[number], lines[number][:LONGEST_LINE]))
        del stream.records[:count]
        stream.start += len(lines)

    def _found(self, lines: list[str], count: int) -> set[int]:
        """The numbers of the lines, of the first `count`, in which a literal begins."""
        # U+0130 is the one character whose lower-case form is longer; positions must stay what they are.
        text = "".join(lines).replace("\u0130", "I").lower()
        matches = [match.start() for match in self._literals.finditer(text)]
        if not matches:
            return set()
        ends = list(accumulate(map(len, lines)))
        numbers = {bisect_right(ends, position) for position in matches}
        return {number for number in numbers if number < count}


def _lines_of(blocks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole)
    if rest:
        yield rest.decode("utf-8", "replace")


def _lines(records: Sequence[LogRecord]) -> tuple[list[str], list[float | None]]:
    """Texts and times. Progress bars write over themselves; what they are glued to is a line of its own."""
    texts = [record.text for record in records]
    joined = "".join(texts)
    if "\r" not in joined and "\n" not in joined:
        return texts, [record.time for record in records]
    parts = [(part, record.time) for record in records for part in re.split(r"[\r\n]+", record.text) if part]
    return [part for part, _ in parts], [time for _, time in parts]


def _after(hits: list[int], number: int, end: int) -> int:
    position = bisect_right(hits, number)
    return hits[position] if position < len(hits) else end


def alternation(literals: Iterable[str]) -> str:
    """A pattern for any of the literals, their common beginnings taken out: so that it is fast."""
    tree: _Tree = {}
    for literal in literals:
        node = tree
        for character in literal:
            node = node.setdefault(character, {})
        node[""] = {}
    return _of_tree(tree)


def _of_tree(tree: _Tree) -> str:
    if "" in tree:
        return ""  # A literal that begins another one finds the lines of both.
    branches = [re.escape(character) + _of_tree(rest) for character, rest in tree.items()]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
