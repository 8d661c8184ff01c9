"""torchrun's table of failures: the entry that it saw first.

Text: torch/distributed/elastic/multiprocessing/errors/__init__.py of PyTorch 1.10 to 2.13.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from launcher.diagnosis.candidates import time_of, unworded
from launcher.diagnosis.record import Line, parse
from launcher.diagnosis.scan import Candidate
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import hardware, interruption, training_script
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds

TITLE = "root cause (first observed failure)"
"""What stands above that entry, in small letters."""

_FIELD = re.compile(
    r"^\s*(?P<name>time|rank|host|exitcode)\s*:\s*(?P<value>\S+)(?: \(local_rank: (?P<local>\d+)\))?"
)

_STOPS = ("-1", "-2", "-15", "129", "130", "143")
_KILLED = (
    hardware.HOST_OUT_OF_MEMORY,
    LineRole.INITIATOR,
    "killed (SIGKILL): the usual reason is the host's memory",
)
_ABORTED = (
    training_script.NATIVE_CRASH,
    # It often follows from what went wrong before, as torch's watchdog aborts after a time-out.
    LineRole.CASCADE,
    "was ended by SIGABRT: it aborted",
)
_ENDS = {"-9": _KILLED, "137": _KILLED, "-6": _ABORTED, "134": _ABORTED}
"""What exit codes of the table say by themselves, a process's own or a shell's around it; those of other
signals have lines of their own."""


@finds(Stage.LOG, hardware.HOST_OUT_OF_MEMORY, training_script.SCRIPT_RAISED, training_script.NATIVE_CRASH)
def first_failure(candidate: Candidate, line: Line) -> Sighting | None:
    """What the entry below the title says; None where it is cut off."""
    fields: dict[str, str] = {}
    for text in candidate.following():
        if match := _FIELD.match(parse(text).text):
            fields.setdefault(match["name"], match["value"])
            if match["local"]:
                fields.setdefault("local_rank", match["local"])
    code = fields.get("exitcode", "")
    if not re.fullmatch(r"-?\d{1,4}", code) or not fields.get("rank", "").isdecimal():
        return None
    if code in _STOPS:
        return unworded(
            interruption.STOPPED,
            LineRole.CASCADE,
            f"its processes ended with exit code {code}, as by a signal to end",
            candidate,
            line,
            vague=False,
        )
    mode, role, what = _ENDS.get(code) or (
        training_script.SCRIPT_RAISED,
        LineRole.CASCADE,
        f"ended with exit code {code}; its own error is not in the log",
    )
    clock, time = time_of(candidate)
    return Sighting(
        mode=mode,
        role=role,
        vague=True,
        what=what,
        rank=int(fields["rank"]),
        # torchrun asks the machine for its name, which may be one that no line else has.
        host=line.host or candidate.host or _host(fields) or None,
        index=candidate.index,
        clock=clock,
        time=time,
        text=f"{line.text} rank {fields['rank']}, exitcode {code}",
        captured=fields,
        stream=candidate.stream,
    )


def _host(fields: Mapping[str, str]) -> str:
    """The host that an entry names, empty where that is any machine's name for itself."""
    host = fields.get("host", "")
    return "" if host.split(".")[0] == "localhost" else host
