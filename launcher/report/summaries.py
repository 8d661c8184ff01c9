"""What is kept of a run's lines, however many there are: who printed when, losses, step times, the lines
around trouble.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from launcher.diagnosis.logs.lines import parse, shown
from launcher.diagnosis.logs.tracebacks import HEADER, Traceback, open_traceback
from launcher.frozen import frozen

Writer = tuple[str, int | None]
"""Who prints: the host, and the global rank where a line names it."""

MOST_BUCKETS = 600
"""Buckets over the whole run: about one for each column of pixels of a chart."""

_SILENCE_PART = 100
"""A silence is shown where it lasts longer than this part of the run; a chart shows no shorter one anyway."""

Span = tuple[float, float]
"""From one position to another, in seconds or in lines."""


@dataclass(slots=True)
class WriterActivity:
    """What one writer has printed: from its first to its last position, and how many lines."""

    first: float
    last: float
    lines: int = 0
    buckets: set[int] = field(default_factory=set)


class Activity:
    """When each writer printed, on an axis of seconds or of lines.

    The buckets begin at `width` and become twice as wide each time the run needs more than MOST_BUCKETS;
    the first and last position of each writer stay exact. `shortest` is the shortest silence that means
    anything on this axis.
    """

    def __init__(self, width: float, shortest: float) -> None:
        self.width = width
        self._shortest = shortest
        self.printed: dict[Writer, WriterActivity] = {}
        self._low = self._high = 0

    @property
    def start(self) -> float:
        """The position of the first line; 0 where there is none."""
        return min((each.first for each in self.printed.values()), default=0.0)

    @property
    def end(self) -> float:
        """The position of the last line; 0 where there is none."""
        return max((each.last for each in self.printed.values()), default=0.0)

    @property
    def silence(self) -> float:
        """Silences up to this length count as printing."""
        return max(2 * self.width, (self.end - self.start) / _SILENCE_PART, self._shortest)

    def add(self, writer: Writer, position: float) -> None:
        """A line of a writer at a position."""
        bucket = int(position // self.width)
        printed = self.printed.get(writer)
        if printed is None:
            if not self.printed:
                self._low = self._high = bucket
            printed = self.printed[writer] = WriterActivity(position, position)
        printed.lines += 1
        if position > printed.last:
            printed.last = position
        elif position < printed.first:
            printed.first = position
        if self._low <= bucket <= self._high:
            printed.buckets.add(bucket)
            return
        self._low, self._high = min(self._low, bucket), max(self._high, bucket)
        printed.buckets.add(bucket)
        while self._high - self._low >= MOST_BUCKETS:
            self._widen()

    def spans(self, writer: Writer) -> Iterator[Span]:
        """From where to where a writer printed, without the silences that are long enough to be shown."""
        printed, silence = self.printed[writer], self.silence
        start = end = None
        for bucket in sorted(printed.buckets):
            first = max(printed.first, bucket * self.width)
            last = min(printed.last, (bucket + 1) * self.width)
            if start is None or end is None:
                start = first
            elif first - end > silence:
                yield start, end
                start = first
            end = last
        if start is not None and end is not None:
            yield start, end

    def _widen(self) -> None:
        self.width *= 2
        self._low, self._high = self._low // 2, self._high // 2
        for printed in self.printed.values():
            printed.buckets = {bucket // 2 for bucket in printed.buckets}


MOST_SERIES_PIECES = 600
"""Pieces of a series, with two points each: about one for each column of pixels of a chart."""


@frozen
class LossPoint:
    """A value that was printed: by the line with the number `order`, at a time in seconds where the log has
    times, at the script's own step where the line has one."""

    value: float
    order: int
    time: float | None = None
    step: float | None = None


@dataclass(slots=True)
class _SeriesPiece:
    low: LossPoint
    high: LossPoint
    count: int = 1

    def add(self, other: _SeriesPiece) -> None:
        if other.low.value < self.low.value:
            self.low = other.low
        if other.high.value > self.high.value:
            self.high = other.high
        self.count += other.count


class LongSeries:
    """Points in their order, of which at most two for each of MOST_PIECES pieces are kept.

    Every piece holds equally many points. `seen` is how many points there were.
    """

    def __init__(self) -> None:
        self.seen = 0
        self._pieces: list[_SeriesPiece] = []
        self._size = 1

    def add(self, point: LossPoint) -> None:
        """The next point."""
        self.seen += 1
        piece = _SeriesPiece(point, point)
        if self._pieces and self._pieces[-1].count < self._size:
            self._pieces[-1].add(piece)
            return
        self._pieces.append(piece)
        if len(self._pieces) > MOST_SERIES_PIECES:
            self._halve()

    def points(self) -> Iterator[LossPoint]:
        """The points that were kept, in their order."""
        for piece in self._pieces:
            ends = {piece.low.order: piece.low, piece.high.order: piece.high}
            yield from (ends[order] for order in sorted(ends))

    @property
    def is_whole(self) -> bool:
        """Whether all points were kept."""
        return self._size == 1

    def _halve(self) -> None:
        pairs = [self._pieces[at : at + 2] for at in range(0, len(self._pieces), 2)]
        for pair in pairs:
            if len(pair) == 2:
                pair[0].add(pair[1])
        self._pieces = [pair[0] for pair in pairs]
        self._size *= 2


MOST_PACE_PIECES = 400
"""Pieces of the run in which the step times of all ranks are brought together."""

_ALIKE = 1.03
"""Step times within 3 % of each other are alike: lines are stamped with about that much jitter."""

_ENOUGH = 0.5
"""Only ranks with at least half as many steps as the busiest one are compared."""


@frozen
class RankPace:
    """How fast a rank was: seconds a step in the mean, over so many steps."""

    rank: int
    seconds: float
    steps: float


@frozen
class PacePoint:
    """A piece of the run: the time in its middle, the longest time a step took and whose it was, and the
    mean of all ranks; seconds."""

    at: float
    slowest: float
    rank: int | None
    mean: float


@dataclass(slots=True)
class _LastStep:
    step: float
    time: float
    seconds: float = 0.0
    steps: float = 0.0


@dataclass(slots=True)
class _PacePiece:
    slowest: float
    rank: int | None
    total: float
    count: int

    def add(self, other: _PacePiece) -> None:
        if other.slowest > self.slowest:
            self.slowest, self.rank = other.slowest, other.rank
        self.total += other.total
        self.count += other.count


class StepPace:
    """The step times of all ranks, from the times at which they printed their steps."""

    def __init__(self) -> None:
        self._last: dict[int | None, _LastStep] = {}
        self._pieces: dict[int, _PacePiece] = {}
        self._width = 1.0

    def add(self, rank: int | None, step: float, time: float) -> None:
        """A rank printed a step at a time in seconds. A counter that goes back begins anew."""
        last = self._last.get(rank)
        if last is None:
            self._last[rank] = _LastStep(step, time)
            return
        steps, seconds = step - last.step, time - last.time
        last.step, last.time = step, time
        if steps <= 0 or seconds < 0:
            return
        last.steps += steps
        last.seconds += seconds
        each = seconds / steps
        self._bring(int(time // self._width), _PacePiece(each, rank, each, 1))

    @property
    def writers(self) -> tuple[int | None, ...]:
        """Who printed steps; None is lines without a rank."""
        return tuple(self._last)

    def ranks(self) -> tuple[RankPace, ...]:
        """The mean of each rank that printed at least two steps, the slowest first."""
        known = [
            RankPace(rank, last.seconds / last.steps, last.steps)
            for rank, last in self._last.items()
            if rank is not None and last.steps > 0
        ]
        return tuple(sorted(known, key=lambda each: (-each.seconds, each.rank)))

    def points(self) -> Iterator[PacePoint]:
        """The run piece by piece, in the order of the times."""
        for index, piece in sorted(self._pieces.items()):
            at = (index + 0.5) * self._width
            yield PacePoint(at, piece.slowest, piece.rank, piece.total / piece.count)

    def _bring(self, index: int, piece: _PacePiece) -> None:
        known = self._pieces.get(index)
        if known is not None:
            known.add(piece)
            return
        self._pieces[index] = piece
        while len(self._pieces) > MOST_PACE_PIECES:
            self._width *= 2
            wider: dict[int, _PacePiece] = {}
            for at, each in self._pieces.items():
                if (found := wider.get(at // 2)) is None:
                    wider[at // 2] = each
                else:
                    found.add(each)
            self._pieces = wider


def slowest_of(paces: tuple[RankPace, ...]) -> RankPace | None:
    """The rank whose steps took longest; None where fewer than two can be compared, or all are alike."""
    most = max((each.steps for each in paces), default=0.0)
    compared = [each for each in paces if each.steps >= _ENOUGH * most]
    if len(compared) < 2 or compared[0].seconds <= _ALIKE * compared[1].seconds:
        return None
    return compared[0]


BEFORE, AFTER = 8, 5
"""Lines of the same host that are shown around the one that counts."""

_KEPT = 24
"""Places that are kept of the beginning of each host's trouble, and as many of its end."""

_LONGEST = 2_000
"""Characters of a line that are kept; the page shows fewer."""

_COMPARED = 40

FIRST_OF_TRACEBACK, LAST_OF_TRACEBACK = 12, 48
"""Lines that are kept of a long traceback: its outermost frames, and what it ends with."""

_DEEPEST = 120
"""Columns of a traceback's indentation that are shown."""

_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
"""What Python prints between an exception and the one that came of it."""

_TROUBLE = re.compile(
    r"error|exception|traceback|fatal|fail|abort|kill|signal|sig[a-z]{3,4}\b|timeout|timed out|warn|"
    r"out of memory|slipway: |refused|denied|no space|xid|exit",
    re.I,
)


@frozen
class ContextLine:
    """A line of the log: who printed it, the number it has among all lines, its time in seconds where it has
    one. `is_cause` marks the one that shows the root cause."""

    text: str
    host: str
    rank: int | None
    order: int
    time: float | None
    is_cause: bool = False


@dataclass(slots=True)
class _TroubleSpot:
    """The lines around one that looks like trouble."""

    lines: list[ContextLine]
    missing: int = AFTER


@dataclass(slots=True)
class _KeptTraceback:
    """A traceback of one writer as it was printed, with those that it came of."""

    stack: Traceback
    first: list[ContextLine] = field(default_factory=list)
    last: deque[ContextLine] = field(default_factory=lambda: deque(maxlen=LAST_OF_TRACEBACK))
    raised: ContextLine | None = None
    below: int = 0
    chained: bool = False

    @property
    def lines(self) -> list[ContextLine]:
        return [*self.first, *self.last]

    def shown(self, line: ContextLine, *, is_cause: bool) -> ContextLine:
        """A line without the prefixes that all of them have, indented as it was."""
        text = self.stack.strip_prefix(parse(line.text).text)
        indent = " " * min(len(text) - len(text.lstrip()), _DEEPEST)
        return replace(line, text=indent + shown(text), is_cause=is_cause)

    def take(self, line: ContextLine) -> bool:
        """Add its writer's next line; False where that is no part of it any more."""
        text = parse(line.text).text
        begins = HEADER in text and bool(self.first)
        if not self._goes_on(text) if self.raised is not None else begins:
            return False
        (self.first if len(self.first) < FIRST_OF_TRACEBACK else self.last).append(line)
        if self.raised is None and HEADER not in text:
            self.stack.add_line(text)
            self.raised = line if self.stack.exception else None
        return not self.stack.is_complete or self.raised is not None

    def _goes_on(self, text: str) -> bool:
        """Whether a line below the exception belongs to it: more of its message, or what came of it."""
        again = open_traceback(text) if self.chained else None
        if again is not None:
            self.stack, self.raised, self.below, self.chained = again, None, 0, False
            return True
        self.below += 1
        self.chained = self.chained or text.startswith(_CHAINED)
        return self.below <= AFTER and (self.chained or text[:1] in ("", " ", "\t"))


@dataclass(slots=True)
class _HostLines:
    last: deque[ContextLine] = field(default_factory=lambda: deque(maxlen=BEFORE + AFTER + 1))
    early: list[_TroubleSpot] = field(default_factory=list)
    late: deque[_TroubleSpot] = field(default_factory=lambda: deque(maxlen=_KEPT))
    open: _TroubleSpot | None = None
    raised: list[_KeptTraceback] = field(default_factory=list)
    raised_late: deque[_KeptTraceback] = field(default_factory=lambda: deque(maxlen=_KEPT))
    under_way: dict[int | None, _KeptTraceback] = field(default_factory=dict)


class NearbyLines:
    """What is kept of the lines; it does not grow with their number."""

    def __init__(self) -> None:
        self._hosts: dict[str, _HostLines] = {}

    def add(self, line: ContextLine) -> None:
        """The next line."""
        line = replace(line, text=line.text[:_LONGEST])
        host = self._hosts.setdefault(line.host, _HostLines())
        host.last.append(line)
        self._follow_traceback(host, line)
        if host.open is not None:
            host.open.lines.append(line)
            host.open.missing -= 1
            if host.open.missing <= 0:
                host.open = None
        elif _TROUBLE.search(line.text):
            host.open = _TroubleSpot(list(host.last)[-BEFORE - 1 :])
            (host.early if len(host.early) < _KEPT else host.late).append(host.open)

    def around(self, log_line: str, host: str | None, rank: int | None) -> tuple[ContextLine, ...]:
        """The lines around one that a diagnosis shows, printable and without secrets; none where it is not
        among those that were kept. A line of that rank and host goes before the same one of others."""
        best: tuple[tuple[bool, bool, int], list[ContextLine], ContextLine] | None = None
        for lines, line in self._candidates(log_line):
            if shown(parse(line.text).text) != log_line:
                continue
            key = (line.rank != rank, line.host != host, line.order)
            if best is None or key < best[0]:
                best = key, lines, line
        if best is None:
            return ()
        _, lines, cause = best
        at = lines.index(cause)
        return tuple(
            _printable(line, is_cause=line is cause) for line in lines[max(0, at - BEFORE) : at + AFTER + 1]
        )

    def traceback_of(
        self, told: Sequence[str], host: str | None, rank: int | None, *, consequences: bool = True
    ) -> tuple[ContextLine, ...]:
        """The first traceback of that rank and host that ends with what one of these lines says, printable
        and without secrets; none where none was kept. The exception is marked. Without `consequences` none
        counts that only reports another failure, as torchrun's does."""
        found: list[tuple[int, _KeptTraceback, ContextLine]] = []
        for each in self._hosts.values():
            for printed in (*each.raised, *each.raised_late):
                line = printed.raised
                if line is None or (printed.stack.follows_from_another and not consequences):
                    continue
                if rank is not None and line.rank not in (rank, None):
                    continue
                said = re.compile(rf"{re.escape(shown(parse(line.text).text))}(?!\w)".replace("…", ""))
                if (not host or line.host == host) and any(map(said.search, told)):
                    found.append((line.order, printed, line))
        if not found:
            return ()
        _, printed, line = min(found, key=lambda each: each[0])
        return tuple(printed.shown(each, is_cause=each is line) for each in printed.lines)

    def last_lines(self, host: str | None) -> tuple[ContextLine, ...]:
        """The last lines of a host, or of the one that printed last where that one is not known."""
        if host not in self._hosts:
            known = {name: each.last[-1].order for name, each in self._hosts.items() if each.last}
            host = max(known, key=lambda name: known[name], default=None)
        return () if host is None else tuple(_printable(line) for line in self._hosts[host].last)

    def _follow_traceback(self, host: _HostLines, line: ContextLine) -> None:
        """Keep a line that belongs to a traceback of its writer, or begins one."""
        printed = host.under_way.get(line.rank)
        if printed is not None:
            if printed.take(line):
                return
            del host.under_way[line.rank]
        if HEADER in line.text and (stack := open_traceback(parse(line.text).text)) is not None:
            printed = host.under_way[line.rank] = _KeptTraceback(stack)
            printed.take(line)
            (host.raised if len(host.raised) < _KEPT else host.raised_late).append(printed)

    def _candidates(self, log_line: str) -> Iterator[tuple[list[ContextLine], ContextLine]]:
        beginning = log_line.strip()[:_COMPARED].split("  ")[0].split("[hidden]")[0].rstrip("…")
        for host in self._hosts.values():
            places = [place.lines for place in (*host.early, *host.late)]
            for lines in (*places, list(host.last)):
                for line in lines:
                    if beginning in line.text:
                        yield lines, line


def _printable(line: ContextLine, *, is_cause: bool = False) -> ContextLine:
    return replace(line, text=shown(line.text), is_cause=is_cause)
