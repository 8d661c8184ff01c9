"""Find the few lines that matter among very many: one pass over bytes, bounded memory.

A stream is cut into windows. The lines of a window are joined and searched at once for the literals of all
rows; only lines in which one begins become text. As lines are joined without their breaks, a literal torn
over two lines is found as well.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from launcher.diagnosis.known_lines import KnownBounds, KnownLines
from launcher.diagnosis.literal_places import OF_A_RECORD, Hits, LiteralPlaces
from launcher.diagnosis.literals import Finder
from launcher.diagnosis.record import LogRecord, LogStream
from launcher.diagnosis.windows import AHEAD, LONGEST, TAIL, WINDOW, Window, Windows

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
    """Finds candidates; `all_of` names the streams of which every line is wanted for the moment. Literals of
    `contexts` make candidates of lines only where others follow shortly after them."""

    def __init__(self, finder: Finder, contexts: Collection[str] = ()) -> None:
        self._places = LiteralPlaces(finder, contexts)
        self._streams: dict[str, _Stream] = {}
        self._bound = KnownBounds()
        self._known: dict[str, KnownLines] = {}
        self.all_of: set[str] = set()

    def known_of(self, stream: str) -> KnownLines:
        """What is known of the lines of a stream, which whoever looks at them may add to."""
        known = self._known.get(stream)
        if known is None:
            known = self._known[stream] = KnownLines(self._bound)
        return known

    def known_streams(self) -> list[tuple[str, KnownLines]]:
        """The names of the streams that were searched so far, and what is known of their lines."""
        return list(self._known.items())

    def feed(self, records: Iterable[LogRecord], streams: Iterable[LogStream] = ()) -> Iterator[Candidate]:
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

    def earlier(self, stream: str, index: int, time: float | None, raw: bytes) -> Candidate:
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
        texts = [record.text[:LONGEST] for record in stream.batch]
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
                hits = self._places.within(window) if hits is None else hits
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
            glance = known.kinds.glance(lines, at, end)
            hits = self._places.near(lines, glance.unknown(), end)
            start, at, stream.at_once = at, end, min(stream.at_once * 2, _MOST_AT_ONCE)
            position = idle = 0
            for number in known.left(glance, stream.time_of, window.start):
                hit = glance.found[number - start] is not None
                if not hit:
                    position = bisect_left(hits, number, position)
                    near = hits[position] if position < len(hits) else number + OF_A_RECORD + 1
                    if near != number and not self._is_wanted(stream):
                        idle += 1
                        continue
                    hit = near <= number + OF_A_RECORD
                yield self._candidate(stream, window, number, hit)
                if known.revision != revision:
                    at, stream.at_once = number + 1, _FEWEST
                    break
            looked = at - start - idle
            known.is_busy = at - start < _FEWEST * _DENSE or looked * _DENSE > at - start
        return at

    def _is_wanted(self, stream: _Stream) -> bool:
        """Whether each line of a stream is looked at for the moment, unless it is known."""
        return stream.name in self.all_of or stream.known.follows

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
                hit = near < len(every) and every[near] <= number + OF_A_RECORD
            else:
                after = bisect_right(telling, number)
                number, hit = telling[after] if after < len(telling) else end, True
            if number >= end:
                return
            yield number, hit
