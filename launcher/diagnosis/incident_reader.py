"""Cuts streams into incidents while they are read: at starts, and where training went on after a failure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite

from launcher.diagnosis import attempts
from launcher.diagnosis.candidates import time_of
from launcher.diagnosis.notes import Notes
from launcher.diagnosis.progress import Course, Moment, counters_and_loss_in, counters_in
from launcher.diagnosis.record import Line
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import losses

_WATCHED = 1_000
"""Lines after a sign of a failure that are all read, to see whether the job goes on. After that the end of
the stream tells it."""

_FEWEST_NAN = 2
"""Losses at the end of a stream that are no numbers: one such step is skipped by a gradient scaler."""


class IncidentReader:
    """Notes signs, and moves those that were survived to the history of their stream.

    `want` is called with a stream where it has changed whether each of its lines is wanted (`is_watched`).
    """

    def __init__(self, want: Callable[[str], None]) -> None:
        self.notes = Notes()
        self.courses: dict[str, Course] = {}
        self.ended_well: dict[str, int] = {}
        self.by_toolkit: set[str] = set()
        """The streams in which the images' toolkit says that it starts the script."""
        self._nan: dict[str, int] = {}
        self._at_end: dict[str, Moment] = {}
        """Where a counter stood before it went on with one of the last lines of a stream."""
        self._want = want
        self._watched: dict[str, int] = {}
        self._begun: set[str] = set()

    def is_watched(self, stream: str) -> bool:
        """Whether something failed in a stream just now."""
        return stream in self._watched

    def note(self, kind: object, sighting: Sighting) -> None:
        """Note a sign of this kind, and watch its stream if it may be of a failure."""
        if self.notes.note(kind, sighting) and sighting.role.may_be_root:
            self._watched[sighting.stream] = sighting.index + _WATCHED
            self._want(sighting.stream)

    def begins_again(self, candidate: Candidate, line: Line) -> bool:
        """Whether a line says that all begins once more: what failed before is history then. So it is where
        training is said to have ended well, but for processes that ended of it."""
        stream = candidate.stream
        first = attempts.is_first_line(line.text)
        again = attempts.says_started_again(line.text) or (first and stream in self._begun)
        if first:
            self._begun.add(stream)
        if attempts.is_toolkits_start(line.text):
            self.by_toolkit.add(stream)
        if again:
            self.notes.started_again(stream)
            self.start_over(stream)
        elif attempts.says_ended_well(line.text):
            self.ended_well[stream] = candidate.index
            self.notes.went_on(stream, Moment(candidate.index))
        return again

    def start_over(self, stream: str) -> None:
        """What was seen of the course of a stream is of an earlier start."""
        self._watched.pop(stream, None)
        self.courses.pop(stream, None)
        self.ended_well.pop(stream, None)
        self._want(stream)

    def follow(self, candidate: Candidate, line: Line) -> bool:
        """Whether a watched stream goes on with this line, so that something was survived."""
        stream = candidate.stream
        until = self._watched.get(stream)
        if until is None:
            return False
        if candidate.index > until:
            self._unwatch(stream)
            return False
        values = counters_in(line.text)
        since = self._since(Moment(candidate.index, *time_of(candidate)), candidate, line, values)
        if since is None:
            return False
        if not self.notes.went_on(stream, since):
            self._unwatch(stream)
        return True

    def look_at_end(self, moment: Moment, candidate: Candidate, line: Line) -> dict[str, float]:
        """One of the last lines of a stream, and when it was printed; the step and the epoch in it."""
        values, loss = counters_and_loss_in(line.text)
        since = self._since(moment, candidate, line, values)
        if since is not None:
            self._at_end[candidate.stream] = since
        if loss is not None:
            self._nan[candidate.stream] = 0 if isfinite(loss) else self._nan.get(candidate.stream, 0) + 1
        return values

    def end(self) -> None:
        """The last lines of all streams were looked at."""
        for stream, since in self._at_end.items():
            self.notes.went_on(stream, since)

    @property
    def diverged(self) -> frozenset[str]:
        """The streams of which no line at the end has a finite loss any more."""
        return frozenset(stream for stream, lines in self._nan.items() if lines >= _FEWEST_NAN)

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
        self._want(stream)
