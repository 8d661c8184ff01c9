"""Read the streams once and note every sign of a failure mode, and what lines tell of the ranks."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from launcher.diagnosis.logs import attempts
from launcher.diagnosis.logs.attempts import Moment
from launcher.diagnosis.logs.lines import Line, LogRecord, LogStream, is_plain
from launcher.diagnosis.logs.tracebacks import BOX_END, HEADER, Traceback, cited_process, open_traceback
from launcher.diagnosis.match.prefilter import Candidate, Scanner, finder_of
from launcher.diagnosis.match.rows import best_row, contexts_of, record_of, rows_matching
from launcher.diagnosis.model import RankState
from launcher.diagnosis.signatures import CONTEXTS, SIGNATURES, Context, LineRole, Signature
from launcher.diagnosis.signs import exceptions, group_lines, ranks
from launcher.diagnosis.signs.exceptions import (
    Downloads,
    sign_of_cut,
    sign_of_exception,
    signs_of_cut_stacks,
    with_traceback,
)
from launcher.diagnosis.signs.group_lines import ClaimedRanks, WorldSizes, sign_of_barrier, signs_of_unreached
from launcher.diagnosis.signs.ranks import RankLines, RankPlaces
from launcher.diagnosis.signs.readings import Closing, IncidentReader, LastLine, Reading
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
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import CATALOGUE, finds

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
        self._incidents = IncidentReader(self._update_wanted)
        self._ranks = JobRanks(processes_per_host)
        self._restarts: dict[int, Sighting] = {}
        self._contexts: dict[tuple[int, str], tuple[Context, str, int, str]] = {}
        self._symptoms: set[tuple[FailureMode, str]] = set()
        self._stacks = exceptions.StackLines()
        self._downloads = Downloads()
        self._closing = Closing()
        self._loops = ranks.LoopLengths()
        self._success = self._failure = False

    def read(self, records: Iterable[LogRecord], streams: Iterable[LogStream] = ()) -> Reading:
        """Read all records, those of one stream in their order, then the streams; return what was noted."""
        for candidate in self._scanner.find_candidates(records, streams):
            self._look_at(candidate)
        for each in self._tracebacks.close_all():
            self._incidents.note("cut", sign_of_cut(each.traceback, each.header, each.line))
        tails = [(candidate, self._ranks.line_of(candidate)) for candidate in self._scanner.tails()]
        self._ranks.settle_places(tails)
        for cut in signs_of_cut_stacks(tails):
            self._incidents.note("cut", cut)
        for unreached in signs_of_unreached(tails):
            self._incidents.note("unreached", unreached)
        for candidate, line in tails:
            self._look_at_end(candidate, self._ranks.line_with_global_rank(line, candidate.host))
        self._incidents.end()
        self._closing.lines = self._scanner.lines()
        for stream in self._ranks.superseded():
            self._incidents.notes.note_restart(stream)
            self._forget_stream(stream)
        return self._conclude()

    def _conclude(self) -> Reading:
        """All that was noted, with the global ranks that are known by now."""
        ranks, incidents = self._ranks, self._incidents
        ranks.conclude()
        placed, ended_well = ranks.sign_with_global_rank, incidents.ended_well
        unfinished = () if self._success or self._failure else tuple(sorted(incidents.started_by_toolkit))
        return Reading(
            sightings=[*map(placed, incidents.signs()), *ranks.signs()],
            contexts=list(self._contexts.values()),
            lengths=self._scanner.lengths(),
            restarts=[sighting for _, sighting in sorted(self._restarts.items())],
            history=[replace(each, sign=placed(each.sign)) for each in incidents.notes.history],
            courses=incidents.courses,
            diverged=incidents.diverged,
            ended_well=ended_well,
            unfinished=unfinished,
            closing=self._closing,
            stacks=self._stacks.latest_stacks(self._closing.streams, ended_well),
            waiting=ranks.waiting,
            uneven=self._loops.uneven(),
            taken_twice=ranks.taken_twice,
            ranks=ranks.states,
            world_size=ranks.world_size,
            success=self._success,
            failure=self._failure,
        )

    def _look_at(self, candidate: Candidate) -> None:
        stream = candidate.stream
        line = self._ranks.line_of(candidate)
        if self._tracebacks.resume(stream, line.writer):
            self._update_wanted(stream)
        was = self._tracebacks.traceback_of(stream, line.writer)
        notes = self._incidents.notes
        notes.noted_now.clear()
        notes.is_full_now = False
        row = self._note_candidate(candidate, line)
        known = self._scanner.known_of(stream)
        now = self._tracebacks.traceback_of(stream, line.writer)
        if not notes.is_full_now:
            settled = self._ranks.lines_of_stream(stream).is_settled(line)
            learn_line(known, candidate, line, row, notes.noted_now, was, now, settled=settled)

    def _note_candidate(self, candidate: Candidate, line: Line) -> Signature | None:
        """Note what a line says; the row that counts for it."""
        traced = self._tracebacks.traceback_of(candidate.stream, line.writer) is not None
        if not candidate.hit and is_plain(candidate.raw):
            # No literal is in it, so only a traceback or a counter can go on with it.
            self._follow_traceback(candidate, line)
            if not traced and self._incidents.note_progress(candidate, line):
                self._forget_what_was_survived(candidate.stream)
            return None
        topics = topics_of(line.text)
        if Topic.BOOTS_RESTART in topics and (restarted := _RESTARTED.match(line.text)):
            self._note_restart_of_boot(restarted, candidate, line)
            return None
        if Topic.ATTEMPT in topics:
            self._scanner.known_of(candidate.stream).forget()
            if self._incidents.note_start(candidate, line):
                self._forget_stream(candidate.stream)
                traced = False
        beside = self._follow_traceback(candidate, line)
        if topics:
            self._note_topics(topics, candidate, line)
        inside = self._tracebacks.traceback_of(candidate.stream, line.writer)
        tells_where = inside is not None and inside.traceback.is_in_stack
        if beside is not None and beside.column and beside.exception:
            # What stands before a whole traceback is no part of what was raised.
            line = replace(line, text=beside.exception)
        strip_prefix = None if beside is None else beside.strip_prefix
        found = best_row(candidate, line, strip_prefix) if candidate.hit and not tells_where else None
        if found is not None:
            self._note_row(*found, candidate, line, beside)
        elif not traced and self._incidents.note_progress(candidate, line):
            self._forget_what_was_survived(candidate.stream)
        if Topic.CONTEXT in topics:
            self._note_contexts(candidate, line)
        return found[0] if found is not None else None

    def _note_topics(self, topics: Collection[Topic], candidate: Candidate, line: Line) -> None:
        """Act on what a line speaks of, whatever row it matches."""
        if claimed := self._ranks.note_line(topics, candidate, line):
            self._incidents.note("claimed", claimed)
        if Topic.DOWNLOAD in topics:
            self._downloads.note_line(line, candidate.host)
        if Topic.STACK in topics:
            self._stacks.note_line(candidate, line, line.host or candidate.host)
        self._success |= Topic.SUCCESS in topics
        self._failure |= Topic.FAILURE in topics
        if Topic.TORCHRUN_TABLE in topics and (said := group_lines.first_failure(candidate, line)):
            self._incidents.note("table", said)
        if Topic.STORE_BARRIER in topics and (barrier := sign_of_barrier(candidate, line)):
            self._incidents.note("barrier", barrier)
        if Topic.ANALYSIS in topics:
            for sign in group_lines.signs_of_analysis(candidate, line):
                self._incidents.note("analysis", sign)
        if Topic.IGNORED_EXCEPTION in topics:
            self._tracebacks.ignore_next(candidate, line)
        if Topic.OUTPUT_OF_BUILD in topics:
            self._tracebacks.ignore_output_of_build(candidate, line)
        if Topic.EXCEPTION_IN_THREAD in topics:
            self._tracebacks.in_thread_next(candidate, line)
        if Topic.SPAWNED_PROCESS in topics and (process := cited_process(line.text)) is not None:
            self._tracebacks.cite_next(process, candidate, line)

    def _forget_what_was_survived(self, stream: str) -> None:
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
            if not any((mode, stream) in self._symptoms for mode in context.symptoms):
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
        self._closing.add(candidate.stream, last)
        if line.rank is not None:
            lines = self._ranks.lines_of_stream(candidate.stream)
            lines.note_output(line.rank, host, time, None if step is None else int(step))
        self._loops.note_line(line.rank, line.text)

    def _note_restart_of_boot(self, restarted: re.Match[str], candidate: Candidate, line: Line) -> None:
        """What this stream showed of a failure is history: the ranks were started again after it."""
        self._incidents.notes.forget_stream(candidate.stream)
        self._forget_stream(candidate.stream)
        mode = CATALOGUE.get(restarted["code"] or "")
        if mode is not None:
            # Every host says it.
            told = sighting_without_row(
                mode, LineRole.ADVISORY, restarted["what"], candidate, line, vague=False
            )
            self._restarts.setdefault(int(restarted["number"]), replace(told, rank=None, host=None))

    def _forget_stream(self, stream: str) -> None:
        """What is open in a stream, and what was seen in it, is of an earlier start."""
        self._forget_symptoms(stream)
        self._scanner.known_of(stream).forget()
        self._contexts = {key: context for key, context in self._contexts.items() if key[1] != stream}
        self._tracebacks.forget_stream(stream)
        self._ranks.forget_stream(stream)
        self._stacks.forget_stream(stream)
        self._incidents.forget_stream(stream)

    def _forget_symptoms(self, stream: str) -> None:
        self._symptoms = {(mode, of) for mode, of in self._symptoms if of != stream}

    def _update_wanted(self, stream: str) -> None:
        """Have every line of a stream read while a traceback is open in it, or something failed just now."""
        if self._tracebacks.has_open(stream) or self._incidents.is_watched(stream):
            self._scanner.wanted_streams.add(stream)
        else:
            self._scanner.wanted_streams.discard(stream)

    def _follow_traceback(self, candidate: Candidate, line: Line) -> Traceback | None:
        """Go on with the tracebacks of this host; the one that this line completes, if any."""
        stream = candidate.stream
        begun = open_traceback(line.text)
        if begun is not None:
            self._tracebacks.begin(begun, candidate, line)
            self._update_wanted(stream)
            return None
        under_way = self._tracebacks.traceback_of(stream, line.writer)
        if under_way is None:
            return None
        traceback = under_way.traceback
        traceback.add_line(line.text)
        if not traceback.is_complete:
            return None
        self._tracebacks.end(stream, line.writer)
        self._update_wanted(stream)
        if not traceback.exception:
            if traceback.frames:
                self._incidents.note("cut", sign_of_cut(traceback, under_way.header, under_way.line))
            return None
        known = rows_matching(record_of(candidate, line, traceback.exception, traceback.strip_prefix))
        telling = [row for row, _ in known if row.role is not LineRole.ADVISORY]
        if not any(row.mode is not training_script.SCRIPT_RAISED or not row.vague for row in telling):
            torn = self._downloads.sign_of_torn(traceback, candidate, line, self._ranks.world_size_so_far)
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
        """How many ranks there are, known at the same time; 0 where no line says."""

    def line_of(self, candidate: Candidate) -> Line:
        """The line; who is known by a local rank has the global one as far as that is known by now."""
        line = line_of(candidate)
        if line.local_rank is not None:
            self._places.note_place(line.host or candidate.host, line.local_rank)
        return self._places.with_global_rank(line, candidate.host)

    def note_line(self, topics: Collection[Topic], candidate: Candidate, line: Line) -> Sighting | None:
        """Take a line into account by what it speaks of; the sign of a rank that is not what it says."""
        if Topic.WORLD_SIZE in topics:
            self._worlds.note_line(line, candidate.host, candidate.index, candidate.time)
        if Topic.RANKS in topics:
            ends = candidate.following() if "(local_rank: " in line.text else ()
            self.lines_of_stream(candidate.stream).note_line(line, line.host or candidate.host, ends)
        return self._claims.note_line(candidate, line) if Topic.CLAIMED_RANK in topics else None

    def lines_of_stream(self, stream: str) -> RankLines:
        """What the lines of one stream tell."""
        lines = self._streams.get(stream)
        if lines is None:
            lines = self._streams[stream] = RankLines()
        return lines

    @property
    def world_size_so_far(self) -> int:
        """The largest world size that a line said so far, 0 where none did."""
        return self._worlds.size

    def forget_stream(self, stream: str) -> None:
        """What a stream said of ranks is of an earlier start."""
        self.lines_of_stream(stream).forget()
        self._claims.forget_stream(stream)

    def superseded(self) -> frozenset[str]:
        """The streams of attempts that another one followed."""
        return attempts.superseded_streams(self._streams)

    def settle_places(self, tails: Collection[tuple[Candidate, Line]]) -> None:
        """All lines were read but for the last ones of each stream: local ranks become global ones. A file of
        one process tells the place of the rank that its lines name."""
        for candidate, line in tails:
            if line.rank is not None and candidate.local_rank is not None:
                of_hosts = self.lines_of_stream(candidate.stream).host_ranks
                of_hosts.note_rank(line.rank, line.host or candidate.host, candidate.local_rank, named=True)
        gone = self.superseded()
        lines = [each for stream, each in self._streams.items() if stream not in gone]
        seen = max((each.world_size for each in lines), default=0)
        each_host = self._worlds.processes_per_host
        self._places.settle((each.host_ranks for each in lines), each_host, self._worlds.size, seen)

    @property
    def taken_twice(self) -> str | None:
        """The ranks that several hosts say are theirs, in words."""
        return self._claims.told_twice

    def line_with_global_rank(self, line: Line, host: str) -> Line:
        """The line with its global rank, where it follows from its local one."""
        return self._places.with_global_rank(line, host)

    def conclude(self) -> None:
        """Nothing comes any more: make the table of ranks."""
        self.waiting, self.states, size = ranks.merge_rank_lines(self._streams)
        self.world_size = max(self._worlds.size, size)
        self._tasks = max((lines.tasks for lines in self._streams.values()), default=0)

    def sign_with_global_rank(self, sign: Sighting) -> Sighting:
        """The sign with its global rank where its line, or the path of its stream, tells the local one, or
        where it names a task of srun and each rank is a task: there are as many of both."""
        task = sign.captured.get("task")
        if sign.rank is None and task is not None and 1 < self.world_size == self._tasks:
            return replace(sign, rank=int(task))
        host, rank, told = sign.host or "", sign.rank, sign.captured.get("local_rank", "")
        if rank is None and told.isdecimal():
            exact = self._places.rank_named_at(host, int(told))
            rank = exact if exact is not None else self._places.rank_of(host, int(told))
        elif rank is None and sign.local_rank is not None:
            rank = self._places.rank_of(host, sign.local_rank)
        return sign if rank is None else replace(sign, rank=rank)

    @finds(Stage.LOG, distribution.RANKS_NEVER_MET)
    def signs(self) -> Iterator[Sighting]:
        """What all lines together show of the world: that nobody met, or that ranks are claimed twice."""
        for sign in (self._worlds.sign_of_no_meeting(), self._claims.sign_of_double_claim()):
            if sign is not None:
                yield sign
