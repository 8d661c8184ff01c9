"""Find the few lines that matter among very many: one pass over bytes, bounded memory.

A stream is cut into windows. The lines of a window are joined and searched at once for the literals of all
rows; only lines in which one begins become text. As lines are joined without their breaks, a literal torn
over two lines is found as well. In a storm lines that are known (`storms`) are left out unsearched.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, islice
from threading import Lock
from typing import Any, Final, Protocol, TypeAlias

from launcher.diagnosis.logs.lines import (
    AHEAD,
    LONGEST_KEPT,
    TAIL,
    WINDOW,
    LogRecord,
    LogStream,
    Window,
    Windows,
)
from launcher.diagnosis.signatures import SHORTLY
from launcher.diagnosis.storms import KnownBounds, KnownLines
from launcher.frozen import frozen

_BATCH = 128
"""Records of a stream that are taken together."""

_WINDOW_OF_RECORDS = 1 << 15
"""Bytes of such a stream that are searched together: less than of files, as there are many at one time."""

_DENSE = 32
"""Where one of so many lines is looked at, what is known is looked up before anything is searched."""

_FEWEST, _MOST_AT_ONCE = 16, 1 << 13
"""Lines of such a stream that are searched together: at first the fewest, then twice as many."""


@dataclass(slots=True, eq=False)
class Candidate:
    """A line in which a literal occurs, or which the caller wanted: its text, its number and what follows.

    `stream` is the name of its stream, `rank` and `local_rank` what the path of that stream tells. `hit` is
    whether a literal begins in it or in one of the lines that may be of its record.
    """

    stream: str
    rank: int | None
    local_rank: int | None
    host: str
    index: int
    time: float | None
    raw: bytes
    after: Sequence[bytes] = ()
    hit: bool = True
    _text: str | None = None

    @property
    def text(self) -> str:
        """The line as printed; what is not UTF-8 is replaced."""
        if self._text is None:
            self._text = self.raw.decode("utf-8", "replace")
        return self._text

    def following(self, most: int = AHEAD) -> list[str]:
        """The lines after it, at most so many."""
        return [line.decode("utf-8", "replace") for line in self.after[:most]]


class _Stream:
    """What is kept of one stream; `times` are those of its lines from number `timed` on."""

    __slots__ = (
        *("at_once", "batch", "host", "known", "local_rank", "name"),
        *("rank", "tail", "timed", "times", "windows"),
    )

    def __init__(
        self, name: str, host: str, rank: int | None, local_rank: int | None, size: int, known: KnownLines
    ) -> None:
        self.name = name
        self.host = host
        self.rank = rank
        self.local_rank = local_rank
        self.windows = Windows(size)
        self.at_once = _FEWEST
        self.known = known
        self.batch: list[LogRecord] = []
        self.times: list[float | None] = []
        self.timed = 0
        self.tail: deque[tuple[int, float | None, bytes]] = deque(maxlen=TAIL)

    def candidate(
        self, number: int, time: float | None, raw: bytes, after: Sequence[bytes], hit: bool
    ) -> Candidate:
        return Candidate(self.name, self.rank, self.local_rank, self.host, number, time, raw, after, hit)

    def time_of(self, number: int) -> float | None:
        return self.times[number - self.timed] if self.times else None

    def keep_last_of(self, window: Window) -> None:
        """Keep the last lines of what was read until now, those of this window after those before it."""
        last = window.last(TAIL)
        for number, line in enumerate(last, window.start + window.count - len(last)):
            self.tail.append((number, self.time_of(number), line))


class Scanner:
    """Finds candidates; `wanted_streams` are those of which every line is wanted for the moment. Literals of
    `contexts` make candidates of lines only where others follow shortly after them."""

    def __init__(self, finder: Finder, contexts: Collection[str] = ()) -> None:
        self._places = LiteralPlaces(finder, contexts)
        self._streams: dict[str, _Stream] = {}
        self._bound = KnownBounds()
        self._known: dict[str, KnownLines] = {}
        self.wanted_streams: set[str] = set()

    def known_of(self, stream: str) -> KnownLines:
        """What is known of the lines of a stream, which whoever looks at them may add to."""
        known = self._known.get(stream)
        if known is None:
            known = self._known[stream] = KnownLines(self._bound)
        return known

    def known_streams(self) -> list[tuple[str, KnownLines]]:
        """The names of the streams that were searched so far, and what is known of their lines."""
        return list(self._known.items())

    def find_candidates(
        self, records: Iterable[LogRecord], streams: Iterable[LogStream] = ()
    ) -> Iterator[Candidate]:
        """The candidates among the records, whose lines are mixed, and then in the streams, one by one."""
        for record in records:
            stream = self._streams.get(record.stream)
            if stream is None:
                stream = _Stream(
                    record.stream, record.host, None, None, _WINDOW_OF_RECORDS, self.known_of(record.stream)
                )
                self._streams[record.stream] = stream
            stream.batch.append(record)
            if len(stream.batch) >= _BATCH:
                yield from self._take_batch(stream)
        for name in sorted(self._streams):
            stream = self._streams[name]
            yield from self._take_batch(stream)
            for window in stream.windows.end():
                yield from self._search(stream, window)
                stream.keep_last_of(window)
        for each in streams:
            stream = _Stream(
                each.name, each.host, each.rank, each.local_rank, WINDOW, self.known_of(each.name)
            )
            self._streams[each.name] = stream
            last = deque[Window]()
            for window in stream.windows.cut(each.blocks):
                yield from self._search(stream, window)
                last.append(window)
                while sum(after.count for after in islice(last, 1, None)) >= TAIL:
                    last.popleft()
            for window in last:
                stream.keep_last_of(window)

    def candidate_of_left_out(self, stream: str, index: int, time: float | None, raw: bytes) -> Candidate:
        """A line that was left out, as a candidate."""
        return self._streams[stream].candidate(index, time, raw, (), hit=True)

    def tails(self) -> Iterator[Candidate]:
        """The last lines of each stream, stream by stream by their names, once all of them were searched."""
        for _, stream in sorted(self._streams.items()):
            for number, time, line in stream.tail:
                yield stream.candidate(number, time, line, (), hit=False)

    def lines(self) -> int:
        """How many lines all streams had, of those searched so far."""
        return sum(stream.windows.length for stream in self._streams.values())

    def lengths(self) -> dict[str, int]:
        """How many lines the longest stream of each host had, of those searched so far."""
        longest: dict[str, int] = {}
        for stream in self._streams.values():
            longest[stream.host] = max(stream.windows.length, longest.get(stream.host, 0))
        return longest

    def _take_batch(self, stream: _Stream) -> Iterator[Candidate]:
        texts = [record.text[:LONGEST_KEPT] for record in stream.batch]
        times = [record.time for record in stream.batch]
        stream.batch.clear()
        joined = "\n".join(texts)
        if "\r" in joined or joined.count("\n") >= len(texts) > 0:
            # The parts of a record are lines of its time.
            parts = [text.replace("\r\n", "\n").replace("\r", "\n").strip("\n") for text in texts]
            times = [
                time for part, time in zip(parts, times, strict=True) for _ in range(part.count("\n") + 1)
            ]
            joined = "\n".join(parts)
        if not times:
            return
        stream.times += times
        for window in stream.windows.feed(joined.encode("utf-8", "replace") + b"\n"):
            yield from self._search(stream, window)
            stream.keep_last_of(window)
            gone = stream.windows.length - stream.timed
            del stream.times[:gone]
            stream.timed += gone

    def _search(self, stream: _Stream, window: Window) -> Iterator[Candidate]:
        """The candidates of a window, in the order of the lines."""
        hits: Hits | None = None
        at = 0
        while at < window.count:
            if stream.known.is_busy:
                at = yield from self._search_busy(stream, window, at)
            else:
                hits = self._places.hits_in_window(window) if hits is None else hits
                at = yield from self._search_calm(stream, window, hits, at)

    def _search_calm(
        self, stream: _Stream, window: Window, hits: Hits, at: int
    ) -> Generator[Candidate, None, int]:
        """The candidates of a window from a line on, until many lines are; returns where to go on."""
        since = at
        for looked, (number, hit) in enumerate(self._wanted(stream, hits, at, window.count), 1):
            if stream.known.leaves_out(window.line(number), window.after(number)):
                continue
            yield self._candidate(stream, window, number, hit)
            if self._is_wanted(stream):
                stream.known.is_busy = True
                return number + 1
            if looked % _FEWEST == 0:
                if number - since < _FEWEST * _DENSE:
                    stream.known.is_busy = True
                    return number + 1
                since = number
        return window.count

    def _search_busy(self, stream: _Stream, window: Window, at: int) -> Generator[Candidate, None, int]:
        """The same until few lines are; those that are known are left out unsearched.

        What is known grows with every candidate; where it was forgotten, the rest is looked at anew.
        """
        lines, count, known = window.lines, window.count, stream.known
        while at < count and known.is_busy:
            end, revision = min(count, at + stream.at_once), known.revision
            glance = known.look_up(lines, at, end)
            hits = self._places.lines_near(lines, glance.unknown(), end)
            start, at, stream.at_once = at, end, min(stream.at_once * 2, _MOST_AT_ONCE)
            position = idle = 0
            for number in known.lines_to_look_at(glance, stream.time_of, window.start):
                hit = glance.shapes_known[number - start] is not None
                if not hit:
                    position = bisect_left(hits, number, position)
                    near = hits[position] if position < len(hits) else number + RECORD_LINES + 1
                    if near != number and not self._is_wanted(stream):
                        idle += 1
                        continue
                    hit = near <= number + RECORD_LINES
                yield self._candidate(stream, window, number, hit)
                if known.revision != revision:
                    at, stream.at_once = number + 1, _FEWEST
                    break
            looked = at - start - idle
            known.is_busy = at - start < _FEWEST * _DENSE or looked * _DENSE > at - start
        return at

    def _is_wanted(self, stream: _Stream) -> bool:
        """Whether each line of a stream is looked at for the moment, unless it is known."""
        return stream.name in self.wanted_streams or stream.known.is_following

    def _candidate(self, stream: _Stream, window: Window, number: int, hit: bool) -> Candidate:
        index = window.start + number
        return stream.candidate(index, stream.time_of(index), window.line(number), window.after(number), hit)

    def _wanted(self, stream: _Stream, hits: Hits, start: int, end: int) -> Iterator[tuple[int, bool]]:
        """The numbers of the lines that are looked at, and whether a literal begins in them or soon after."""
        every, telling = hits.every, hits.telling
        number = start - 1
        while True:
            # What is wanted may change with every candidate, so it is looked up each time.
            if self._is_wanted(stream):
                number += 1
                near = bisect_left(every, number)
                hit = near < len(every) and every[near] <= number + RECORD_LINES
            else:
                after = bisect_right(telling, number)
                number, hit = telling[after] if after < len(telling) else end, True
            if number >= end:
                return
            yield number, hit


# In which lines literals begin, where the lines are searched together.
#
# Lines are joined without their breaks, so that a literal which is torn over two of them is found as well.


RECORD_LINES: Final = 3
"""Lines after a line that may be of its record."""

EXPLAINED_WITHIN: Final = SHORTLY + RECORD_LINES
"""Lines after a context in which a literal tells what it may explain; a sign can begin before that line."""

_SPARSE = 16
"""Where fewer than one of so many lines can have a literal, they are found by their places in the text."""

_BREAK = ord(b"\n")


@frozen
class Hits:
    """The numbers of the lines of a window in which a literal begins: of all of them, and of those that tell
    something by themselves or shortly before one that does."""

    every: list[int]
    telling: list[int]


class LiteralPlaces:
    """Tells the lines in which a finder's literals begin. Those of `contexts` count shortly before others."""

    def __init__(self, finder: Finder, contexts: Collection[str] = ()) -> None:
        self._finder = finder
        self._sizes = [len(literal) for literal in finder.literals]
        self._alone = [literal.decode() not in contexts for literal in finder.literals]

    def lines_near(self, lines: list[bytes], left: list[int], end: int) -> list[int]:
        """The numbers of the lines with a literal, among those that are left and the next ones after each."""
        if not left:
            return []
        first, reach = left[0], RECORD_LINES + 2
        near = lines[first : end + reach]
        if len(left) * 2 < end - first:
            kept = [b""] * len(near)
            for number in left:
                at = number - first
                kept[at : at + reach] = near[at : at + reach]
            near = kept
        return [first + number for number in self._lines_with_hits(near)]

    def hits_in_window(self, window: Window) -> Hits:
        """The lines of a window in which a literal begins that ends there or in the next one.

        Ordinary lines are contexts (every checkpoint that is saved), so they are left out where nothing
        follows that they could explain; the last lines of a window are not, as nobody knows what follows.
        """
        found = self._finder.hits(window.joined)
        if len(found) * _SPARSE > window.count:
            numbers = self._hits_by_line(window.lines, found)
        else:
            numbers = self._hits_in_sparse_window(window, found)
        every = sorted(numbers)
        alone = [number for number in every if numbers[number]]
        if len(alone) == len(every):
            return Hits(every, every)
        telling = []
        for number in every:
            after = bisect_right(alone, number)
            followed = after < len(alone) and alone[after] <= number + EXPLAINED_WITHIN
            if numbers[number] or followed or number >= window.count - TAIL:
                telling.append(number)
        return Hits(every, telling)

    def _hits_in_sparse_window(self, window: Window, found: list[Hit]) -> dict[int, bool]:
        """As `_hits_by_line`, without cutting the lines of a window apart."""
        text = window.text
        sizes, alone = self._sizes, self._alone
        numbers: dict[int, bool] = {}
        # A place in the text, and how many lines end before it.
        at = breaks = 0
        for behind, literal in found:
            place = behind - sizes[literal]
            while (back := at - breaks - place) > 0:
                breaks -= _breaks_in(text[at - back : at])
                at -= back
            while (further := place + breaks - at) > 0:
                breaks += _breaks_in(text[at : at + further])
                at += further
            while text[at] == _BREAK:
                at, breaks = at + 1, breaks + 1
            end = text.index(b"\n", at)
            reach = text.find(b"\n", end + 1)
            if behind <= (end - breaks if reach < 0 else reach - breaks - 1):
                numbers[breaks] = alone[literal] or numbers.get(breaks, False)
                window.note(breaks, text.rfind(b"\n", 0, at) + 1)
        return numbers

    def _lines_with_hits(self, lines: list[bytes]) -> list[int]:
        return sorted(self._hits_by_line(lines, self._finder.hits(b"".join(lines))))

    def _hits_by_line(self, lines: list[bytes], found: list[Hit]) -> dict[int, bool]:
        """The numbers of the lines with a literal, and whether one of theirs tells something by itself."""
        if not found:
            return {}
        ends = list(accumulate(map(len, lines)))
        last = len(ends) - 1
        sizes, alone = self._sizes, self._alone
        numbers: dict[int, bool] = {}
        added = first = end = further = 0
        # Where the line that was added last begins and ends, and where the next one ends.
        for behind, literal in found:
            place = behind - sizes[literal]
            if first <= place < end and behind <= further:
                numbers[added] |= alone[literal]  # Of the line that was added last.
                continue
            number = bisect_right(ends, place)
            begins, finishes = ends[number] - len(lines[number]), ends[number]
            reach = ends[min(number + 1, last)]
            if behind <= reach:
                numbers[number] = alone[literal] or numbers.get(number, False)
                added, first, end, further = number, begins, finishes, reach
        return numbers


def _breaks_in(text: bytes) -> int:
    """How many lines end in a text; four times as fast as counting them, which looks at byte after byte."""
    return len(text) - len(text.replace(b"\n", b""))


# Where any of many literals occurs in a text of bytes, whatever the case of its ASCII letters.
#
# Two finders with the same answers. With the package hyperscan (the extra `fast`) all literals are sought
# in one pass at gigabytes a second; without it, or on a processor that it does not run on, by a pattern of
# Python's own, at some tens of megabytes a second. It was chosen before google-re2, whose alternations tell
# only one of the literals at a place and are slower.


try:
    import hyperscan
except ImportError:
    hyperscan = None  # type: ignore[assignment]

Hit: TypeAlias = tuple[int, int]
"""Behind which byte a literal ends, and its number among the literals."""

_Tree: TypeAlias = dict[str, "_Tree"]


class Finder(Protocol):
    """Finds literals; its `literals` are lower-case UTF-8, each once, numbered by their places."""

    @property
    def literals(self) -> Sequence[bytes]:
        """What is sought."""
        ...

    def hits(self, text: bytes) -> list[Hit]:
        """Every occurrence of every literal, in the order in which they end."""
        ...


def finder_of(literals: Iterable[str]) -> Finder:
    """The quickest finder that works here; for the same literals the same one."""
    return _finder_of(distinct(literals), with_hyperscan=hyperscan is not None)


@lru_cache(maxsize=8)
def _finder_of(unique: tuple[bytes, ...], *, with_hyperscan: bool) -> Finder:
    if with_hyperscan:
        try:
            return AutomatonFinder(unique)
        except hyperscan.error:  # Such as a processor without the instructions that it needs.
            pass
    return PatternFinder(unique)


def distinct(literals: Iterable[str]) -> tuple[bytes, ...]:
    """The literals as bytes, each once, in their order."""
    return tuple(dict.fromkeys(literal.encode() for literal in literals))


class AutomatonFinder:
    """All literals in one pass of hyperscan's automaton. Raises `hyperscan.error` where it cannot run."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self.literals = literals
        self._lock = Lock()  # A database scans one text at a time.
        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        self._database.compile(
            expressions=[b"".join(b"\\x%02x" % byte for byte in literal) for literal in literals],
            ids=list(range(len(literals))),
            elements=len(literals),
            flags=[hyperscan.HS_FLAG_CASELESS] * len(literals),
        )
        self.size: int = self._database.size()
        """Bytes of the automaton; some literals make it many times as large."""

    def hits(self, text: bytes) -> list[Hit]:
        """Every occurrence of every literal, in the order in which they end."""
        found: list[Hit] = []
        add = found.append

        def on_match(number: int, start: int, end: int, flags: int, context: Any) -> None:
            add((end, number))

        with self._lock:
            self._database.scan(text, match_event_handler=on_match)
        found.sort()
        return found


class PatternFinder:
    """One pattern of all literals, their common beginnings taken out; what else begins there by a tree."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self.literals = literals
        self._pattern = re.compile(
            alternation(literal.decode("latin-1") for literal in literals).encode("latin-1")
        )
        self._numbers = {literal: number for number, literal in enumerate(literals)}
        self._lengths = sorted({len(literal) for literal in literals})

    def hits(self, text: bytes) -> list[Hit]:
        """Every occurrence of every literal, in the order in which they end."""
        lower = text.lower()
        found: list[Hit] = []
        match = self._pattern.search(lower)
        while match is not None:
            start = match.start()
            for length in self._lengths:
                number = self._numbers.get(lower[start : start + length])
                if number is not None and start + length <= len(lower):
                    found.append((start + length, number))
            match = self._pattern.search(lower, start + 1)
        found.sort()
        return found


def alternation(literals: Iterable[str]) -> str:
    """A pattern for any of the literals, their common beginnings taken out: so that it is fast."""
    tree: _Tree = {}
    for literal in literals:
        node = tree
        for character in literal:
            node = node.setdefault(character, {})
        node[""] = {}
    return _pattern_of_tree(tree)


def _pattern_of_tree(tree: _Tree) -> str:
    if "" in tree:
        return ""  # A literal that begins another one finds the places of both.
    branches = [re.escape(character) + _pattern_of_tree(rest) for character, rest in tree.items()]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
