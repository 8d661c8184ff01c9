"""What torch's analyser of flight recorders says among the lines of a log.

A file that holds nothing else is evidence by itself (`evidence/torch_analyser.py`, which has the texts).
People run the analyser where the job ran, and torchcomms prints its words while ranks still wait. Dumps
themselves are not looked for in logs: no public one was found to have any, as pickle or as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from launcher.diagnosis.candidates import time_of
from launcher.diagnosis.evidence.torch_analyser import differing, not_joined
from launcher.diagnosis.record import Line, parse
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting

LITERALS = ("not all ranks joining collective", "culprit rank ")
"""Lower-case parts of the lines in which it says what does not match."""


def signs_of_analysis(candidate: Candidate, line: Line) -> Iterator[Sighting]:
    """Which ranks did not join the collective that this line begins to tell of, or called another one."""
    below = [each for each in map(parse, candidate.following()) if each.writer == line.writer]
    clock, time = time_of(candidate)
    for sign in (*not_joined("\n".join([line.text, *(each.text for each in below)])), *differing(line.text)):
        # It tells of any rank: who ran the analyser, and where, says nothing.
        yield replace(sign, index=candidate.index, clock=clock, time=time, stream=candidate.stream)
