"""torchrun's table of failures: the entry that it saw first.

Text: torch/distributed/elastic/multiprocessing/errors/__init__.py of PyTorch 1.10 to 2.13.
"""

from __future__ import annotations

import re

from launcher.diagnosis.candidates import time_of, unworded
from launcher.diagnosis.record import Line, parse
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import hardware, job_runtime
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds

TITLE = "root cause (first observed failure)"
"""What stands above that entry, in small letters."""

_FIELD = re.compile(
    r"^\s*(?P<name>rank|host|exitcode)\s*:\s*(?P<value>\S+)(?: \(local_rank: (?P<local>\d+)\))?"
)


@finds(Stage.LOG, hardware.HOST_OUT_OF_MEMORY, job_runtime.SCRIPT_RAISED)
def first_failure(candidate: Candidate, line: Line) -> Sighting | None:
    """What the entry below the title says; None where it is cut off."""
    fields: dict[str, str] = {}
    for text in candidate.following:
        if match := _FIELD.match(parse(text).text):
            fields.setdefault(match["name"], match["value"])
            if match["local"]:
                fields.setdefault("local_rank", match["local"])
    code = fields.get("exitcode", "")
    if not re.fullmatch(r"-?\d{1,4}", code) or not fields.get("rank", "").isdecimal():
        return None
    if code == "-15":
        return unworded(
            job_runtime.STOPPED,
            LineRole.CASCADE,
            "its processes got the signal SIGTERM",
            candidate,
            line,
            vague=False,
        )
    killed = code == "-9"
    clock, time = time_of(candidate)
    return Sighting(
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
        stream=candidate.stream,
    )
