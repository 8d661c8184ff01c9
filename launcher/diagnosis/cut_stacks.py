"""A stack of Python's at the end of a stream, of which the log has neither the beginning nor the error.

People paste what fits on their screen, and a limit on a message's length cuts a traceback anywhere. Where it
still has its header it is read as every other one (see `raised.sign_of_cut`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby

from launcher.diagnosis.attempts import is_first_line, says_started_again
from launcher.diagnosis.known_shapes import Writer
from launcher.diagnosis.raised import sign_of_cut
from launcher.diagnosis.record import Line
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.tracebacks import HEADER, Traceback, says_what_was_raised

_PLACE = re.compile(r'^\s{0,40}File "[^"]{1,1000}", line \d{1,7}, in \S')
"""A place as a traceback tells it; in the stacks of faulthandler, which are no sign of an error, no comma
stands before `in`."""

_BEGINS = re.compile(
    rf"{re.escape(HEADER)}|Stack \(most recent call last\)|\(most recent call first\)|\bFound from ?:"
)
"""How a traceback begins, which is read as such, and the stacks that are printed where nothing was raised, as
by torch's compiler for what it leaves out (torch/_inductor/cudagraph_utils.py)."""

_INDENTED = (" ", "\t")

_Lines = Sequence[tuple[Candidate, Line]]


def signs_of_cut_stacks(tails: Iterable[tuple[Candidate, Line]]) -> Iterator[Sighting]:
    """The exceptions in the middle of whose stack a writer's last lines end; `tails` are the last lines of
    all streams, those of one stream in their order."""
    for _, lines in groupby(tails, key=lambda each: each[0].stream):
        of_stream = list(lines)
        for written in _by_writer(of_stream):
            stack = _stack_at_end(written)
            if any(_PLACE.match(line.text) for _, line in stack) and not _is_history(stack, of_stream):
                yield _sign_of(stack)


def _is_history(stack: _Lines, of_stream: _Lines) -> bool:
    """Whether all began once more after it."""
    last = stack[-1][0].index
    return any(
        candidate.index > last and (says_started_again(line.text) or is_first_line(line.text))
        for candidate, line in of_stream
    )


def _by_writer(lines: Iterable[tuple[Candidate, Line]]) -> Collection[_Lines]:
    written: dict[Writer, list[tuple[Candidate, Line]]] = {}
    for candidate, line in lines:
        if line.text.strip():
            written.setdefault(line.writer, []).append((candidate, line))
    return written.values()


def _stack_at_end(lines: _Lines) -> _Lines:
    """The lines of a stack with which a writer ends, but for the very last one, which may be cut anywhere.
    None where that one says what was raised: such a line is known without its stack."""
    end = len(lines) if _is_of_stack(lines[-1][1].text) else len(lines) - 1
    start = end
    while start and _is_of_stack(lines[start - 1][1].text):
        start -= 1
    if start and _BEGINS.search(lines[start - 1][1].text):
        return ()
    return () if says_what_was_raised(lines[-1][1].text) else lines[start:end]


def _is_of_stack(text: str) -> bool:
    return text.startswith(_INDENTED) or _PLACE.match(text) is not None


def _sign_of(stack: _Lines) -> Sighting:
    traceback = Traceback(0, "")
    for _, line in stack:
        traceback.add(line.text)
    return sign_of_cut(traceback, *stack[0])
