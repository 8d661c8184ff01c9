"""One sign of a failure mode in a log: what, who, when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.diagnosis.rank_lines import group_and_rank
from launcher.diagnosis.record import Line
from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.diagnosis.signatures.table import FRAGMENTS
from launcher.failure_modes.model import FailureMode, Retry
from launcher.text.line_origin import printed_time

_SMALLER = r"(?:the )?(?:micro[- ]?)?batch[ _]size"
_LEFT_OUT = r"(?:this |the )?(?:batch|step|sample|error)"
_DEALT_WITH = {
    "retrying": "",
    "will ": r"(?:be )?retr(?:y|ied)",
    "retry ": r"\d+ ?(?:/|of) ?\d+",
    "trying ": r"(?:again|batch size)",
    "falling back to": "",
    "going on without": "",
    "continuing without": "",
    "attempting to recover": "",
    "ignoring ": _LEFT_OUT,
    "skipping ": _LEFT_OUT,
    "halving ": _SMALLER,
    "reducing ": _SMALLER,
    "decreasing ": _SMALLER,
}
"""What a program writes beside an error that it has dealt with, and what follows it. Such a line is not a
root cause."""

GOES_ON = re.compile(
    rf"\b(?:{'|'.join(word + rest for word, rest in _DEALT_WITH.items())})\b"
    # A loss scale that can fall no further deals with nothing.
    rf"(?!{FRAGMENTS['SMALLEST_SCALE']}|{FRAGMENTS['VANISHING_SCALE']})",
    re.I,
)


def is_dealt_with(text: str) -> bool:
    """Whether a program has dealt with what it writes in this line."""
    lower = text.lower()
    return any(word in lower for word in _DEALT_WITH) and GOES_ON.search(text) is not None


@dataclass(frozen=True, slots=True)
class Sighting:
    """A failure mode seen in the lines of one host.

    `what` is the message without who; `rank` and `host` are None where no line tells; `index` counts the
    host's lines from 0; `clock` is the kind of the clock that `time` was read from; `text` is the line
    without its prefixes, `details` the lines beside it; `place` is `file:line` in the user's code; `remedy`
    and `retry` replace those of the failure mode. `stream` is the name of the stream it stands in. `fatal`
    is an exception that nobody caught, with which its process ends; `plumbing` one that was raised where
    ranks and processes speak with one another, rather than in what they work on. `about` replaces the
    subject, empty for nobody. `local_rank` is that of who printed it, on `host`.
    """

    mode: FailureMode
    role: LineRole
    vague: bool
    what: str
    rank: int | None
    host: str | None
    index: int
    clock: str | None
    time: float | None
    text: str
    details: tuple[str, ...] = ()
    place: str | None = None
    captured: Mapping[str, str] = field(default_factory=dict)
    remedy: str | None = None
    retry: Retry | None = None
    stream: str = ""
    fatal: bool = False
    plumbing: bool = False
    about: str | None = None
    local_rank: int | None = None

    @property
    def code(self) -> str:
        """The code of the failure mode."""
        return self.mode.code

    @property
    def subject(self) -> str | None:
        """Who it is about, for a finding: the rank, else the GPU, else the host."""
        if self.about is not None:
            return self.about or None
        if self.rank is not None:
            return f"rank {self.rank}"
        for name, word in (("gpu", "GPU"), ("local_rank", "local rank"), ("device", "local device")):
            if name in self.captured:
                return f"{word} {self.captured[name]}"
        return self.host if self.local_rank is None else f"local rank {self.local_rank}"


def who_of(captured: Mapping[str, str], line: Line, host: str) -> tuple[str | None, int | None, int | None]:
    """Whom a line is about that a row matches: the host, the rank and the local rank, each None where nobody
    tells; `host` is that of the stream."""
    # The rank that a line names in its words is a global one under `rank`; that of a process group counts in
    # the group of all ranks, where the line has no prefix with the global one (torch before 2.2).
    rank = int(captured["rank"]) if "rank" in captured else group_and_rank(line)[1]
    # A host that the line names need not be the one whose local rank prints it.
    local_rank = None if "host" in captured else line.local_rank
    return captured.get("host") or line.host or host or None, rank, local_rank


def sighting_of(
    row: Signature,
    captured: Mapping[str, str],
    line: Line,
    raw: str,
    *,
    host: str,
    index: int,
    time: float | None,
    stream: str = "",
) -> Sighting:
    """What a row that matches a line says, with the line's own rank and host before those of the stream."""
    of_host, rank, local_rank = who_of(captured, line, host)
    clock, moment = ("stream", time) if time is not None else (printed_time(raw) or (None, None))
    if line.device is not None:
        captured = {**captured, "device": str(line.device)}
    return Sighting(
        mode=row.mode,
        role=LineRole.ADVISORY if row.role.may_be_root and is_dealt_with(line.text) else row.role,
        vague=row.vague,
        what=_words(row, captured, line.text),
        rank=rank,
        host=of_host,
        index=index,
        clock=clock,
        time=moment,
        text=line.text,
        captured=captured,
        remedy=filled(row.remedy, captured) if row.remedy is not None else None,
        retry=row.retry,
        stream=stream,
        local_rank=local_rank,
    )


def _words(row: Signature, captured: Mapping[str, str], text: str) -> str:
    if row.says is not None and (said := filled(row.says, captured)) is not None:
        return said
    return row.mode.title if row.says is None and row.vague else text.strip()


def filled(template: str, captured: Mapping[str, str]) -> str | None:
    """The template with what was captured, None where a group that it names is empty."""
    try:
        return template.format_map(captured)
    except KeyError:
        return None
