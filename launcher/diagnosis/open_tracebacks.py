"""The tracebacks that are being read, of each writer in each stream, and what is learned from them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from launcher.diagnosis.candidates import line_of
from launcher.diagnosis.known_lines import KnownLines
from launcher.diagnosis.known_shapes import Step, Writer
from launcher.diagnosis.line_identity import identity_of, is_followed_by_another, opens, says_nothing
from launcher.diagnosis.matching import are_of_two, says_little
from launcher.diagnosis.record import Line, parse
from launcher.diagnosis.scan import Candidate, Scanner
from launcher.diagnosis.signatures.signature import Signature
from launcher.diagnosis.tracebacks import Traceback, opened

_NEAR = 3
"""Lines between `Exception ignored in`, or `Exception in thread`, and the traceback that it speaks of."""


@dataclass(slots=True)
class Open:
    """A traceback, its header, and the step of its last line among what is known, None where it has none."""

    traceback: Traceback
    header: Candidate
    line: Line
    step: Step | None = None


class OpenTracebacks:
    """Those of all streams. Of what was left out of a stream so far it makes the traceback once it counts."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._open: dict[str, dict[Writer, Open]] = {}
        self._ignored: dict[tuple[str, Writer], int] = {}
        self._in_thread: dict[tuple[str, Writer], int] = {}

    def any_in(self, stream: str) -> bool:
        """Whether every line of a stream is to be read for its tracebacks."""
        return bool(self._open.get(stream))

    def of(self, stream: str, writer: Writer) -> Open | None:
        """The traceback of a writer that is being read."""
        return self._open.get(stream, {}).get(writer)

    def begin(self, traceback: Traceback, header: Candidate, line: Line, step: Step | None = None) -> None:
        """A writer begins a traceback; what it left open is not going to be completed."""
        traceback.ignored = _is_near(self._ignored, header, line)
        traceback.in_thread = _is_near(self._in_thread, header, line)
        known = self._scanner.known_of(header.stream)
        of_stream = known.open = self._open.setdefault(header.stream, {})
        of_stream[line.writer] = Open(traceback, header, line, step)

    def ignore_next(self, candidate: Candidate, line: Line) -> None:
        """Python says that it ignores the exception of which its writer prints the traceback next."""
        self._ignored[candidate.stream, line.writer] = candidate.index

    def in_thread_next(self, candidate: Candidate, line: Line) -> None:
        """Python says that a thread ends by the exception of which its writer prints the traceback next."""
        self._in_thread[candidate.stream, line.writer] = candidate.index

    def end(self, stream: str, writer: Writer) -> None:
        """The traceback of a writer is complete."""
        del self._open[stream][writer]

    def forget(self, stream: str) -> None:
        """What is open in a stream is of an earlier start."""
        known = self._scanner.known_of(stream)
        for writer in known.writers():
            known.take(writer)
        self._open.get(stream, {}).clear()

    def resume(self, stream: str, writer: Writer) -> bool:
        """Whether a traceback of this writer was left out so far; it is being read from now on."""
        known = self._scanner.known_of(stream)
        under_way = known.take(writer)
        if under_way is None:
            return False
        header = self._scanner.earlier(stream, under_way.index, under_way.time, under_way.lines[0])
        first, *messages = known.kinds.messages(under_way.lines)
        traceback = opened(first)
        if traceback is None:
            raise AssertionError(f"no traceback begins in {first!r}")
        for message in messages:
            traceback.add(message)
        self.begin(traceback, header, line_of(header), under_way.step)
        return True

    def rest(self) -> Iterator[Open]:
        """Those that are still open at the end of all streams, of each stream in their order."""
        for stream, known in self._scanner.known_streams():
            for writer in known.writers():
                self.resume(stream, writer)
            yield from sorted(self._open.get(stream, {}).values(), key=lambda each: each.header.index)


def _is_near(said: Mapping[tuple[str, Writer], int], header: Candidate, line: Line) -> bool:
    at = said.get((header.stream, line.writer))
    return at is not None and header.index - at <= _NEAR


def learn(
    known: KnownLines,
    candidate: Candidate,
    line: Line,
    row: Signature | None,
    kinds: Collection[object],
    was: Open | None,
    now: Open | None,
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
        followed = may_go_on and now.traceback.tells_where and says_nothing(raw)
        now.step = known.kinds.step(raw, step) if followed else None
        return
    if (was is not None and (was.step is None or not was.traceback.exception)) or opens(raw):
        return
    identity = identity_of(raw, line, row, traced=was is not None, settled=settled)
    if identity is None or not candidate.after:
        return
    after = None if was is None else was.step
    told = frozenset(kinds)
    if are_of_two(line, parse(candidate.after[0].decode("utf-8", "replace"))):
        known.kinds.learn(raw, identity, row, told, None, after)
    elif is_followed_by_another(candidate.after, torn=_may_be_torn(line, row)):
        known.kinds.learn(raw, identity, row, told, candidate.after[0], after)


def _may_be_torn(line: Line, row: Signature | None) -> bool:
    """Whether what a line says was looked for in the next one too."""
    return row is None or says_little(row) or row.pattern.search(line.text) is None
