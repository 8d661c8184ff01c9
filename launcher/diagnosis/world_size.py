"""How large the ranks say that their world is, against how many of them were started.

Where several ranks of one job each train in a world of one, nobody met anybody, and nothing of that is a
failure: no line alone shows it. Texts: the boot's first line (slipway/boot.py), Lightning's
`Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4`, accelerate's `Distributed environment:
DistributedType.NO`, the `distributed training: False` of transformers' examples, and what scripts print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from launcher.diagnosis.claimed_ranks import ANNOUNCED
from launcher.diagnosis.record import Line
from launcher.diagnosis.redaction import shown
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.failure_modes import distribution

LITERALS = (
    ", host 1 of ",
    "world size",
    "world_size",
    "member: ",
    "rank 0 of ",
    "distributed environment: ",
    "distributed training: ",
)
"""Lower-case parts of the lines that say something about it, as in the rows of the signatures."""

_MOST_SPEAKERS = 10_000
_STARTED = re.compile(
    r"^slipway: \S{1,100}, host 1 of (?P<hosts>\d{1,6}): .{1,300}? by \w{1,40}, (?P<each>\d{1,6}) per host"
)
_SIZE = re.compile(r"(?<![\w\"'.-])world[ _]size ?(?:is|=|:)? ?(?P<size>\d{1,6})\b(?!\.\d)", re.I)
_RANK_OF = re.compile(r"\brank 0 of (?P<size>\d{1,6})\b(?!\.\d)", re.I)
_OWN_RANK = re.compile(r"\brank ?[=:]? ?\d{1,6},?(?: and| of)?$", re.I)
_ALONE = re.compile(
    r"\bdistributed environment: (?:DistributedType\.)?NO\b|\bdistributed training: False\b", re.I
)
_TOGETHER = re.compile(
    r"\bdistributed environment: (?:DistributedType\.)?(?!NO\b)\w|\bdistributed training: True\b", re.I
)


@dataclass(frozen=True, slots=True)
class _Speaker:
    """The first line in which somebody said that the world is one rank."""

    rank: int | None
    host: str
    index: int
    time: float | None
    text: str


class WorldSizes:
    """What the lines of a job say of its world, in one pass."""

    def __init__(self) -> None:
        self._started = 0
        self.processes_per_host: int | None = None
        """Those that the boot says it starts on each host."""
        self._met = False
        self.size = 0
        """The largest world that a line tells of, 0 where none does."""
        self._alone: dict[tuple[int | None, str], _Speaker] = {}

    def read(self, line: Line, host: str, index: int, time: float | None) -> None:
        """Take a line into account; `host` is that of its stream."""
        text = line.text
        if started := _STARTED.match(text):
            self.processes_per_host = int(started["each"])
            self._started = max(self._started, int(started["hosts"]) * int(started["each"]))
            self.size = max(self.size, self._started)
            return
        size = _size(text)
        if size is not None and not _TOGETHER.search(text):
            self.size = max(self.size, size)
        if size is not None and size > 1:
            self._met = True
        elif size == 1 and len(self._alone) < _MOST_SPEAKERS:
            host = line.host or host
            # A global rank is one process, whatever stream its lines came in.
            key = (line.rank, "" if line.rank is not None else host)
            self._alone.setdefault(key, _Speaker(line.rank, host, index, time, text))

    def never_met(self) -> Sighting | None:
        """That several of the ranks are each alone, if that is what they say and none says otherwise."""
        ranks = sorted(speaker.rank for speaker in self._alone.values() if speaker.rank is not None)
        hosts = sorted({speaker.host for speaker in self._alone.values()})
        # Two hosts that are alone may be two jobs, unless the boot says that they are one.
        several = len(ranks) > 1 or (self._started > 1 and len(hosts) > 1)
        if self._met or not several:
            return None
        who = _named("rank", map(str, ranks)) if len(ranks) > 1 else _named("host", hosts)
        first = min(
            self._alone.values(), key=lambda speaker: (speaker.index, speaker.host, speaker.rank or 0)
        )
        of = f" of the {self._started} that were started" if self._started > 1 else ""
        return Sighting(
            mode=distribution.RANKS_NEVER_MET,
            role=LineRole.SYMPTOM,
            vague=True,
            what=f"{who}{of} each say that they are alone: independent trainings, not one",
            rank=None,
            host=None,
            index=first.index,
            clock=None if first.time is None else "stream",
            time=first.time,
            text=shown(first.text),
        )


def _size(text: str) -> int | None:
    """The number of ranks that a line says there are, 2 for several of them; None where it says nothing."""
    if match := ANNOUNCED.search(text) or _RANK_OF.search(text):
        return int(match["size"])
    if (match := _SIZE.search(text)) and _is_a_statement(text[: match.start()]):
        return int(match["size"])
    if _ALONE.search(text):
        return 1
    return 2 if _TOGETHER.search(text) else None


def _is_a_statement(before: str) -> bool:
    """Whether what stands before `world size N` makes it the world of all ranks.

    A tensor parallel world is another one, and printed arguments or configurations say what was asked for.
    """
    if "(" in before or "{" in before:
        return False
    if not before:
        return True
    before = before.strip()
    return before != "" and (before[-1] in ":]|>-" or _OWN_RANK.search(before[-40:]) is not None)


def _named(what: str, names: Iterable[str], most: int = 8) -> str:
    each = list(names)
    more = f" and {len(each) - most} more" if len(each) > most else ""
    return f"{what}s {', '.join(each[:most])}{more}"
