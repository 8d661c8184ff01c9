"""One sign of a failure mode in a log: what, who, when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.diagnosis.progress import SMALLEST_SCALE, VANISHING_SCALE
from launcher.diagnosis.rank_lines import group_and_rank
from launcher.diagnosis.record import Line
from launcher.diagnosis.signatures.signature import LineRole, Signature
from launcher.failure_modes.model import FailureMode, Retry
from launcher.text.line_origin import printed_time

GOES_ON = re.compile(
    r"\b(?:retrying|will (?:be )?retr(?:y|ied)|retry \d+ ?(?:/|of) ?\d+|trying (?:again|batch size)|"
    r"falling back to|(?:going on|continuing) without|attempting to recover|"
    r"(?:ignoring|skipping) (?:this |the )?(?:batch|step|sample|error)|"
    r"(?:halving|reducing|decreasing) (?:the )?(?:micro[- ]?)?batch[ _]size)\b"
    rf"(?!{SMALLEST_SCALE}|{VANISHING_SCALE})",
    re.I,
)
"""What a program writes beside an error that it has dealt with: such a line is not a root cause. A loss scale
that can fall no further deals with nothing."""


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
    # The rank that a line names in its words is a global one under `rank`; that of a process group counts in
    # the group of all ranks, where the line has no prefix with the global one (torch before 2.2).
    rank = int(captured["rank"]) if "rank" in captured else group_and_rank(line)[1]
    clock, moment = ("stream", time) if time is not None else (printed_time(raw) or (None, None))
    if line.device is not None:
        captured = {**captured, "device": str(line.device)}
    return Sighting(
        mode=row.mode,
        role=LineRole.ADVISORY if row.role.may_be_root and GOES_ON.search(line.text) else row.role,
        vague=row.vague,
        what=_words(row, captured, line.text),
        rank=rank,
        host=captured.get("host") or line.host or host or None,
        index=index,
        clock=clock,
        time=moment,
        text=line.text,
        captured=captured,
        remedy=filled(row.remedy, captured) if row.remedy is not None else None,
        retry=row.retry,
        stream=stream,
        # A host that the line names need not be the one whose local rank prints it.
        local_rank=None if "host" in captured else line.local_rank,
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
