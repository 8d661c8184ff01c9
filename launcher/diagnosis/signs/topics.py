"""Of what a line speaks, which traceback it belongs to, and whether others like it can tell anything new.

The reader acts on the topics of a line, beside what the rows of the signatures know. What one line told is
learned by `storms`, so that others like it are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from launcher.diagnosis.logs import attempts
from launcher.diagnosis.logs.attempts import counters_in
from launcher.diagnosis.logs.lines import Line, Writer, is_plain, may_be_indented, parse
from launcher.diagnosis.logs.tracebacks import BOX_END, HEADER, SPAWNED_LITERAL, Traceback, open_traceback
from launcher.diagnosis.match.prefilter import Candidate, Scanner
from launcher.diagnosis.match.rows import have_different_writers, is_vague_cascade, telling_numbers
from launcher.diagnosis.signatures import CONTEXTS, Signature
from launcher.diagnosis.signs import exceptions, group_lines, ranks
from launcher.diagnosis.signs import group_lines as world_sizes
from launcher.diagnosis.signs.sightings import line_of
from launcher.diagnosis.storms import Identity, KnownLines, Step
from launcher.text.log_lines import LONGEST_LINE, Layout, Spans, digit_kind, digit_shape, spans_of_origin

# Of what a line speaks that the reader acts on, beside what the rows of the signatures know.
#
# Few lines speak of anything, and those of a storm of the same things, so what a line may speak of is
# remembered by its shape.


class Topic(Enum):
    """What a line speaks of."""

    BOOTS_RESTART = auto()
    ATTEMPT = auto()
    WORLD_SIZE = auto()
    CLAIMED_RANK = auto()
    DOWNLOAD = auto()
    RANKS = auto()
    STACK = auto()
    SUCCESS = auto()
    FAILURE = auto()
    TORCHRUN_TABLE = auto()
    STORE_BARRIER = auto()
    ANALYSIS = auto()
    IGNORED_EXCEPTION = auto()
    OUTPUT_OF_BUILD = auto()
    EXCEPTION_IN_THREAD = auto()
    SPAWNED_PROCESS = auto()
    CONTEXT = auto()


LITERALS_OF: Final[Mapping[Topic, tuple[str, ...]]] = {
    Topic.BOOTS_RESTART: ("slipway: restart ",),
    Topic.ATTEMPT: attempts.ATTEMPT_LITERALS,
    Topic.WORLD_SIZE: world_sizes.WORLD_LITERALS,
    Topic.CLAIMED_RANK: group_lines.CLAIM_LITERALS,
    Topic.DOWNLOAD: exceptions.DOWNLOAD_LITERALS,
    Topic.RANKS: (*ranks.RANK_LITERALS, *(part.lower() for part in ranks.COLLECTIVE_LITERALS)),
    Topic.STACK: exceptions.STACK_LITERALS,
    Topic.SUCCESS: ("reporting training success",),
    Topic.FAILURE: ("reporting training failure",),
    Topic.TORCHRUN_TABLE: (group_lines.TABLE_TITLE,),
    Topic.STORE_BARRIER: (group_lines.BARRIER_LITERAL,),
    Topic.ANALYSIS: group_lines.ANALYSIS_LITERALS,
    # How Python begins to tell of exceptions that harm nothing: in a destructor, or while a line is logged.
    # It prints three dashes, of which hyperscan would make an automaton of 25 MB.
    Topic.IGNORED_EXCEPTION: ("exception ignored", "-- logging error --"),
    # How pip cites what a package's build printed, which its own words below sum up.
    Topic.OUTPUT_OF_BUILD: ("lines of output]", "[end of output]", "complete output ("),
    Topic.EXCEPTION_IN_THREAD: ("exception in thread",),
    Topic.SPAWNED_PROCESS: (SPAWNED_LITERAL,),
    Topic.CONTEXT: tuple(context.literal for context in CONTEXTS),
}
"""The lower-case parts of lines by which they are known to speak of something."""

_SHAPES: Final = {
    topic: tuple(digit_shape(literal.encode()) for literal in literals)
    for topic, literals in LITERALS_OF.items()
}


def topics_of(text: str) -> frozenset[Topic]:
    """What a line speaks of, by its text without prefixes."""
    lower = text.lower()
    may = (
        topics_of_shape(digit_shape(lower.encode()))
        if text.isascii() and len(text) <= LONGEST_LINE
        else Topic
    )
    return frozenset(topic for topic in may if any(literal in lower for literal in LITERALS_OF[topic]))


@lru_cache(maxsize=1024)
def topics_of_shape(shape: bytes) -> tuple[Topic, ...]:
    """What lines of a shape, in lower case, may speak of, as some literals have digits."""
    return tuple(
        topic for topic, literals in _SHAPES.items() if any(literal in shape for literal in literals)
    )


_ANNOUNCED_WITHIN = 3
"""Lines between `Exception ignored in`, `Exception in thread` or `-- Process 0 terminated`, and the traceback
that it speaks of."""

_MOST_OUTPUT = 400
"""Lines that pip cites of a build, at most."""


@dataclass(slots=True)
class OpenTraceback:
    """A traceback, its header, and the step of its last line among what is known, None where it has none."""

    traceback: Traceback
    header: Candidate
    line: Line
    step: Step | None = None


class OpenTracebacks:
    """Those of all streams. Of what was left out of a stream so far it makes the traceback once it counts."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._open: dict[str, dict[Writer, OpenTraceback]] = {}
        self._ignored: dict[tuple[str, Writer], int] = {}
        self._in_thread: dict[tuple[str, Writer], int] = {}
        self._cited: dict[tuple[str, Writer], int] = {}
        self._process: dict[tuple[str, Writer], int] = {}

    def has_open(self, stream: str) -> bool:
        """Whether every line of a stream is to be read for its tracebacks."""
        return bool(self._open.get(stream))

    def traceback_of(self, stream: str, writer: Writer) -> OpenTraceback | None:
        """The traceback of a writer that is being read."""
        return self._open.get(stream, {}).get(writer)

    def begin(self, traceback: Traceback, header: Candidate, line: Line, step: Step | None = None) -> None:
        """A writer begins a traceback; what it left open is not going to be completed."""
        traceback.ignored = _is_near(self._ignored, header, line)
        traceback.in_thread = _is_near(self._in_thread, header, line)
        if _is_near(self._cited, header, line):
            traceback.cited_from = self._process[header.stream, line.writer]
        known = self._scanner.known_of(header.stream)
        of_stream = known.open = self._open.setdefault(header.stream, {})
        of_stream[line.writer] = OpenTraceback(traceback, header, line, step)

    def ignore_next(self, candidate: Candidate, line: Line) -> None:
        """Python says that it ignores the exception of which its writer prints the traceback next."""
        self._ignored[candidate.stream, line.writer] = candidate.index + _ANNOUNCED_WITHIN

    def ignore_output_of_build(self, candidate: Candidate, line: Line) -> None:
        """pip begins to cite what a build printed, or has ended: its tracebacks are no script's."""
        cited = 0 if "[end of output]" in line.text else _MOST_OUTPUT
        self._ignored[candidate.stream, line.writer] = candidate.index + cited

    def in_thread_next(self, candidate: Candidate, line: Line) -> None:
        """Python says that a thread ends by the exception of which its writer prints the traceback next."""
        self._in_thread[candidate.stream, line.writer] = candidate.index + _ANNOUNCED_WITHIN

    def cite_next(self, process: int, candidate: Candidate, line: Line) -> None:
        """torch.multiprocessing.spawn cites the traceback of a process of the host next."""
        self._cited[candidate.stream, line.writer] = candidate.index + _ANNOUNCED_WITHIN
        self._process[candidate.stream, line.writer] = process

    def end(self, stream: str, writer: Writer) -> None:
        """The traceback of a writer is complete."""
        del self._open[stream][writer]

    def forget_stream(self, stream: str) -> None:
        """What is open in a stream is of an earlier start."""
        known = self._scanner.known_of(stream)
        for writer in known.writers():
            known.take_over(writer)
        self._open.get(stream, {}).clear()

    def resume(self, stream: str, writer: Writer) -> bool:
        """Whether a traceback of this writer was left out so far; it is being read from now on."""
        known = self._scanner.known_of(stream)
        under_way = known.take_over(writer)
        if under_way is None:
            return False
        header = self._scanner.candidate_of_left_out(
            stream, under_way.index, under_way.time, under_way.lines[0]
        )
        first, *messages = known.messages(under_way.lines)
        traceback = open_traceback(first)
        if traceback is None:
            raise AssertionError(f"no traceback begins in {first!r}")
        for message in messages:
            traceback.add_line(message)
        self.begin(traceback, header, line_of(header), under_way.step)
        return True

    def close_all(self) -> Iterator[OpenTraceback]:
        """Those that are still open at the end of all streams, of each stream in their order."""
        for stream, known in self._scanner.known_streams():
            for writer in known.writers():
                self.resume(stream, writer)
            yield from sorted(self._open.get(stream, {}).values(), key=lambda each: each.header.index)


def _is_near(said: Mapping[tuple[str, Writer], int], header: Candidate, line: Line) -> bool:
    until = said.get((header.stream, line.writer))
    return until is not None and header.index <= until


def learn_line(
    known: KnownLines,
    candidate: Candidate,
    line: Line,
    row: Signature | None,
    kinds: Collection[object],
    was: OpenTraceback | None,
    now: OpenTraceback | None,
    *,
    settled: bool,
) -> None:
    """Have lines left out that are like this one, where they would bring nothing new.

    `row` is the one that counts for the line, `kinds` are those of the signs in it; `was` and `now` are the
    tracebacks of its writer before it and with it; `settled` as in `identity_of`.
    """
    raw = candidate.raw
    if now is not None:
        begins = now is not was
        step = None if begins or was is None else was.step
        may_go_on = begins or step is not None
        followed = may_go_on and now.traceback.is_in_stack and tells_nothing_beside(raw)
        now.step = known.learn_step(raw, step) if followed else None
        return
    if (was is not None and (was.step is None or not was.traceback.exception)) or may_open_traceback(raw):
        return
    identity = identity_of(raw, line, row, traced=was is not None, settled=settled)
    if identity is None or not candidate.after:
        return
    after = None if was is None else was.step
    told = frozenset(kinds)
    if have_different_writers(line, parse(candidate.after[0].decode("utf-8", "replace"))):
        known.learn(raw, identity, row, told, None, after)
    elif is_followed_by_another(candidate.after, torn=_may_be_torn(line, row)):
        known.learn(raw, identity, row, told, candidate.after[0], after)


def _may_be_torn(line: Line, row: Signature | None) -> bool:
    """Whether what a line says was looked for in the next one too."""
    return row is None or is_vague_cascade(row) or row.pattern.search(line.text) is None


# Whom a line is about, and whether another line of its kind could bring something new.
#
# What moves something each time it is printed (a restart, a step) is never the same again; of a collective
# and of a communicator the numbers count. Where a pattern looks at single digits, so do the numbers that
# may have them.


_MOST_REMEMBERED = 2048
_IDENTITIES: dict[tuple[object, ...], Identity | None] = {}
"""How lines are known again, by all that it depends on."""

_GROUP = re.compile(r"\[PG [^\]\[]{0,200}Rank \d{1,6}\]|\bRank \d{1,6}\]")
"""Where lines of a process group tell the group and the rank."""


def _pattern_of_any(literals: Iterable[str]) -> re.Pattern[bytes]:
    shapes = sorted({digit_shape(literal.encode()) for literal in literals})
    return re.compile(b"|".join(map(re.escape, shapes)))


_RANK_LITERALS = {*ranks.NUMBER_LITERALS, *(part.lower() for part in ranks.COLLECTIVE_LITERALS)}
_NEVER_AGAIN = {literal for literals in LITERALS_OF.values() for literal in literals} - _RANK_LITERALS
_NEVER_AGAIN_PATTERN = _pattern_of_any(_NEVER_AGAIN)
_TELLS_OF_RANKS = _pattern_of_any(_RANK_LITERALS)
_OPENS = (HEADER.lower().encode(), BOX_END.encode())


def may_open_traceback(raw: bytes) -> bool:
    """Whether a traceback may begin in a line."""
    lower = raw.lower()
    return any(beginning in lower for beginning in _OPENS)


def tells_nothing_beside(raw: bytes) -> bool:
    """Whether a line of a stack is nothing but that, as is any other of its kind."""
    return is_plain(raw) and not topics_of_shape(digit_shape(raw.lower()))


def identity_of(
    raw: bytes, line: Line, row: Signature | None, *, traced: bool = False, settled: bool = False
) -> Identity | None:
    """How to know a line again, by places of its kind; None where another line of its kind may bring
    something new.

    `row` is the one that counts for it, `traced` whether it is of a traceback, below its header, `settled`
    whether it tells of a collective of which the number does not count any more. Lines of one kind for which
    the same row counts have one answer, so it is remembered.
    """
    if not is_plain(raw):
        return None
    key = (*_message_in_kind(digit_shape(raw), len(raw) - len(line.text)), id(row), traced, settled)
    if key not in _IDENTITIES:
        if len(_IDENTITIES) >= _MOST_REMEMBERED:
            _IDENTITIES.clear()
        _IDENTITIES[key] = _identity_of(raw, line, row, traced=traced, settled=settled)
    return _IDENTITIES[key]


@lru_cache(maxsize=1024)
def _message_in_kind(shape: bytes, start: int) -> tuple[bytes, Spans | None]:
    """The kind of a shape, and where in it the message begins that begins there in the shape."""
    return digit_kind(shape), Layout(shape).of_kind(((start, start),))


def _identity_of(
    raw: bytes, line: Line, row: Signature | None, *, traced: bool, settled: bool
) -> Identity | None:
    shape = digit_shape(raw.lower())
    if _NEVER_AGAIN_PATTERN.search(shape) or (row is None and not traced and counters_in(line.text)):
        return None
    of_ranks = () if settled else ranks.places_of_numbers(line.text)
    if of_ranks is None:
        return None
    text = raw.decode("ascii")
    start = len(text) - len(line.text)
    found = list(of_ranks)
    if row is not None and (of_whom := {"rank", "host"} & {*row.captures}):
        match = row.pattern.search(line.text)
        if match is None:
            return None  # It is told in the lines that follow, or behind a prefix that nobody knows.
        found += [match.span(name) for name in sorted(of_whom) if match[name]]
    found += [group.span() for group in _GROUP.finditer(line.text)]
    found += [said.span() for said in ranks.RANK_IN_WORDS.finditer(line.text)]
    telling = telling_numbers(digit_kind(shape))
    if telling is None:
        found.append((0, len(line.text)))
    layout = Layout(shape)
    spans = layout.of_kind((*spans_of_origin(text), *((start + first, start + end) for first, end in found)))
    if spans is None:
        return None
    return Identity((*spans, *(telling or ())), is_own=_TELLS_OF_RANKS.search(shape) is not None)


def is_followed_by_another(after: Sequence[bytes], *, torn: bool) -> bool:
    """Whether the next line is one that cannot be of the same record; where the two may be `torn`, also one
    in which no single digit counts."""
    if not after or may_be_indented(after[0]):
        return False
    return not torn or telling_numbers(digit_kind(digit_shape(after[0].lower()))) == ()
