"""Read the streams once and note every sign of a failure mode, and what lines tell of the ranks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from launcher.diagnosis.logs import attempts
from launcher.diagnosis.logs.attempts import Moment
from launcher.diagnosis.logs.lines import Line, LogRecord, LogStream, is_plain
from launcher.diagnosis.logs.tracebacks import BOX_END, HEADER, Traceback, open_traceback
from launcher.diagnosis.match.prefilter import Candidate, Scanner, finder_of
from launcher.diagnosis.match.rows import best_row, contexts_of, record_of, rows_matching
from launcher.diagnosis.signatures.signature import Context, LineRole, Signature
from launcher.diagnosis.signatures.table import CONTEXTS, SIGNATURES
from launcher.diagnosis.signs import exceptions, group_lines, ranks
from launcher.diagnosis.signs.exceptions import (
    Downloads,
    sign_of_cut,
    sign_of_exception,
    signs_of_cut_stacks,
    with_traceback,
)
from launcher.diagnosis.signs.group_lines import ClaimedRanks, WorldSizes, sign_of_barrier, signs_of_unreached
from launcher.diagnosis.signs.ranks import RankLines, RankPlaces, RankState
from launcher.diagnosis.signs.readings import IncidentReader, LastLine, Reading
from launcher.diagnosis.signs.sightings import (
    Sighting,
    line_of,
    sighting_of,
    sighting_without_row,
    time_of,
    who_of,
)
from launcher.diagnosis.signs.topics import LITERALS_OF, OpenTracebacks, Topic, learn_line, topics_of
from launcher.failure_modes import distribution, training_script
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import finds

_RESTARTED = re.compile(
    r"^slipway: (?P<what>restart (?P<number>\d{1,4}) of \d{1,4}: after \d{1,9} s and \d{1,12} steps "
    r"(?:(?P<code>[A-Z]{2,5}\d{3}) )?.{1,1500})$"
)
"""What the boot of every host says (slipway/processes/restart_ranks.py) before it starts the ranks again."""

SOUGHT_LITERALS = (
    *(row.literal for row in SIGNATURES),
    *(literal for literals in LITERALS_OF.values() for literal in literals),
    *(HEADER.lower(), BOX_END),
)

_CONTEXT_LITERALS = {*LITERALS_OF[Topic.CONTEXT]}.difference(
    (row.literal for row in SIGNATURES),
    *(literals for topic, literals in LITERALS_OF.items() if topic is not Topic.CONTEXT),
)
"""The literals that nothing but contexts looks for."""


class LogReader:
    """Turns the records of all hosts into one reading, in one pass. A reader reads once.

    `processes_per_host` are the plan's, None where only the lines are known.
    """

    def __init__(self, processes_per_host: int | None = None) -> None:
        self._scanner = Scanner(finder_of(SOUGHT_LITERALS), _CONTEXT_LITERALS)
        self._tracebacks = OpenTracebacks(self._scanner)
        self._incidents = IncidentReader(self._want)
        self._ranks = JobRanks(processes_per_host)
        self._restarts: dict[int, Sighting] = {}
        self._contexts: dict[tuple[int, str], tuple[Context, str, int, str]] = {}
        self._symptoms: set[tuple[FailureMode, str]] = set()
        self._stacks = exceptions.StackLines()
        self._downloads = Downloads()
        self._reading = Reading()

    def read(self, records: Iterable[LogRecord], streams: Iterable[LogStream] = ()) -> Reading:
        """Read all records, those of one stream in their order, then the streams; return what was noted."""
        for candidate in self._scanner.feed(records, streams):
            self._look_at(candidate)
        for each in self._tracebacks.rest():
            self._incidents.note("cut", sign_of_cut(each.traceback, each.header, each.line))
        tails = [(candidate, self._ranks.line_of(candidate)) for candidate in self._scanner.tails()]
        self._ranks.settle(tails)
        for cut in signs_of_cut_stacks(tails):
            self._incidents.note("cut", cut)
        for unreached in signs_of_unreached(tails):
            self._incidents.note("unreached", unreached)
        for candidate, line in tails:
            self._look_at_end(candidate, self._ranks.placed_line(line, candidate.host))
        self._incidents.end()
        self._reading.closing.lines = self._scanner.lines()
        for stream in self._ranks.superseded():
            self._incidents.notes.started_again(stream)
            self._start_over(stream)
        self._ranks.conclude()
        self._reading.waiting, self._reading.ranks = self._ranks.waiting, self._ranks.states
        self._reading.world_size = self._ranks.world_size
        placed = self._ranks.placed
        self._reading.sightings = [*map(placed, self._incidents.signs()), *self._ranks.signs()]
        history = self._incidents.notes.history
        self._reading.history = [replace(each, sign=placed(each.sign)) for each in history]
        self._reading.courses = self._incidents.courses
        self._reading.ended_well = self._incidents.ended_well
        self._reading.diverged = self._incidents.diverged
        if not (self._reading.success or self._reading.failure):
            self._reading.unfinished = tuple(sorted(self._incidents.by_toolkit))
        self._reading.stacks = self._stacks.last(self._reading.closing.streams, self._reading.ended_well)
        self._reading.restarts = [sighting for _, sighting in sorted(self._restarts.items())]
        self._reading.lengths = self._scanner.lengths()
        self._reading.contexts = list(self._contexts.values())
        return self._reading

    def _look_at(self, candidate: Candidate) -> None:
        stream = candidate.stream
        line = self._ranks.line_of(candidate)
        if self._tracebacks.resume(stream, line.writer):
            self._want(stream)
        was = self._tracebacks.of(stream, line.writer)
        notes = self._incidents.notes
        notes.given.clear()
        notes.refused = False
        row = self._look_into(candidate, line)
        known = self._scanner.known_of(stream)
        now = self._tracebacks.of(stream, line.writer)
        if not notes.refused:
            settled = self._ranks.of_stream(stream).is_settled(line)
            learn_line(known, candidate, line, row, notes.given, was, now, settled=settled)

    def _look_into(self, candidate: Candidate, line: Line) -> Signature | None:
        """Note what a line says; the row that counts for it."""
        traced = self._tracebacks.of(candidate.stream, line.writer) is not None
        if not candidate.hit and is_plain(candidate.raw):
            # No literal is in it, so only a traceback or a counter can go on with it.
            self._trace(candidate, line)
            if not traced and self._incidents.follow(candidate, line):
                self._go_on(candidate.stream)
            return None
        topics = topics_of(line.text)
        if Topic.BOOTS_RESTART in topics and (restarted := _RESTARTED.match(line.text)):
            self._begin_again(restarted, candidate, line)
            return None
        if Topic.ATTEMPT in topics:
            self._scanner.known_of(candidate.stream).forget()
            if self._incidents.begins_again(candidate, line):
                self._start_over(candidate.stream)
                traced = False
        beside = self._trace(candidate, line)
        if topics:
            self._take_up(topics, candidate, line)
        inside = self._tracebacks.of(candidate.stream, line.writer)
        tells_where = inside is not None and inside.traceback.tells_where
        if beside is not None and beside.column and beside.exception:
            # What stands before a whole traceback is no part of what was raised.
            line = replace(line, text=beside.exception)
        uncovered = str if beside is None else beside.uncovered
        found = best_row(candidate, line, uncovered) if candidate.hit and not tells_where else None
        if found is not None:
            self._note_row(*found, candidate, line, beside)
        elif not traced and self._incidents.follow(candidate, line):
            self._go_on(candidate.stream)
        if Topic.CONTEXT in topics:
            self._note_contexts(candidate, line)
        return found[0] if found is not None else None

    def _take_up(self, topics: Collection[Topic], candidate: Candidate, line: Line) -> None:
        """Act on what a line speaks of, whatever row it matches."""
        if claimed := self._ranks.read(topics, candidate, line):
            self._incidents.note("claimed", claimed)
        if Topic.DOWNLOAD in topics:
            self._downloads.read(line, candidate.host)
        if Topic.STACK in topics:
            self._stacks.read(candidate, line, line.host or candidate.host)
        self._reading.success |= Topic.SUCCESS in topics
        self._reading.failure |= Topic.FAILURE in topics
        if Topic.TORCHRUN_TABLE in topics and (said := group_lines.first_failure(candidate, line)):
            self._incidents.note("table", said)
        if Topic.STORE_BARRIER in topics and (barrier := sign_of_barrier(candidate, line)):
            self._incidents.note("barrier", barrier)
        if Topic.ANALYSIS in topics:
            for sign in group_lines.signs_of_analysis(candidate, line):
                self._incidents.note("analysis", sign)
        if Topic.IGNORED_EXCEPTION in topics:
            self._tracebacks.ignore_next(candidate, line)
        if Topic.EXCEPTION_IN_THREAD in topics:
            self._tracebacks.in_thread_next(candidate, line)

    def _go_on(self, stream: str) -> None:
        """Something was survived: what fails from here on counts anew."""
        self._forget_symptoms(stream)
        self._scanner.known_of(stream).forget()

    def _note_row(
        self,
        row: Signature,
        captured: dict[str, str],
        candidate: Candidate,
        line: Line,
        beside: Traceback | None,
    ) -> None:
        who = who_of(captured, line, candidate.host)
        if not self._incidents.notes.repeats(row, candidate.stream, *who):
            sighting = sighting_of(
                row,
                captured,
                line,
                candidate.text,
                host=candidate.host,
                index=candidate.index,
                time=candidate.time,
                stream=candidate.stream,
            )
            self._incidents.note(row, with_traceback(sighting, beside))
        self._symptoms.add((row.mode, candidate.stream))

    def _note_contexts(self, candidate: Candidate, line: Line) -> None:
        stream = candidate.stream
        for context in contexts_of(line.text):
            if not any((mode, stream) in self._symptoms for mode in context.of):
                self._contexts[CONTEXTS.index(context), stream] = (
                    context,
                    candidate.host,
                    candidate.index,
                    line.text,
                )

    def _look_at_end(self, candidate: Candidate, line: Line) -> None:
        """One of the last lines of a stream: who printed what last, and whether steps go on to the end."""
        clock, time = time_of(candidate)
        values = self._incidents.look_at_end(Moment(candidate.index, clock, time), candidate, line)
        step = values.get("step")
        host = line.host or candidate.host
        last = LastLine(candidate.index, line, candidate.text, host, time, bool(values), clock)
        self._reading.closing.add(candidate.stream, last)
        if line.rank is not None:
            ranks = self._ranks.of_stream(candidate.stream)
            ranks.seen(line.rank, host, time, None if step is None else int(step))

    def _begin_again(self, restarted: re.Match[str], candidate: Candidate, line: Line) -> None:
        """What this stream showed of a failure is history: the ranks were started again after it."""
        self._incidents.notes.forget(candidate.stream)
        self._start_over(candidate.stream)
        mode = CATALOGUE.get(restarted["code"] or "")
        if mode is not None:
            # Every host says it.
            told = sighting_without_row(
                mode, LineRole.ADVISORY, restarted["what"], candidate, line, vague=False
            )
            self._restarts.setdefault(int(restarted["number"]), replace(told, rank=None, host=None))

    def _start_over(self, stream: str) -> None:
        """What is open in a stream, and what was seen in it, is of an earlier start."""
        self._forget_symptoms(stream)
        self._scanner.known_of(stream).forget()
        self._contexts = {key: context for key, context in self._contexts.items() if key[1] != stream}
        self._tracebacks.forget(stream)
        self._ranks.forget(stream)
        self._stacks.forget(stream)
        self._incidents.start_over(stream)

    def _forget_symptoms(self, stream: str) -> None:
        self._symptoms = {(mode, of) for mode, of in self._symptoms if of != stream}

    def _want(self, stream: str) -> None:
        """Have every line of a stream read while a traceback is open in it, or something failed just now."""
        if self._tracebacks.any_in(stream) or self._incidents.is_watched(stream):
            self._scanner.all_of.add(stream)
        else:
            self._scanner.all_of.discard(stream)

    def _trace(self, candidate: Candidate, line: Line) -> Traceback | None:
        """Go on with the tracebacks of this host; the one that this line completes, if any."""
        stream = candidate.stream
        begun = open_traceback(line.text)
        if begun is not None:
            self._tracebacks.begin(begun, candidate, line)
            self._want(stream)
            return None
        under_way = self._tracebacks.of(stream, line.writer)
        if under_way is None:
            return None
        traceback = under_way.traceback
        traceback.add(line.text)
        if not traceback.is_complete:
            return None
        self._tracebacks.end(stream, line.writer)
        self._want(stream)
        if not traceback.exception:
            if traceback.frames:
                self._incidents.note("cut", sign_of_cut(traceback, under_way.header, under_way.line))
            return None
        known = rows_matching(record_of(candidate, line, traceback.exception, traceback.uncovered))
        if not any(row.mode is not training_script.SCRIPT_RAISED or not row.vague for row, _ in known):
            torn = self._downloads.sign_of_torn(traceback, candidate, line, self._ranks.told_size)
            said = ("torn", torn) if torn else sign_of_exception(traceback, candidate, line)
            self._incidents.note(*said)
        return traceback


# The ranks of a job: what lines tell of each, how many there are, on which host each runs, who claims
# which.
#
# A line or a sign that names a local rank, or a task of srun, gets the global rank here, as far as it is
# known.


class JobRanks:
    """What the lines of all streams tell of ranks, in one pass.

    `processes_per_host` are the plan's, None where only the lines are known.
    """

    def __init__(self, processes_per_host: int | None = None) -> None:
        self._streams: dict[str, RankLines] = {}
        self._places = RankPlaces(processes_per_host)
        self._worlds = WorldSizes()
        self._claims = ClaimedRanks()
        self.states: tuple[RankState, ...] = ()
        """The table of ranks, once all lines were read (`conclude`)."""
        self.waiting: tuple[ranks.Waiting, ...] = ()
        """Where ranks stand in their collectives, known at the same time."""
        self._tasks = 0
        self.world_size = 0
        """How many ranks there are, known at the same time; 0 where no line tells."""

    def line_of(self, candidate: Candidate) -> Line:
        """The line; who is known by a local rank has the global one as far as that is known by now."""
        line = line_of(candidate)
        if line.local_rank is not None:
            self._places.met(line.host or candidate.host, line.local_rank)
        return self._places.placed(line, candidate.host)

    def read(self, topics: Collection[Topic], candidate: Candidate, line: Line) -> Sighting | None:
        """Take a line into account by what it speaks of; the sign of a rank that is not what it says."""
        if Topic.WORLD_SIZE in topics:
            self._worlds.read(line, candidate.host, candidate.index, candidate.time)
        if Topic.RANKS in topics:
            ends = candidate.following() if "(local_rank: " in line.text else ()
            self.of_stream(candidate.stream).read(line, line.host or candidate.host, ends)
        return self._claims.read(candidate, line) if Topic.CLAIMED_RANK in topics else None

    def of_stream(self, stream: str) -> RankLines:
        """What the lines of one stream tell."""
        lines = self._streams.get(stream)
        if lines is None:
            lines = self._streams[stream] = RankLines()
        return lines

    @property
    def told_size(self) -> int:
        """The largest world that a line told of so far, 0 where none did."""
        return self._worlds.size

    def forget(self, stream: str) -> None:
        """What a stream told is of an earlier start."""
        self.of_stream(stream).forget()
        self._claims.forget(stream)

    def superseded(self) -> frozenset[str]:
        """The streams of attempts that another one followed."""
        return attempts.superseded_streams(self._streams)

    def settle(self, tails: Collection[tuple[Candidate, Line]]) -> None:
        """All lines were read but for the last ones of each stream: local ranks become global ones. A file of
        one process tells the place of the rank that its lines name."""
        for candidate, line in tails:
            if line.rank is not None and candidate.local_rank is not None:
                of_hosts = self.of_stream(candidate.stream).of_hosts
                of_hosts.placed(line.rank, line.host or candidate.host, candidate.local_rank, named=True)
        gone = self.superseded()
        lines = [each for stream, each in self._streams.items() if stream not in gone]
        seen = max((each.world_size for each in lines), default=0)
        each_host = self._worlds.processes_per_host
        self._places.settle((each.of_hosts for each in lines), each_host, self._worlds.size, seen)

    def placed_line(self, line: Line, host: str) -> Line:
        """The line with its global rank, as far as its local one tells it."""
        return self._places.placed(line, host)

    def conclude(self) -> None:
        """Nothing comes any more: make the table of ranks."""
        self.waiting, self.states, size = ranks.merge_rank_lines(self._streams)
        self.world_size = max(self._worlds.size, size)
        self._tasks = max((lines.tasks for lines in self._streams.values()), default=0)

    def placed(self, sign: Sighting) -> Sighting:
        """The sign with its global rank where its line, or the path of its stream, tells the local one, or
        where it names a task of srun and each rank is a task: there are as many of both."""
        task = sign.captured.get("task")
        if sign.rank is None and task is not None and 1 < self.world_size == self._tasks:
            return replace(sign, rank=int(task))
        host, rank, told = sign.host or "", sign.rank, sign.captured.get("local_rank", "")
        if rank is None and told.isdecimal():
            exact = self._places.exact(host, int(told))
            rank = exact if exact is not None else self._places.rank_of(host, int(told))
        elif rank is None and sign.local_rank is not None:
            rank = self._places.rank_of(host, sign.local_rank)
        return sign if rank is None else replace(sign, rank=rank)

    @finds(Stage.LOG, distribution.RANKS_NEVER_MET)
    def signs(self) -> Iterator[Sighting]:
        """What all lines together show of the world: that nobody met, or that ranks are claimed twice."""
        for sign in (self._worlds.never_met(), self._claims.claimed_twice()):
            if sign is not None:
                yield sign
