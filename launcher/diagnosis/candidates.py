"""A candidate line as the readers take it: without prefixes, with its time, as a sign in our own words."""

from __future__ import annotations

import re
from dataclasses import replace

from launcher.diagnosis.record import Line, parse
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes.model import FailureMode
from launcher.text.line_origin import printed_time

_OF_A_RANK = re.compile(r"^slipway: [A-Z]{2,5}\d{3} rank (?P<rank>\d{1,6}) on (?P<host>[\w.-]{1,100}): ")
"""How the boot of a host begins to say which of its ranks failed (slipway/failure.py)."""


def line_of(candidate: Candidate) -> Line:
    """The line behind its prefixes; the path of its stream tells the rank, and the local one, where they do
    not. What the boot says of a rank counts as that rank's line."""
    line = parse(candidate.text)
    if said := _OF_A_RANK.match(line.text):
        return replace(line, rank=int(said["rank"]), host=said["host"])
    if line.rank is None and candidate.rank is not None:
        line = replace(line, rank=candidate.rank)
    if line.local_rank is None and candidate.local_rank is not None:
        line = replace(line, local_rank=candidate.local_rank)
    return line


def time_of(candidate: Candidate) -> tuple[str | None, float | None]:
    """The clock of a line and the seconds on it: that of its stream, else what the line prints."""
    if candidate.time is not None:
        return "stream", candidate.time
    return printed_time(candidate.text) or (None, None)


def unworded(
    mode: FailureMode, role: LineRole, what: str, candidate: Candidate, line: Line, *, vague: bool
) -> Sighting:
    """What a line shows that no signature's own words are for."""
    clock, time = time_of(candidate)
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
        stream=candidate.stream,
        local_rank=line.local_rank,
    )
