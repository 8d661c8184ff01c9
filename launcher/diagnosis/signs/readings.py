"""What is noted of the streams while they are read: the incident that each is in, its history, and how it
ends.

`IncidentReader` cuts streams into incidents at starts, and where training went on after a failure; `Notes`
keeps the first of each kind of sign; `Reading` is all that was noted, by which everything is judged.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import isfinite

from launcher.diagnosis.logs import attempts
from launcher.diagnosis.logs.attempts import (
    Course,
    Moment,
    are_gradients_lost,
    counters_and_loss_in,
    counters_in,
)
from launcher.diagnosis.logs.lines import TAIL, Line, shown
from launcher.diagnosis.logs.tracebacks import RankStack
from launcher.diagnosis.match.prefilter import Candidate
from launcher.diagnosis.model import RankState
from launcher.diagnosis.signatures import Context, LineRole
from launcher.diagnosis.signs.ranks import UnevenLoops, Waiting
from launcher.diagnosis.signs.sightings import Sighting, is_dealt_with, time_of
from launcher.failure_modes import interruption, losses
from launcher.frozen import frozen

_WATCHED = 1_000
"""Lines after a sign of a failure that are all read, to see whether the job goes on. After that the end of
the stream tells it."""

_FEWEST_NAN = 2
"""Losses at the end of a stream that are no numbers: one such step is skipped by a gradient scaler."""

_FEWEST_LOST_GRADIENTS = 4
"""Lines at the end of a stream that print a loss, and gradients that are no numbers."""


class IncidentReader:
    """Notes signs, and moves those that were survived to the history of their stream.

    `want` is called with a stream where it has changed whether each of its lines is wanted (`is_watched`).
    """

    def __init__(self, want: Callable[[str], None]) -> None:
        self.notes = Notes()
        self.courses: dict[str, Course] = {}
        self.ended_well: dict[str, int] = {}
        self.started_by_toolkit: set[str] = set()
        """The streams in which the images' toolkit says that it starts the script."""
        self._nan: dict[str, int] = {}
        self._lost_gradients: dict[str, int] = {}
        self._at_end: dict[str, Moment] = {}
        """Where a counter stood before it went on with one of the last lines of a stream."""
        self._on_watch_changed = want
        self._watched: dict[str, int] = {}
        self._begun: set[str] = set()

    def is_watched(self, stream: str) -> bool:
        """Whether something failed in a stream just now."""
        return stream in self._watched

    def note(self, kind: object, sighting: Sighting) -> None:
        """Note a sign of this kind, and watch its stream if it may be of a failure."""
        if self.notes.note(kind, sighting) and sighting.role.may_be_root:
            self._watched[sighting.stream] = sighting.index + _WATCHED
            self._on_watch_changed(sighting.stream)

    def note_start(self, candidate: Candidate, line: Line) -> bool:
        """Whether a line says that all begins once more: what failed before is history then. So it is where
        training is said to have ended well, but for processes that ended of it."""
        stream = candidate.stream
        first = attempts.is_first_line(line.text)
        again = attempts.says_started_again(line.text) or (first and stream in self._begun)
        if first:
            self._begun.add(stream)
        if attempts.is_toolkits_start(line.text):
            self.started_by_toolkit.add(stream)
        if again:
            self.notes.note_restart(stream)
            self.forget_stream(stream)
        elif attempts.says_ended_well(line.text):
            self.ended_well[stream] = candidate.index
            self.notes.note_progress(stream, Moment(candidate.index))
        return again

    def forget_stream(self, stream: str) -> None:
        """What was seen of the course of a stream is of an earlier start."""
        self._watched.pop(stream, None)
        self.courses.pop(stream, None)
        self.ended_well.pop(stream, None)
        self._on_watch_changed(stream)

    def note_progress(self, candidate: Candidate, line: Line) -> bool:
        """Whether something was survived: a watched stream goes on with this line, or says that it has dealt
        with what it printed just before."""
        stream = candidate.stream
        until = self._watched.get(stream)
        if until is None:
            return False
        if candidate.index > until:
            self._unwatch(stream)
            return False
        if is_dealt_with(line.text) and self.notes.note_dealt_with(stream, candidate.index):
            return True
        values = counters_in(line.text)
        since = self._since(Moment(candidate.index, *time_of(candidate)), candidate, line, values)
        if since is None:
            return False
        if not self.notes.note_progress(stream, since):
            self._unwatch(stream)
        return True

    def look_at_end(self, moment: Moment, candidate: Candidate, line: Line) -> dict[str, float]:
        """One of the last lines of a stream, and when it was printed; the step and the epoch in it."""
        values, loss = counters_and_loss_in(line.text)
        since = self._since(moment, candidate, line, values)
        if since is not None:
            self._at_end[candidate.stream] = since
        if loss is not None and not (
            loss == 0 and self._nan.get(candidate.stream)
        ):  # 0 is logged of no losses.
            stream = candidate.stream
            self._nan[stream] = self._nan.get(stream, 0) + 1 if not isfinite(loss) else 0
            lost = not isfinite(loss) or are_gradients_lost(line.text)
            self._lost_gradients[stream] = self._lost_gradients.get(stream, 0) + 1 if lost else 0
        return values

    def end(self) -> None:
        """The last lines of all streams were looked at."""
        for stream, since in self._at_end.items():
            self.notes.note_progress(stream, since)

    @property
    def diverged(self) -> frozenset[str]:
        """The streams of which no line at the end has a finite loss, or gradients that are, any more."""
        of_losses = {stream for stream, lines in self._nan.items() if lines >= _FEWEST_NAN}
        lost = self._lost_gradients.items()
        return frozenset(of_losses | {stream for stream, lines in lost if lines >= _FEWEST_LOST_GRADIENTS})

    def signs(self) -> list[Sighting]:
        """All that was noted. A program that skips steps whose loss is no number deals with nothing where no
        other steps come any more."""
        diverged = self.diverged
        return [
            replace(sign, role=LineRole.SYMPTOM)
            if sign.mode is losses.LOSS_NOT_FINITE and sign.stream in diverged and not sign.role.may_be_root
            else sign
            for sign in self.notes.sightings
        ]

    def _since(
        self, moment: Moment, candidate: Candidate, line: Line, values: dict[str, float]
    ) -> Moment | None:
        """Where a counter stood before it went on with this line; None where none does."""
        if not values:
            return None
        course = self.courses.setdefault(candidate.stream, Course())
        return course.since if course.went_on(line.writer, values, moment) else None

    def _unwatch(self, stream: str) -> None:
        del self._watched[stream]
        self._on_watch_changed(stream)


COMES_DOWN = 500
"""Lines of a stream after the end of a process, more than the others print until they end as well, and what
Python had in its buffer for standard output, which comes after the traceback."""

_DEALT_WITH_BELOW = 3
"""Lines below an error in which a program says that it has dealt with it."""

_MOST = 20_000
"""Each row counts once for each rank of each host; ranks beyond this many in all are not noted."""

_MOST_HISTORY = 1_000


@frozen
class Survived:
    """A sign after which the job went on; `restarted` where its ranks were started again, `dealt_with` where
    a line below said so, else they made further steps."""

    sign: Sighting
    restarted: bool
    dealt_with: bool = False


class Notes:
    """The first of each kind of sign by host and rank, of the last incident of every stream."""

    def __init__(self) -> None:
        self._noted: dict[str, dict[tuple[object, str | None, int | None, int | None], Sighting]] = {}
        self._count = 0
        self.noted_now: set[object] = set()
        """The kinds of the signs that were given since somebody cleared it."""
        self.is_full_now = False
        """Whether there was no room for one of them."""
        self._history: dict[tuple[object, ...], Survived] = {}

    def note(self, kind: object, sighting: Sighting) -> bool:
        """Note a sign of its stream unless this kind of host and rank was noted; whether it was new."""
        self.noted_now.add(kind)
        noted = self._noted.setdefault(sighting.stream, {})
        key = (kind, sighting.host, sighting.rank, sighting.local_rank)
        if key in noted:
            return False
        if self._count >= _MOST:
            self.is_full_now = True
            return False
        noted[key] = sighting
        self._count += 1
        return True

    def repeats(
        self, kind: object, stream: str, host: str | None, rank: int | None, local_rank: int | None
    ) -> bool:
        """Whether a sign of this kind was noted of them, so that another one need not be made to be given."""
        if (kind, host, rank, local_rank) not in self._noted.get(stream, {}):
            return False
        self.noted_now.add(kind)
        return True

    def forget_stream(self, stream: str) -> None:
        """Drop what this stream showed: somebody else reports it."""
        self._count -= len(self._noted.pop(stream, {}))

    def note_restart(self, stream: str) -> None:
        """All that this stream showed is of an earlier start."""
        for (kind, *_), sign in self._noted.get(stream, {}).items():
            self._keep(kind, Survived(sign, restarted=True))
        self.forget_stream(stream)

    def note_progress(self, stream: str, since: Moment) -> bool:
        """What this stream showed before that moment was survived; whether more may have been since."""
        noted = self._noted.get(stream, {})
        survived = [key for key, sign in noted.items() if self._was_survived(sign, since)]
        for key in survived:
            self._keep(key[0], Survived(noted.pop(key), restarted=False))
            self._count -= 1
        return any(sign.role.may_be_root for sign in noted.values())

    def note_dealt_with(self, stream: str, index: int) -> bool:
        """Whether this stream showed something in the lines just before that it says here to have dealt with:
        that is survived."""
        noted = self._noted.get(stream, {})
        dealt = [
            key
            for key, sign in noted.items()
            if sign.role.may_be_root and not sign.fatal and 0 < index - sign.index <= _DEALT_WITH_BELOW
        ]
        for key in dealt:
            self._keep(key[0], Survived(noted.pop(key), restarted=False, dealt_with=True))
            self._count -= 1
        return bool(dealt)

    def _was_survived(self, sign: Sighting, since: Moment) -> bool:
        if not sign.role.may_be_root or sign.index >= since.index:
            return False
        if sign.mode is interruption.STOPPED:
            # Ranks make steps until the signal reaches them, and some until its grace is over.
            return since.index - sign.index > COMES_DOWN
        if not sign.fatal or since.index - sign.index > COMES_DOWN:
            return True
        # Once torchrun has seen the end of a process it ends all of its host: who makes steps after that
        # was started anew.
        others = self._noted[sign.stream].values()
        return any("exit" in each.captured and sign.index < each.index < since.index for each in others)

    def _keep(self, kind: object, survived: Survived) -> None:
        if not survived.sign.role.may_be_root:
            return
        sign = survived.sign
        key = (kind, sign.stream, sign.host, sign.rank, sign.local_rank)
        if key in self._history or len(self._history) < _MOST_HISTORY:
            self._history[key] = survived  # the last one of its kind

    @property
    def sightings(self) -> list[Sighting]:
        """The signs of the last incident of each stream."""
        return list(self._all())

    @property
    def history(self) -> list[Survived]:
        """The last of each kind of sign that was survived."""
        return list(self._history.values())

    def _all(self) -> Iterator[Sighting]:
        for noted in self._noted.values():
            yield from noted.values()


_PROGRESS_BAR = re.compile(
    r"\d{1,3}%\|[^|]{0,400}\|? ?\d|\b\d{1,12}(?:/\d{1,12}|it) \[[\d:]{4,10}(?:<|,)|\b\d{1,3}%$"
    r"|^\[(?:batch|epoch)=\d{1,12}(?:/\d{1,12})?\]:"
)
"""What goes on: tqdm's bars, shares at the end of a line, the headings of Composer's records."""


DATED = ("stream", "iso")
"""The clocks that know the day and the year."""


@frozen
class LastLine:
    """One of the last lines of a stream: its number, behind its prefixes, and who printed it when.

    `time` is on its `clock` (see `sightings.time_of`). `progresses` is whether a counter of steps or epochs
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
    def shows_progress(self) -> bool:
        """Whether it is of a job that goes on: it counts, or says that it has dealt with an error."""
        return self.progresses or _PROGRESS_BAR.search(self.raw) is not None or is_dealt_with(self.raw)

    @property
    def shown_text(self) -> str:
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


@frozen
class Reading:
    """What was noted: the first of each kind of sign by row, host and rank."""

    sightings: list[Sighting] = field(default_factory=list)
    contexts: list[tuple[Context, str, int, str]] = field(default_factory=list)
    """Each with its host, line number and text: the last one before the symptoms that it explains."""
    lengths: dict[str, int] = field(default_factory=dict)
    """How many lines the longest stream of each host had."""
    restarts: list[Sighting] = field(default_factory=list)
    """The starts of the ranks that failed and were followed by another one, in their order."""
    history: list[Survived] = field(default_factory=list)
    """What failed before the last incident of its stream."""
    courses: dict[str, Course] = field(default_factory=dict)
    """The step counters of each stream, near what failed and at its end."""
    diverged: frozenset[str] = frozenset()
    """The streams whose last losses are no numbers."""
    ended_well: dict[str, int] = field(default_factory=dict)
    """The streams that say that training came to its end, and the number of the line."""
    unfinished: tuple[str, ...] = ()
    """The streams in which the toolkit started the script, where no line says how that ended."""
    closing: Closing = field(default_factory=Closing)
    """How the streams end."""
    unread: tuple[str, ...] = ()
    """What seems to be evidence and could not be read."""
    stacks: tuple[RankStack, ...] = ()
    """Where ranks stood in their code when they printed it last, of those that printed nothing else since."""
    waiting: tuple[Waiting, ...] = ()
    """Where ranks stand in their collectives."""
    uneven: UnevenLoops | None = None
    """That ranks have different numbers of steps, where their lines tell it."""
    taken_twice: str | None = None
    """That ranks are taken by several hosts, in words, where their lines tell it."""
    ranks: tuple[RankState, ...] = ()
    world_size: int = 0
    """How many ranks there are, 0 where no line says."""
    success: bool = False
    failure: bool = False

    @property
    def has_all_lines_of_ranks(self) -> bool:
        """Whether ranks were looked for in every line: of longer streams only the last lines tell them."""
        return max(self.lengths.values(), default=0) <= TAIL
