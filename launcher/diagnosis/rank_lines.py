"""What lines tell of single ranks: where their collectives stand, how their processes ended, what came last.

Texts: ProcessGroupNCCL.cpp of PyTorch 1.13 to 2.13; torchrun's table of failures
(torch/distributed/elastic/multiprocessing/errors/__init__.py); NCCL's init.cc; srun.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.diagnosis import places
from launcher.diagnosis.places import HostRanks, is_named
from launcher.diagnosis.ranks import CollectiveCall, RankState, table_of
from launcher.diagnosis.record import Line, parse

LITERALS = ("last enqueued", "(local_rank: ", " nranks ", "srun: error: ", *places.LITERALS)
"""Lower-case parts of such lines that no row of the signatures has."""

OF_NUMBERS = ("last enqueued", " nranks ")
"""Those of them that tell nothing but numbers (see `places_of_numbers`)."""

_MOST_RANKS = 100_000
OF_COLLECTIVES = ("WorkNCCL(", "ast enqueued ", "watchdog at work", "Timeout at ")
"""Parts of the lines that tell where a rank stands in its collectives."""

_WORK = re.compile(
    r"WorkNCCL\((?:SeqNum=(?P<sequence>\d{1,18}), )?OpType=(?P<operation>\w{1,80})"
    r"(?:, \w{1,40}=[^,()]{0,80}){0,4}?(?:, NumelIn=(?P<elements>\d{1,18}))?"
)
_AT_WORK = re.compile(r"(?:watchdog at work(?: sequence id)?|Timeout at NCCL work): (?P<sequence>\d{1,18})")
_NAMED = re.compile(r"Timeout at collective: (?P<operation>\w{1,80}), #(?P<sequence>\d{1,18})")
_LAST = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d{1,18}), "
    r"last completed (?:NCCL )?work: (?P<completed>-?\d{1,18})"
)
_GROUP = re.compile(
    r"\[PG (?:ID )?(?P<id>\w{1,40})(?: PG GUID \w{1,40}(?:\((?P<name>[^()]{1,80})\))?)? "
    r"Rank (?P<rank>\d{1,6})\]"
)
_ALONE = re.compile(r"\[Rank (?P<rank>\d{1,6})\]|\bRank (?P<bare>\d{1,6})\] ")
_BEGINNING = 200
_MOST_PENDING = 100
"""Collectives of one process group that may have timed out together; those further apart are of several."""

_ENTRY = re.compile(r"^\s*rank\s*:\s*(?P<rank>\d{1,6}) \(local_rank: (?P<local>\d{1,6})\)")
_CODE = re.compile(r"^\s*exitcode\s*:\s*(?P<code>-?\d{1,4})\b")
_SIGNALS: Mapping[int, str] = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}
_TASKS = re.compile(r"^srun: error: \S{1,100}: tasks? (?:[\d,-]{1,4000}[,-])?(?P<last>\d{1,7}): ")
"""srun lists the tasks of a host in rising order."""
_COMMUNICATOR = re.compile(r"\bcomm 0x[\da-f]{1,16} rank \d{1,6} nranks (?P<size>\d{1,6})\b")
_WORLD = re.compile(r"^\s*global_world_sizes=\[(?P<size>\d{1,6})[\],]")


@dataclass(frozen=True, slots=True)
class Waiting:
    """Where a rank stands in the collectives of a process group, as its watchdog says it.

    `sequence` is the one that it waits in, `enqueued` the last that it called and `completed` the last that
    ended; `group` is the name of the process group, None for that of all ranks.
    """

    rank: int
    group: str | None
    operation: str | None = None
    sequence: int | None = None
    enqueued: int | None = None
    completed: int | None = None
    elements: int | None = None

    @property
    def position(self) -> int | None:
        """How far the rank came, to be compared within the group."""
        told = [each for each in (self.sequence, self.enqueued) if each is not None]
        return min(told, default=None)


class RankLines:
    """Gathers what the lines of one stream tell of ranks."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, str | None], Waiting] = {}
        self._rows: dict[int, RankState] = {}
        self.of_hosts = HostRanks()
        self._seen: dict[int, tuple[str | None, float | None, int | None]] = {}
        """Of ranks of which last lines were read: where they ran, when they printed last, and their step."""
        self._groups_unnamed = False
        self.world_size = 0
        """The ranks of the largest communicator that NCCL tells of; 0 where it tells of none."""
        self.tasks = 0
        """The tasks of the step, by the largest number that srun names; 0 where it names none."""

    def read(self, line: Line, host: str, following: Sequence[str] = ()) -> None:
        """Take a line into account that may tell of a collective or of the end of a process."""
        text = line.text
        if entry := _ENTRY.match(text):
            named = is_named(line, host)
            self.of_hosts.placed(int(entry["rank"]), host, int(entry["local"]), named=named)
            self._ended(int(entry["rank"]), following)
        elif any(part in text for part in OF_COLLECTIVES):
            self._at_collective(line, host)
        elif (size := _COMMUNICATOR.search(text)) or (size := _WORLD.match(text)):
            self.world_size = max(self.world_size, int(size["size"]))
        elif tasks := _TASKS.match(text):
            self.tasks = max(self.tasks, int(tasks["last"]) + 1)
        elif any(part in text for part in places.LITERALS):
            self.of_hosts.read(line, host)

    def seen(self, rank: int, host: str, time: float | None, step: int | None) -> None:
        """A rank printed something, in the order of the lines; `step` where it is one of its steps."""
        old = self._seen.get(rank)
        if old is None:
            if len(self._seen) < _MOST_RANKS:
                self._seen[rank] = (host or None, time, step)
            return
        self._seen[rank] = (
            host or old[0],
            old[1] if time is None else time,
            old[2] if step is None else step,
        )

    def is_settled(self, line: Line) -> bool:
        """Whether a line tells of a collective and others like it tell nothing more of its rank, whatever the
        number: of each rank and group counts what came first, and whether their numbers are far apart."""
        if not self._waiting or not any(part in line.text for part in OF_COLLECTIVES):
            return False
        group, rank = group_and_rank(line)
        known = None if rank is None else self._waiting.get((rank, group))
        if known is None or known.sequence is None:
            return False
        work = _WORK.search(line.text)
        if work is not None and known.operation is None:
            return False
        if work is not None and known.elements is None and work["elements"] is not None:
            return False
        return self._groups_unnamed or _GROUP.search(line.text) is not None

    def rows(self) -> tuple[RankState, ...]:
        """What is known of each rank but for its collectives."""
        for rank, (host, time, step) in self._seen.items():
            self._put(RankState(rank, host=host, last_output=time, step=step))
        self._seen.clear()
        return tuple(self._rows.values())

    def waiting(self) -> tuple[Waiting, ...]:
        """Where the ranks stand, one row for each rank and group.

        Before torch 2.2 no line names its group: where a rank tells of places far apart, those are of several
        groups, in which nobody knows who counts as what.
        """
        rows = self._waiting.values()
        return tuple(row for row in rows if row.group is not None or not self._groups_unnamed)

    def forget(self) -> None:
        """The ranks were started again."""
        self._waiting.clear()
        self._groups_unnamed = False
        self.of_hosts = HostRanks()
        self._rows = {
            rank: replace(row, exit=None, enqueued=None, completed=None) for rank, row in self._rows.items()
        }

    def _at_collective(self, line: Line, host: str) -> None:
        text = line.text
        found = _WORK.search(text) or _NAMED.search(text) or _AT_WORK.search(text)
        last = _LAST.search(text)
        if found is None and last is None:
            return
        group, rank = group_and_rank(line)
        if rank is None:
            return
        named = found.groupdict() if found else {}
        row = Waiting(
            rank,
            group,
            operation=named.get("operation"),
            sequence=_number(named.get("sequence")),
            elements=_number(named.get("elements")),
            enqueued=_number(last["enqueued"]) if last else None,
            completed=_number(last["completed"]) if last else None,
        )
        known = self._waiting.get((rank, group))
        if known is None and len(self._waiting) >= _MOST_RANKS:
            return
        if known is not None and None not in (known.sequence, row.sequence) and _GROUP.search(text) is None:
            self._groups_unnamed |= abs((row.sequence or 0) - (known.sequence or 0)) > _MOST_PENDING
        # A rank waits in the first collective that it names; later ones fail because of it.
        self._waiting[rank, group] = row if known is None else _merged(known, row)
        if host:
            self._put(RankState(rank, host=host))

    def _ended(self, rank: int, following: Sequence[str]) -> None:
        for text in following[:2]:
            if code := _CODE.match(parse(text).text):
                self._put(RankState(rank, exit=ending_in_words(int(code["code"]))))
                return

    def _put(self, row: RankState) -> None:
        if row.rank in self._rows:
            self._rows[row.rank] = table_of([self._rows[row.rank], row])[0]
        elif len(self._rows) < _MOST_RANKS:
            self._rows[row.rank] = row


def places_of_numbers(text: str) -> tuple[tuple[int, int], ...] | None:
    """Where a line has the numbers that tell more each time: with the same there, and from the same rank, it
    tells nothing again. None where it may tell something else of ranks.

    `RankLines.read` is the one that reads all this: of a collective it keeps what came first.
    """
    if any(part in text for part in OF_COLLECTIVES):
        found = _WORK.search(text) or _NAMED.search(text) or _AT_WORK.search(text)
        return (found.span("sequence"),) if found is not None and found["sequence"] else ()
    if size := _COMMUNICATOR.search(text):
        return (size.span("size"),)
    return None if any(part in text.lower() for part in OF_NUMBERS) else ()


def told(streams: Mapping[str, RankLines]) -> tuple[tuple[Waiting, ...], tuple[RankState, ...], int]:
    """Where the ranks of all streams stand, the table of ranks, and how many of them NCCL tells of.

    Of several groups of a rank the table has that of all ranks.
    """
    waiting: dict[tuple[int, str], Waiting] = {}
    rows: list[RankState] = []
    for _, lines in sorted(streams.items()):
        rows += lines.rows()
        for each in lines.waiting():
            key = (each.rank, each.group or "")
            waiting[key] = _merged(waiting[key], each) if key in waiting else each
    order = sorted(waiting.values(), key=lambda each: (each.group is None, each.group or ""))
    table = table_of([*rows, *(_row(each) for each in order)])
    size = max((lines.world_size for lines in streams.values()), default=0)
    return tuple(each for _, each in sorted(waiting.items())), table, size


def ending_in_words(code: int) -> str:
    """An exit status as Python's subprocess has it, such as `exit code 1`, or `SIGKILL` for -9."""
    return _SIGNALS.get(-code, f"signal {-code}") if code < 0 else f"exit code {code}"


def group_and_rank(line: Line) -> tuple[str | None, int | None]:
    """The process group that a line speaks of, None for that of all ranks, and the global rank of its writer.

    In other groups ranks are counted anew: without a prefix nobody knows which one writes.
    """
    group = _GROUP.search(line.text, 0, _BEGINNING)
    if group is None:
        alone = _ALONE.search(line.text, 0, _BEGINNING)
        return None, line.rank if line.rank is not None or alone is None else int(alone[1] or alone[2])
    of_all = group["name"] == "default_pg" if group["name"] else group["id"] in ("0", "default_pg")
    name = None if of_all else group["name"] or f"PG {group['id']}"
    if line.rank is not None:
        return name, line.rank
    return name, int(group["rank"]) if of_all else None


def _merged(known: Waiting, newer: Waiting) -> Waiting:
    return replace(
        known,
        operation=known.operation or (newer.operation if newer.sequence in (None, known.sequence) else None),
        sequence=newer.sequence if known.sequence is None else known.sequence,
        enqueued=newer.enqueued if known.enqueued is None else known.enqueued,
        completed=newer.completed if known.completed is None else known.completed,
        elements=newer.elements if known.elements is None else known.elements,
    )


def _row(waiting: Waiting) -> RankState:
    last = waiting.enqueued if waiting.enqueued is not None else waiting.sequence
    name = waiting.operation if last == waiting.sequence and waiting.operation else "collective"
    enqueued = (
        None
        if last is None
        else CollectiveCall(name, last, waiting.group, waiting.elements if name != "collective" else None)
    )
    completed = (
        None if waiting.completed is None else CollectiveCall("collective", waiting.completed, waiting.group)
    )
    return RankState(waiting.rank, enqueued=enqueued, completed=completed)


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
