"""What lines say of single ranks: where their collectives stand, how their processes ended, what they printed
last, and on which host each runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from launcher.cluster.names import HOST_NAME
from launcher.diagnosis.logs.lines import TAIL, Line, parse
from launcher.diagnosis.model import CollectiveCall, RankState, table_of
from launcher.frozen import frozen
from launcher.text.values import list_some, ranks_text

_LARGEST_WORLD = 65_536
"""A larger world is a number that was misread."""


NOT_LATELY = f"not in the last {TAIL} lines"
"""The state of a rank of which nothing is known, where only last lines were looked at for ranks."""


def add_silent_ranks(
    table: tuple[RankState, ...], world_size: int, *, whole: bool = True
) -> tuple[RankState, ...]:
    """The table with a row for each rank of the world of which nothing was read; empty stays empty.

    Such a row is bare where the `whole` logs were looked at for ranks. Else it may have printed before.
    """
    if not table or world_size > _LARGEST_WORLD:
        return table
    state = None if whole else NOT_LATELY
    known = {row.rank for row in table}
    return table_of(
        [*(RankState(rank, state=state) for rank in range(world_size) if rank not in known), *table]
    )


# The global rank of who is known only by a place: a host, and a local rank on it.
#
# torchrun marks lines with local ranks (`[default3]:`) and names its folders by them. Which global rank
# that is follows where the ranks of a host are known to be consecutive from a number on: from another rank
# of the same host, from what torchrun says of its rendezvous (torch/distributed/elastic/agent/server/api.py
# of PyTorch 1.9 to 2.13, at LOGLEVEL=INFO), from the command that started it, from the plan. Where none of
# these tells, or two of them disagree, nobody is named. Of lines of a host that nothing names those of
# several may be mixed, so there only a world that one host holds tells anything.


PLACE_LITERALS = ("global_ranks=[", "global_world_sizes=[", "--node_rank", "--node-rank")
"""Lower-case parts of lines that tell it and that no row of the signatures has."""

_MOST_PLACES = 100_000
_GLOBAL_RANKS = re.compile(r"^\s*global_ranks=\[(?P<first>\d{1,6})[\],]")
_NODE = re.compile(r"--node[_-]rank[= ](?P<value>\d{1,5})(?!\S)")
_EACH = re.compile(r"--nproc[_-]per[_-]node[= ](?P<value>\d{1,4})(?!\S)")
_DYNAMIC = re.compile(r"--rdzv[_-]backend[= ](?!static)")
"""A rendezvous that numbers the hosts itself, whatever their commands say."""


class HostRanks:
    """What the lines of one stream tell of the ranks of hosts."""

    def __init__(self) -> None:
        self.ranks_by_place: dict[tuple[str, int], set[int]] = {}
        """The global ranks of a local rank of a host."""
        self.named_hosts: set[str] = set()
        """The hosts among them by which lines are known: no other's are mixed with theirs."""

    def note_line(self, line: Line, host: str) -> None:
        """Take what torchrun, or the command that started it, says of a whole host."""
        text = line.text
        if ranks := _GLOBAL_RANKS.match(text):
            # The local ranks of a host count from 0.
            self.note_rank(int(ranks["first"]), host, 0, named=is_named(line, host))
        elif (node := _NODE.search(text)) and (each := _EACH.search(text)) and not _DYNAMIC.search(text):
            self.note_rank(int(node["value"]) * int(each["value"]), host, 0, named=is_named(line, host))

    def note_rank(self, rank: int, host: str, local: int, *, named: bool) -> None:
        """A rank is that local rank of a host; `named` is whether all lines of that name are this host's."""
        if len(self.ranks_by_place) < _MOST_PLACES:
            self.ranks_by_place.setdefault((host, local), set()).add(rank)
            if named:
                self.named_hosts.add(host)


class RankPlaces:
    """Tells global ranks by places; until it is settled by the plan alone.

    `processes_per_host` is the plan's, by which the ranks of `algo-2` follow those of `algo-1`; None where
    there is no plan.
    """

    def __init__(self, processes_per_host: int | None = None) -> None:
        self._processes_per_host = processes_per_host
        self._alone = False
        self._highest = -1
        self._hosts: set[str] = set()
        self._exact: dict[tuple[str, int], set[int]] = {}
        self._first: dict[str, set[int]] = {}

    def note_place(self, host: str, local: int) -> None:
        """A line of that local rank of a host was read."""
        self._highest = max(self._highest, local)
        if len(self._hosts) < _MOST_PLACES:
            self._hosts.add(host)

    def settle(
        self, streams: Iterable[HostRanks], processes_per_host: int | None, said: int, seen: int
    ) -> None:
        """All lines have been read: `processes_per_host` are those that the boot says, `said` is the world
        that the ranks say they are in, `seen` the largest that any other line tells of, 0 for none."""
        self._processes_per_host = self._processes_per_host or processes_per_host
        self._alone = len(self._hosts) == 1 and 0 < said == self._highest + 1 and seen <= said
        for lines in streams:
            for (host, local), ranks in lines.ranks_by_place.items():
                self._exact.setdefault((host, local), set()).update(ranks)
                if host in lines.named_hosts:
                    self._first.setdefault(host, set()).update(rank - local for rank in ranks)

    def rank_named_at(self, host: str, local: int) -> int | None:
        """The rank that lines name for this very place, where all of them agree."""
        ranks = self._exact.get((host, local), set())
        return next(iter(ranks)) if len(ranks) == 1 else None

    def rank_of(self, host: str, local: int) -> int | None:
        """The rank at a place, where all that names it agrees."""
        ranks = set(self._possible_ranks(host, local))
        return ranks.pop() if len(ranks) == 1 and min(ranks) >= 0 else None

    def with_global_rank(self, line: Line, host: str) -> Line:
        """The line with its global rank, where its place tells it; `host` is that of its stream."""
        if line.rank is not None or line.local_rank is None:
            return line
        rank = self.rank_of(line.host or host, line.local_rank)
        return line if rank is None else replace(line, rank=rank)

    def _possible_ranks(self, host: str, local: int) -> Iterator[int]:
        for first in self._first.get(host, ()):
            yield first + local
        each, number = self._processes_per_host, HOST_NAME.fullmatch(host)
        if each is not None and number is not None and local < each:
            yield (int(number[1]) - 1) * each + local
        if self._alone:
            yield local


def is_named(line: Line, host: str) -> bool:
    """Whether a host is one that a line's prefix names, or SageMaker; else it may be the name of a file."""
    return line.host is not None or HOST_NAME.fullmatch(host) is not None


# What lines tell of single ranks: where their collectives stand, how their processes ended, what came last.
#
# Texts: ProcessGroupNCCL.cpp of PyTorch 1.13 to 2.13; torchrun's table of failures
# (torch/distributed/elastic/multiprocessing/errors/__init__.py); NCCL's init.cc; srun.


RANK_LITERALS = ("last enqueued", "(local_rank: ", " nranks ", "srun: error: ", *PLACE_LITERALS)
"""Lower-case parts of such lines that no row of the signatures has."""

NUMBER_LITERALS = ("last enqueued", " nranks ")
"""Those of them that tell nothing but numbers (see `places_of_numbers`)."""

_MOST_RANKS = 100_000
COLLECTIVE_LITERALS = ("WorkNCCL(", "ast enqueued ", "watchdog at work", "Timeout at ")
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
RANK_IN_WORDS = re.compile(
    r"\[Rank (\d{1,6})\]|\bRank (\d{1,6})\] |^(?:[\w.]{1,80}: )?[Rr]ank (\d{1,6})(?::| \|) "
    r"|^\[rank: (\d{1,6})\] "
    r"|\bException in device=[A-Z]{2,10}:(\d{1,6}): "
)
"""A rank in the words of a message: of process groups before torch 2.2, of Megatron's assertions, Lightning,
and torch_xla's device, which counts over all hosts as the ranks do."""

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


@frozen
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
        self.host_ranks = HostRanks()
        self._last_outputs: dict[int, tuple[str | None, float | None, int | None]] = {}
        """Of ranks of which last lines were read: where they ran, when they printed last, and their step."""
        self._groups_unnamed = False
        self.world_size = 0
        """The ranks of the largest communicator that NCCL tells of; 0 where it prints none."""
        self.tasks = 0
        """The tasks of the step, by the largest number that srun names; 0 where it names none."""

    def note_line(self, line: Line, host: str, following: Sequence[str] = ()) -> None:
        """Take a line into account that may tell of a collective or of the end of a process."""
        text = line.text
        if entry := _ENTRY.match(text):
            named = is_named(line, host)
            self.host_ranks.note_rank(int(entry["rank"]), host, int(entry["local"]), named=named)
            self._note_exit(int(entry["rank"]), following)
        elif any(part in text for part in COLLECTIVE_LITERALS):
            self._note_collective(line, host)
        elif (size := _COMMUNICATOR.search(text)) or (size := _WORLD.match(text)):
            self.world_size = max(self.world_size, int(size["size"]))
        elif tasks := _TASKS.match(text):
            self.tasks = max(self.tasks, int(tasks["last"]) + 1)
        elif any(part in text for part in PLACE_LITERALS):
            self.host_ranks.note_line(line, host)

    def note_output(self, rank: int, host: str, time: float | None, step: int | None) -> None:
        """A rank printed something, in the order of the lines; `step` where it is one of its steps."""
        old = self._last_outputs.get(rank)
        if old is None:
            if len(self._last_outputs) < _MOST_RANKS:
                self._last_outputs[rank] = (host or None, time, step)
            return
        self._last_outputs[rank] = (
            host or old[0],
            old[1] if time is None else time,
            old[2] if step is None else step,
        )

    def is_settled(self, line: Line) -> bool:
        """Whether a line tells of a collective and others like it tell nothing more of its rank, whatever the
        number: of each rank and group counts what came first, and whether their numbers are far apart."""
        if not self._waiting or not any(part in line.text for part in COLLECTIVE_LITERALS):
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
        for rank, (host, time, step) in self._last_outputs.items():
            self._add_row(RankState(rank, host=host, last_output=time, step=step))
        self._last_outputs.clear()
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
        self.host_ranks = HostRanks()
        self._rows = {
            rank: replace(row, exit=None, enqueued=None, completed=None) for rank, row in self._rows.items()
        }

    def _note_collective(self, line: Line, host: str) -> None:
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
        self._waiting[rank, group] = row if known is None else _merge_waiting(known, row)
        if host:
            self._add_row(RankState(rank, host=host))

    def _note_exit(self, rank: int, following: Sequence[str]) -> None:
        for text in following[:2]:
            if code := _CODE.match(parse(text).text):
                self._add_row(RankState(rank, exit=exit_in_words(int(code["code"]))))
                return

    def _add_row(self, row: RankState) -> None:
        if row.rank in self._rows:
            self._rows[row.rank] = table_of([self._rows[row.rank], row])[0]
        elif len(self._rows) < _MOST_RANKS:
            self._rows[row.rank] = row


def places_of_numbers(text: str) -> tuple[tuple[int, int], ...] | None:
    """Where a line has the numbers that tell more each time: with the same there, and from the same rank, it
    tells nothing again. None where it may tell something else of ranks.

    `RankLines.note_line` is the one that reads all this: of a collective it keeps what came first.
    """
    if any(part in text for part in COLLECTIVE_LITERALS):
        found = _WORK.search(text) or _NAMED.search(text) or _AT_WORK.search(text)
        return (found.span("sequence"),) if found is not None and found["sequence"] else ()
    if size := _COMMUNICATOR.search(text):
        return (size.span("size"),)
    return None if any(part in text.lower() for part in NUMBER_LITERALS) else ()


def merge_rank_lines(
    streams: Mapping[str, RankLines],
) -> tuple[tuple[Waiting, ...], tuple[RankState, ...], int]:
    """Where the ranks of all streams stand, the table of ranks, and the size of NCCL's largest communicator.

    Of several groups of a rank the table has that of all ranks.
    """
    waiting: dict[tuple[int, str], Waiting] = {}
    rows: list[RankState] = []
    for _, lines in sorted(streams.items()):
        rows += lines.rows()
        for each in lines.waiting():
            key = (each.rank, each.group or "")
            waiting[key] = _merge_waiting(waiting[key], each) if key in waiting else each
    order = sorted(waiting.values(), key=lambda each: (each.group is None, each.group or ""))
    table = table_of([*rows, *(_state_of_waiting(each) for each in order)])
    size = max((lines.world_size for lines in streams.values()), default=0)
    return tuple(each for _, each in sorted(waiting.items())), table, size


def exit_in_words(code: int) -> str:
    """An exit status as Python's subprocess has it, such as `exit code 1`, or `SIGKILL` for -9."""
    return _SIGNALS.get(-code, f"signal {-code}") if code < 0 else f"exit code {code}"


def group_and_rank(line: Line) -> tuple[str | None, int | None]:
    """The process group that a line speaks of, None for that of all ranks, and the global rank of its writer.

    In other groups ranks are counted anew: without a prefix nobody knows which one writes.
    """
    group = _GROUP.search(line.text, 0, _BEGINNING)
    if group is None:
        alone = RANK_IN_WORDS.search(line.text, 0, _BEGINNING)
        return None, line.rank if line.rank is not None or alone is None else int(alone[alone.lastindex or 0])
    of_all = group["name"] == "default_pg" if group["name"] else group["id"] in ("0", "default_pg")
    name = None if of_all else group["name"] or f"PG {group['id']}"
    if line.rank is not None:
        return name, line.rank
    return name, int(group["rank"]) if of_all else None


def _merge_waiting(known: Waiting, newer: Waiting) -> Waiting:
    return replace(
        known,
        operation=known.operation or (newer.operation if newer.sequence in (None, known.sequence) else None),
        sequence=newer.sequence if known.sequence is None else known.sequence,
        enqueued=newer.enqueued if known.enqueued is None else known.enqueued,
        completed=newer.completed if known.completed is None else known.completed,
        elements=newer.elements if known.elements is None else known.elements,
    )


def _state_of_waiting(waiting: Waiting) -> RankState:
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


# How many steps the loop of each rank has, as scripts and bars print it: `step 380/391`, `390/390 [01:12<`,
# `len(train_loader)=391`, `train loader: 391 batches`, `epoch 0 done, 390 batches`, and which ranks have come
# to the end of theirs while others go on.


_MOST_LOOPS = 4096
_EXHAUSTED = r"(?:exhausted|stopiteration|ran out|no more (?:data|batches))"
_ENDED = rf"(?:(?<![\w-])|(?<=_))(?:done|finished|completed?|ended|ends?|{_EXHAUSTED})\b"
_COUNTED = r"(?:batches|steps|iterations)"
_ENDS = (
    re.compile(rf"(?P<what>{_ENDED})[^\n=]{{0,40}}?(?<![\d.])(?P<steps>\d{{1,9}}) {_COUNTED}\b(?!/)", re.I),
    re.compile(
        rf"(?P<what>{_ENDED})[^\n]{{0,60}}?\b(?:num_)?{_COUNTED}[\"']?[=:] ?(?P<steps>\d{{1,9}})\b",
        re.I,
    ),
    re.compile(
        rf"(?P<what>\b{_EXHAUSTED}\b)[^\d\n]{{0,40}}?\b(?:batch|step|iteration)[ =:#]{{1,3}}"
        r"(?P<steps>\d{1,9})\b",
        re.I,
    ),
)
"""That a rank came to the end of its loop, and after how many steps."""

_HAS_NO_MORE = re.compile(rf"\b{_EXHAUSTED}\b", re.I)
_UNCOUNTED = -1
"""Steps of a loop of which only the end was told."""

_LENGTHS = (
    re.compile(
        r"(?P<what>\b(?:it|iter|iteration|step|batch)s?\b\W{0,3})\d{1,9} ?/ ?(?P<steps>\d{1,9})(?![\d/.])",
        re.I,
    ),
    re.compile(r"(?P<what>\| ?)\d{1,9}/(?P<steps>\d{1,9}) \["),
    re.compile(r"(?P<what>\blen\(\w{0,40}(?:loader|dl)\w{0,20}\)) ?[=:]{1,2} ?(?P<steps>\d{1,9})\b", re.I),
    re.compile(
        r"(?P<what>\b(?:num_batches|steps_per_epoch|(?:batches|steps|iterations) (?:per|in|of) "
        r"(?:(?:an|each|the|this|my) )?(?:epoch|shard|loop)|\d{1,12} samples?(?:,? (?:and|in|are|make))?)\b)"
        r"\W{1,3}(?P<steps>\d{1,9})\b(?! ?samples)",
        re.I,
    ),
    re.compile(
        r"(?P<what>\b\w{0,20}(?:loader|dataset|shards?|epoch)\b[^\d\n]{0,20})(?P<steps>\d{1,9}) "
        r"(?:batches|steps|iterations)\b",
        re.I,
    ),
    # A loop, an epoch or its data that came to its end, and then the number by its name or behind it.
    re.compile(
        r"(?P<what>(?<![a-z])(?:stream|epoch|data|loader|dataloader|dataset|iterator|loop|shards?)"
        r"[ _-]?\d{0,6} ?(?:is |has |was )?(?:end|ended|ends|done|over|finished|completed?"
        r"|exhausted)(?![a-z]))"
        r".{0,60}?\b(?:\w{0,10}_)?(?:batches|steps|iterations)['\"]? ?[=:]? ?(?P<steps>\d{1,9})\b",
        re.I,
    ),
    re.compile(
        r"(?P<what>(?:\bran out of (?:data|batches|samples)|\bexhausted|\bno more (?:data|batches)"
        r"|\bStopIteration|\bend of (?:the )?(?:epoch|data|loader|stream))(?: \d{1,6})?\b.{0,20}?"
        r"\b(?:at|after|with) (?:(?:step|batch|iteration) )?)(?P<steps>\d{1,9})\b",
        re.I,
    ),
    re.compile(
        r"(?P<what>\b(?:number of|num|my|local) (?:train(?:ing)? )?(?:batches|steps)(?: per epoch)?)\W{1,3}"
        r"(?P<steps>\d{1,9})\b",
        re.I,
    ),
)
_STEP = re.compile(
    r"(?<![\w/])(?:global[_ ])?(?:step|iter(?:ation)?|batch(?:e(?=s))?)s?"
    r"(?: (?:so far|seen|done|number)){0,2}"
    r"[\"']?[ =:#]{1,3}(?P<step>\d{1,9})\b",
    re.I,
)
_NUMBERS = re.compile(r"\d+")
_BAR = re.compile(r"\s{0,4}\d{1,3}%\|[^|\n]{0,400}(?=\|)")
_OWN_RANK = re.compile(r"^\W{0,3}(?:(?:INFO|DEBUG)\W{1,3})?rank[\"']?[ =:]{1,3}(?P<rank>\d{1,6})\b", re.I)
"""A rank that a line begins with and that is no prefix, as in an object of JSON."""


@frozen
class UnevenLoops:
    """That ranks have different numbers of steps in one loop: the counts in words, and who has the fewest."""

    counts: str
    fewest: tuple[int, ...]


class LoopLengths:
    """The numbers of steps that ranks print of their loops, in the last lines of all streams."""

    def __init__(self) -> None:
        self._loops: dict[str, dict[int, int]] = {}
        self._ended: dict[int, int] = {}
        self._steps: dict[int, int] = {}

    def note_line(self, rank: int | None, text: str) -> None:
        """Take a line of a rank into account; the last one of a loop counts."""
        if rank is None and (own := _OWN_RANK.match(text)) is not None:
            rank = int(own["rank"])
        if rank is None or len(self._steps) > _MOST_LOOPS:
            return
        ended = next(filter(None, (pattern.search(text) for pattern in _ENDS)), None)
        if ended is not None:
            self._ended[rank] = int(ended["steps"])
            self._note_loop(rank, text[: ended.start("what")], ended)
            return
        if _HAS_NO_MORE.search(text):
            self._ended[rank] = _UNCOUNTED
            return
        if (step := _STEP.search(text)) is not None:
            self._steps[rank] = int(step["step"])
            self._ended.pop(rank, None)
        for pattern in _LENGTHS:
            match = pattern.search(text)
            if match is not None:
                self._note_loop(rank, text[: match.end("what")], match)
                return

    def _note_loop(self, rank: int, before: str, told: re.Match[str]) -> None:
        # Loops of one kind are told alike, but for numbers: others' are evaluations, or copies.
        loop = _NUMBERS.sub("0", _BAR.sub("", before))
        if loop in self._loops or len(self._loops) < _MOST_LOOPS:
            self._loops.setdefault(loop, {})[rank] = int(told["steps"])

    def uneven(self) -> UnevenLoops | None:
        """The loop of most ranks in which they have different numbers of steps, or of which some are at its
        end while others are as far; None where there is none."""
        found = [ranks for ranks in self._loops.values() if len(set(ranks.values())) > 1]
        if not found:
            return self._ended_before_others()
        ranks = max(found, key=len)
        by_steps: dict[int, list[int]] = {}
        for rank, steps in sorted(ranks.items()):
            by_steps.setdefault(steps, []).append(rank)
        told = [
            f"{ranks_text(who)} {'has' if len(who) == 1 else 'have'} {steps}"
            for steps, who in sorted(by_steps.items(), reverse=True)
        ]
        return UnevenLoops(", ".join(told[:6]), tuple(by_steps[min(by_steps)]))

    def _ended_before_others(self) -> UnevenLoops | None:
        """Ranks that have ended their loop after as many steps as others have made that are still in it."""
        inside = {rank: step for rank, step in self._steps.items() if rank not in self._ended}
        if not inside or not self._ended:
            return None
        furthest = max(inside, key=lambda rank: (inside[rank], -rank))
        ended = {rank: steps for rank, steps in self._ended.items() if steps and steps <= inside[furthest]}
        if len(ended) != len(self._ended):
            return None
        who = sorted(ended)
        verb = "has" if len(who) == 1 else "have"
        after = list_some(sorted({str(each) for each in ended.values() if each != _UNCOUNTED}), 4)
        after = f" after {after}" if after else ""
        counts = f"{ranks_text(who)} {verb} ended{after}, rank {furthest} is at step {inside[furthest]}"
        return UnevenLoops(counts, tuple(who))
