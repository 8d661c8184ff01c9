"""Read the streams once and note every sign of a failure mode."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from launcher.diagnosis.literals import finder_of
from launcher.diagnosis.matching import best_row, contexts_of, rows_matching
from launcher.diagnosis.record import Line, LogRecord, LogStream, parse
from launcher.diagnosis.scan import Candidate, Scanner
from launcher.diagnosis.sighting import Sighting, sighting_of
from launcher.diagnosis.signatures.signature import Context, LineRole
from launcher.diagnosis.signatures.table import CONTEXTS, SIGNATURES
from launcher.diagnosis.tracebacks import BOX_END, HEADER, Traceback, opened
from launcher.diagnosis.world_size import LITERALS as WORLD_SIZE_LITERALS
from launcher.diagnosis.world_size import WorldSizes
from launcher.failure_modes import distribution, hardware, job_runtime
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import FailureMode, Stage
from launcher.failure_modes.registry import finds
from launcher.text.line_origin import printed_time

_SUMMARY = "root cause (first observed failure)"
_RESTART = "slipway: restart "
_SUCCESS, _FAILURE = "reporting training success", "reporting training failure"
_FIELD = re.compile(
    r"^\s*(?P<name>rank|host|exitcode)\s*:\s*(?P<value>\S+)(?: \(local_rank: (?P<local>\d+)\))?"
)
_RESTARTED = re.compile(
    r"^slipway: (?P<what>restart (?P<number>\d{1,4}) of \d{1,4}: after \d{1,9} s and \d{1,12} steps "
    r"(?:(?P<code>[A-Z]{2,5}\d{3}) )?.{1,1500})$"
)
"""What the boot of every host says (slipway/restarts/sequence.py) before it starts the ranks again."""

_MOST_SIGHTINGS = 20_000
"""Each row counts once for each rank of each host; ranks beyond this many in all are not noted."""

LITERALS = (
    *(row.literal for row in SIGNATURES),
    *(context.literal for context in CONTEXTS),
    *WORLD_SIZE_LITERALS,
    *(HEADER.lower(), BOX_END, _SUMMARY, _RESTART, _SUCCESS, _FAILURE),
)


@dataclass(slots=True)
class Reading:
    """What was noted: the first of each kind of sign by row, host and rank."""

    sightings: list[Sighting] = field(default_factory=list)
    contexts: list[tuple[Context, str, int, str]] = field(default_factory=list)
    """Each with its host, line number and text: the last one before the symptoms that it explains."""
    lengths: dict[str, int] = field(default_factory=dict)
    """How many lines the longest stream of each host had."""
    restarts: list[Sighting] = field(default_factory=list)
    """The starts of the ranks that failed and were followed by another one, in their order."""
    success: bool = False
    failure: bool = False


class LogReader:
    """Turns the records of all hosts into one reading, in one pass. A reader reads once."""

    def __init__(self) -> None:
        self._scanner = Scanner(finder_of(LITERALS))
        self._open: dict[str, dict[int | str | None, tuple[Traceback, Candidate, Line]]] = {}
        self._seen: dict[tuple[object, str | None, int | None], str] = {}
        self._noted: list[tuple[str, Sighting]] = []
        self._restarts: dict[int, Sighting] = {}
        self._places: dict[tuple[str, int], tuple[str | None, tuple[str, ...]]] = {}
        self._contexts: dict[tuple[int, str], tuple[Context, str, int, str]] = {}
        self._symptoms: set[tuple[FailureMode, str]] = set()
        self._worlds = WorldSizes()
        self._reading = Reading()

    def read(self, records: Iterable[LogRecord], streams: Iterable[LogStream] = ()) -> Reading:
        """Read all records, those of one stream in their order, then the streams; return what was noted."""
        for candidate in self._scanner.feed(records, streams):
            self._look_at(candidate)
        for tracebacks in self._open.values():
            for traceback, header, line in tracebacks.values():
                self._cut(traceback, header, line)
        self._reading.sightings = [sighting for _, sighting in self._noted]
        self._reading.restarts = [sighting for _, sighting in sorted(self._restarts.items())]
        self._read_worlds()
        self._reading.lengths = self._scanner.lengths()
        self._reading.contexts = list(self._contexts.values())
        return self._reading

    @finds(Stage.LOG, distribution.RANKS_NEVER_MET)
    def _read_worlds(self) -> None:
        apart = self._worlds.never_met()
        if apart is not None:
            self._reading.sightings.append(apart)

    def _look_at(self, candidate: Candidate) -> None:
        line = parse(candidate.text)
        if line.rank is None and candidate.rank is not None:
            line = replace(line, rank=candidate.rank)
        restarted = _RESTARTED.match(line.text)
        if restarted is not None:
            self._begin_again(restarted, candidate, line)
            return
        beside = self._trace(candidate, line)
        self._worlds.read(line, candidate.host, candidate.index, candidate.time)
        lower = line.text.lower()
        self._reading.success |= _SUCCESS in lower
        self._reading.failure |= _FAILURE in lower
        if _SUMMARY in lower:
            self._summary(candidate, line)
        found = best_row(candidate, line)
        if found is not None:
            row, captured = found
            sighting = sighting_of(
                row,
                captured,
                line,
                candidate.text,
                host=candidate.host,
                index=candidate.index,
                time=candidate.time,
            )
            self._note(row, _with_traceback(sighting, beside), candidate.stream)
            self._symptoms.add((row.mode, candidate.stream))
        for number, context in enumerate(CONTEXTS):
            if context in contexts_of(line.text) and not any(
                (mode, candidate.stream) in self._symptoms for mode in context.of
            ):
                self._contexts[number, candidate.stream] = (
                    context,
                    candidate.host,
                    candidate.index,
                    line.text,
                )

    def _begin_again(self, restarted: re.Match[str], candidate: Candidate, line: Line) -> None:
        """What this stream showed of a failure is history: the ranks were started again after it."""
        stream = candidate.stream
        self._noted = [(of, sighting) for of, sighting in self._noted if of != stream]
        self._seen = {key: of for key, of in self._seen.items() if of != stream}
        self._symptoms = {(mode, of) for mode, of in self._symptoms if of != stream}
        self._contexts = {key: context for key, context in self._contexts.items() if key[1] != stream}
        self._open.pop(stream, None)
        self._scanner.all_of.discard(stream)
        mode = CATALOGUE.get(restarted["code"] or "")
        if mode is not None:
            # Every host says it.
            told = _sighting(mode, LineRole.ADVISORY, restarted["what"], candidate, line, vague=False)
            self._restarts.setdefault(int(restarted["number"]), replace(told, rank=None, host=None))

    def _note(self, kind: object, sighting: Sighting, stream: str) -> None:
        key = (kind, sighting.host, sighting.rank)
        if key not in self._seen and len(self._seen) < _MOST_SIGHTINGS:
            self._seen[key] = stream
            self._noted.append((stream, sighting))

    def _trace(self, candidate: Candidate, line: Line) -> Traceback | None:
        """Go on with the tracebacks of this host; the one that this line completes, if any."""
        tracebacks = self._open.setdefault(candidate.stream, {})
        begun = opened(line.text)
        if begun is not None:
            tracebacks[line.writer] = (begun, candidate, line)
            self._scanner.all_of.add(candidate.stream)
            return None
        under_way = tracebacks.get(line.writer)
        if under_way is None:
            return None
        traceback, header, first = under_way
        traceback.add(line.text)
        if not traceback.is_complete:
            return None
        del tracebacks[line.writer]
        if not tracebacks:
            self._scanner.all_of.discard(candidate.stream)
        if not traceback.exception:
            self._cut(traceback, header, first)
            return None
        known = rows_matching(_exception_text(traceback, candidate))
        if not any(row.mode is not job_runtime.SCRIPT_RAISED or not row.vague for row, _ in known):
            self._raised(traceback, candidate, line)
        return traceback

    @finds(Stage.LOG, job_runtime.SCRIPT_RAISED)
    def _raised(self, traceback: Traceback, candidate: Candidate, line: Line) -> None:
        """An exception that no row knows: the script's own, unless it reports another process' failure."""
        if traceback.kind.endswith("KeyboardInterrupt"):
            self._note(
                "interrupted", _of_stop("interrupted with Ctrl-C (SIGINT)", candidate, line), candidate.stream
            )
            return
        role = LineRole.CASCADE if traceback.follows_from_another else LineRole.INITIATOR
        self._note(role, _of_script(traceback.exception, role, candidate, line, traceback), candidate.stream)

    def _cut(self, traceback: Traceback, header: Candidate, line: Line) -> None:
        """A traceback whose exception is not in the log says only that there was one."""
        if traceback.frames:
            what = "an exception, of which the log has only the beginning"
            self._note("cut", _of_script(what, LineRole.CASCADE, header, line, traceback), header.stream)

    @finds(Stage.LOG, hardware.HOST_OUT_OF_MEMORY, job_runtime.SCRIPT_RAISED)
    def _summary(self, candidate: Candidate, line: Line) -> None:
        """torchrun's table of failures: the entry that it saw first."""
        fields: dict[str, str] = {}
        for text in candidate.following:
            if match := _FIELD.match(parse(text).text):
                fields.setdefault(match["name"], match["value"])
                if match["local"]:
                    fields.setdefault("local_rank", match["local"])
        code = fields.get("exitcode", "")
        if not re.fullmatch(r"-?\d{1,4}", code) or not fields.get("rank", "").isdecimal():
            return
        if code == "-15":
            self._note(
                "ended", _of_stop("its processes got the signal SIGTERM", candidate, line), candidate.stream
            )
            return
        killed = code == "-9"
        clock, time = _time(candidate)
        self._note(
            "summary",
            Sighting(
                mode=hardware.HOST_OUT_OF_MEMORY if killed else job_runtime.SCRIPT_RAISED,
                role=LineRole.INITIATOR if killed else LineRole.CASCADE,
                vague=True,
                what="killed (SIGKILL): the usual reason is the host's memory"
                if killed
                else f"ended with exit code {code}; its own error is not in the log",
                rank=int(fields["rank"]),
                host=fields.get("host") or candidate.host or None,
                index=candidate.index,
                clock=clock,
                time=time,
                text=f"{line.text} rank {fields['rank']}, exitcode {code}",
                captured=fields,
            ),
            candidate.stream,
        )


def _of_script(what: str, role: LineRole, candidate: Candidate, line: Line, traceback: Traceback) -> Sighting:
    sighting = _sighting(job_runtime.SCRIPT_RAISED, role, what, candidate, line, vague=True)
    return _with_traceback(sighting, traceback)


def _of_stop(what: str, candidate: Candidate, line: Line) -> Sighting:
    return _sighting(job_runtime.STOPPED, LineRole.CASCADE, what, candidate, line, vague=False)


def _sighting(
    mode: FailureMode, role: LineRole, what: str, candidate: Candidate, line: Line, *, vague: bool
) -> Sighting:
    """What a line shows that no signature's own words are for."""
    clock, time = _time(candidate)
    return Sighting(
        mode=mode,
        role=role,
        vague=vague,
        what=what,
        rank=line.rank,
        host=line.host or candidate.host or None,
        index=candidate.index,
        clock=clock,
        time=time,
        text=line.text,
    )


def _with_traceback(sighting: Sighting, traceback: Traceback | None) -> Sighting:
    if traceback is None:
        return sighting
    return replace(sighting, details=traceback.told, place=traceback.place)


def _exception_text(traceback: Traceback, candidate: Candidate) -> str:
    following = [parse(text).text for text in candidate.following[:3]]
    return "\n".join([traceback.exception, *(text for text in following if text.startswith((" ", "\t")))])


def _time(candidate: Candidate) -> tuple[str | None, float | None]:
    if candidate.time is not None:
        return "stream", candidate.time
    return printed_time(candidate.text) or (None, None)
