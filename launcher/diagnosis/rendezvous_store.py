"""The way to the store, and the barrier there in which ranks wait for one another before their process group
is made.

Text: torch/distributed/distributed_c10d.py of PyTorch 1.8 to 2.13, which prints it every ten seconds. With
fewer workers than ranks it is ordinary, unless nothing comes after it. More never become fewer, and until
PyTorch 2.1 the barrier waited for their number to be equal. torch/csrc/distributed/c10d/socket.cpp of 1.11 to
2.13 warns of each address that it cannot reach, and tries again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from launcher.diagnosis.candidates import unworded
from launcher.diagnosis.last_lines import LastLine
from launcher.diagnosis.record import Line
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import nccl
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds
from launcher.text.rank_ranges import ranks_text

BARRIER = "waiting in store based barrier to initialize process group"
"""A lower-case part of its line."""

_WAITS = re.compile(
    r"Waiting in store based barrier to initialize process group for rank: (?P<rank>\d{1,6}), "
    r"key: \S{1,200} \(world_size=(?P<ranks>\d{1,6}), "
    r"(?:worker_count|num_workers_joined)=(?P<workers>\d{1,7})\b"
)

_UNREACHED = re.compile(
    r"\[c10d\] The client socket has failed to connect to (?P<address>\S{1,300}) "
    r"\(errno: (?P<error>110 - Connection timed out|113 - No route to host)\)"
)
"""A store that is not up yet refuses at once (111); who gets no answer for minutes has no way to it."""


@finds(Stage.LOG, nccl.RENDEZVOUS_TIMED_OUT)
def signs_of_unreached(tails: Iterable[tuple[Candidate, Line]]) -> Iterator[Sighting]:
    """The stores without a way to them, of which streams speak in their very last line; `tails` are the last
    lines of all streams, those of one stream in their order."""
    last = {candidate.stream: (candidate, line) for candidate, line in tails if line.text.strip()}
    for candidate, line in last.values():
        if unreached := _UNREACHED.search(line.text):
            what = f"could not reach the store at {unreached['address']}: {unreached['error']}"
            yield unworded(nccl.RENDEZVOUS_TIMED_OUT, LineRole.SYMPTOM, what, candidate, line, vague=True)


@finds(Stage.LOG, nccl.RENDEZVOUS_TIMED_OUT)
def sign_of_barrier(candidate: Candidate, line: Line) -> Sighting | None:
    """That more processes came to the barrier than there are ranks; None for a line that shows no such."""
    waits = _WAITS.search(line.text)
    if waits is None or int(waits["workers"]) <= int(waits["ranks"]):
        return None
    what = (
        f"{waits['workers']} processes came to the store, where {waits['ranks']} ranks wait for one another: "
        "ranks were started again, or another job uses the same store"
    )
    return unworded(nccl.RENDEZVOUS_TIMED_OUT, LineRole.SYMPTOM, what, candidate, line, vague=False)


def waiting_at_end(streams: Iterable[Sequence[LastLine]]) -> str | None:
    """Who did not come to the barrier at which the others wait with their last lines, in words; None where
    nobody waits there, or all have come.

    A rank is named only where the lines of all others are there.
    """
    waits: dict[int, re.Match[str]] = {}
    for lines in streams:
        of_stream: dict[int, re.Match[str]] = {}
        for each in lines:
            if waiting := _WAITS.search(each.text):
                of_stream[int(waiting["rank"])] = waiting
            elif each.line.rank is None:
                of_stream.clear()  # Anybody may have gone on.
            else:
                of_stream.pop(each.line.rank, None)
        waits |= of_stream
    size = max((int(each["ranks"]) for each in waits.values()), default=0)
    came = max((int(each["workers"]) for each in waits.values()), default=0)
    if came >= size:
        return None
    missing = sorted({*range(size)} - waits.keys())
    who = f"; {ranks_text(missing)} did not come" if len(missing) == size - came else ""
    return f"{came} of {size} ranks wait at the store for their process group to be made{who}"
