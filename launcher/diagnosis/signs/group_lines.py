"""What lines tell of the ranks together: how many there are, who claims which, who met at the store, who
failed first.

No line alone shows that nobody met anybody, or that two processes claim one rank; the store's barrier,
torchrun's table of failures and torch's analyser of flight recorders say it in so many words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from launcher.diagnosis.logs.lines import Line, parse, shown
from launcher.diagnosis.match.prefilter import Candidate
from launcher.diagnosis.signatures import LineRole
from launcher.diagnosis.signs.readings import LastLine
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting, sighting_without_row, time_of
from launcher.failure_modes import distribution, hardware, interruption, nccl, training_script
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.text.values import list_some, ranks_text

# How large the ranks say that their world is, against how many of them were started.
#
# Where several ranks of one job each train in a world of one, nobody met anybody, and nothing of that is a
# failure: no line alone shows it. Texts: the boot's first line (slipway/boot.py), Lightning's `Initializing
# distributed: GLOBAL_RANK: 0, MEMBER: 1/4`, accelerate's `Distributed environment: DistributedType.NO`, the
# `distributed training: False` of transformers' examples, the warning of TrainingArguments that a group is
# there and is not used, and what scripts print.


_NO_PROCESS = r"(?!(?:step|epoch|iter|batch|round|phase|stage|line|level)\b)"
_LABEL = re.compile(
    rf"\s*(?:\[{_NO_PROCESS}(?P<bracketed>[A-Za-z][\w .-]{{0,40}}?[\d.-]{{0,20}}\d)\]:?"
    rf"|\({_NO_PROCESS}(?P<in_parentheses>(?=[^\s)]{{0,60}}[\d-])[A-Za-z][\w.-]{{0,60}})\)"
    rf"|{_NO_PROCESS}(?P<named>\d{{1,5}}|(?=\S{{0,60}}[\d-])[A-Za-z][\w.-]{{0,60}}(?<!\.py)):(?: \|)?"
    r"|(?P<barred>[A-Za-z][\w.-]{0,60}) ?\||(?P<algo>algo-\d{1,4}))\s"
)
"""What whoever gathers the lines of many processes puts before each and no known prefix is: `[node 0] `,
`n1: `, `host-b | `, the tasks of `srun --label`."""

_OF_A_JOB = re.compile(r"(?:trial|job|run|exp|experiment|fold|sweep|seed|study)(?![a-z])", re.I)
"""How labels begin that tell trainings that were meant to be apart."""

_NUMBERED = re.compile(r"\d+|(?<=[-_.])[a-z]$")


def label_of(line: Line) -> str:
    """The name before a line that tells which process or host wrote it: its host, or such a label; empty
    where there is none. A process of Ray's may be a trial of its own."""
    if line.host is not None:
        return "" if isinstance(line.writer, str) and "/" in line.writer else line.host
    if line.local_rank is not None:
        return f"local rank {line.local_rank}"
    label = _LABEL.match(line.text)
    return next(filter(None, label.groups()), "") if label else ""


def kind_of_label(label: str) -> str:
    """A label with its number left out, which those of one gatherer share."""
    return _NUMBERED.sub("0", label)


WORLD_LITERALS = (
    ", host 1 of ",
    "world size",
    "world_size",
    "member: ",
    "rank 0 of ",
    "distributed environment: ",
    "distributed training: ",
    "parallel_mode != parallelmode.distributed",
    ".size() ",
    ".size()=",
    ".size(): ",
    "get_world_size() ",
    "get_world_size()=",
    "get_world_size(): ",
)
"""Lower-case parts of the lines that say something about it, as in the rows of the signatures."""

_MOST_SPEAKERS = 10_000
_STARTED = re.compile(
    r"^slipway: \S{1,100}, host 1 of (?P<hosts>\d{1,6}): .{1,300}? by \w{1,40}, (?P<each>\d{1,6}) per host"
)
_SIZE = re.compile(r"(?<![\w\"'.-])world[ _]size ?(?:is|=|:)? ?(?P<size>\d{1,6})\b(?!\.\d)", re.I)
_RANK_OF = re.compile(r"\brank 0 of (?P<size>\d{1,6})\b(?!\.\d)", re.I)
_OF_LIBRARY = re.compile(
    r"\b(?:hvd|horovod|bps|dist|smp|smddp|sdp|mpi|comm|distributed)\.(?:size|get_world_size|Get_size)\(\)"
    r" ?[=:]{0,2} ?(?P<size>\d{1,6})\b(?!\.\d)"
)
"""What scripts print of the calls that ask a library: Horovod's, BytePS', torch's, SageMaker's, mpi4py's."""

_OF_ENVIRONMENT = re.compile(r"(?<![\w\"'.-])WORLD_SIZE ?[=:] ?\d")
"""The variable tells how many processes were started, not how many of them met."""

_OWN_RANK = re.compile(r"\brank ?[=:]? ?\d{1,6},?(?: and| of)?$", re.I)
_ALONE = re.compile(
    r"\bdistributed environment: (?:DistributedType\.)?NO\b|\bdistributed training: False\b"
    r"|\binitialized, but parallel_mode != ParallelMode\.DISTRIBUTED\b",
    re.I,
)
_TOGETHER = re.compile(
    r"\bdistributed environment: (?:DistributedType\.)?(?!NO\b)\w|\bdistributed training: True\b", re.I
)


@frozen
class _Speaker:
    """The first line in which somebody said that the world is one rank."""

    rank: int | None
    host: str
    index: int
    time: float | None
    text: str
    label: str


class WorldSizes:
    """What the lines of a job say of its world, in one pass."""

    def __init__(self) -> None:
        self._started = 0
        self.processes_per_host: int | None = None
        """Those that the boot says it starts on each host."""
        self._met = False
        self.size = 0
        """The largest world size that a line said, 0 where none did."""
        self._alone: dict[tuple[int | None, str, str], _Speaker] = {}

    def note_line(self, line: Line, host: str, index: int, time: float | None) -> None:
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
        if size is not None and size > 1 and _OF_ENVIRONMENT.search(text):
            self._started = max(self._started, size)
        elif size is not None and size > 1:
            self._met = True
        elif size == 1 and len(self._alone) < _MOST_SPEAKERS:
            label = label_of(line)
            host = line.host or host
            # A global rank is one process, whatever stream its lines came in.
            key = (line.rank, "", "") if line.rank is not None else (None, host, label)
            self._alone.setdefault(key, _Speaker(line.rank, host, index, time, text, label))

    def sign_of_no_meeting(self) -> Sighting | None:
        """That several of the ranks are each alone, if that is what they say and none says otherwise."""
        ranks = sorted(speaker.rank for speaker in self._alone.values() if speaker.rank is not None)
        hosts = sorted({speaker.host for speaker in self._alone.values()})
        labels = self._labels_beside_others()
        # Two hosts that are alone may be two jobs, unless the boot says that they are one.
        several = len(ranks) > 1 or len(labels) > 1 or (self._started > 1 and len(hosts) > 1)
        if self._met or not several:
            return None
        if len(ranks) > 1:
            who = _speakers_in_words("rank", map(str, ranks))
        elif len(labels) > 1:
            who = _speakers_in_words("process", labels).replace("processs", "the processes")
        else:
            who = _speakers_in_words("host", hosts)
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

    def _labels_beside_others(self) -> list[str]:
        """The labels of those who are alone, the most of one kind: whoever gathered their lines had started
        them together."""
        kinds: dict[str, set[str]] = {}
        for speaker in self._alone.values():
            if speaker.label and not _OF_A_JOB.match(speaker.label):
                kinds.setdefault(kind_of_label(speaker.label), set()).add(speaker.label)
        return max((sorted(labels) for labels in kinds.values()), key=len, default=[])


def _size(text: str) -> int | None:
    """The number of ranks that a line says there are, 2 for several of them; None where it says nothing."""
    if match := ANNOUNCED.search(text) or _RANK_OF.search(text) or _OF_LIBRARY.search(text):
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
    return before != "" and (before[-1] in ":;]|>-" or _OWN_RANK.search(before[-40:]) is not None)


def _speakers_in_words(what: str, names: Iterable[str], most: int = 8) -> str:
    return f"{what}s {list_some(list(names), most)}"


# Ranks that more than one process claims, as where the rank on the host was given as the rank of the job.
#
# Of a job of two hosts the ranks of the second half never come then, and one of those that should be they
# waits for itself. Texts: Lightning's `initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/8`; NCCL's
# init.cc, which tells the identity of a communicator since 2.17; gloo's keys at the store, of which each
# rank waits for those of all others (gloo/rendezvous/context.cc, and torch's DistStoreError).


CLAIM_LITERALS = (
    *("member: ", " commid 0x", "//cpu//", "world_size", "world size", "/ world ", "rank 0 world "),
    *("rank 0 of ", "rank=0 of ", "rank 0/", "rank=0/", "rank 0 / "),
)
"""Lower-case parts of the lines that tell who claims a rank, or waits for one."""

_OWN_WORDS = re.compile(
    r"(?<![\w.])(?:global[_ ])?rank[ =:]{0,3}(?P<rank>\d{1,6})(?!\d)\)?(?: ?/ ?|,? of |[^\n\d]{0,40}?"
    r"(?:\blocal[_ ]?(?:rank)?[ =:]{1,3}\d{1,6}[^\n\d]{0,20}?)?\bworld(?:[_ ]size)?[ =:]{1,3}"
    r"|,(?: for)? key: store_based_barrier_key:\d{1,4} \(world_size=)(?P<size>\d{1,6})\b",
    re.I,
)
"""How scripts, and torch's barrier at the store, tell the rank that they take and of how many: `rank=0 of 8`,
`rank 0/8`, `(rank 0): env://, world_size=8`, `rank 0 local_rank 0 world 16`."""

ANNOUNCED = re.compile(r"\bGLOBAL_RANK: (?P<rank>\d{1,6}), MEMBER: \d{1,6}/(?P<size>\d{1,6})\b")
"""How Lightning prints a rank, and of how many ranks."""

_IN_COMMUNICATOR = re.compile(
    r"\bcomm 0x[\da-f]{1,16} rank (?P<rank>\d{1,6}) nranks (?P<size>\d{1,6})"
    r"(?: (?:cudaDev|nvmlDev|busId) [\da-f]{1,16}){0,3} commId (?P<id>0x[\da-f]{1,16}) - "
    r"Init (?P<at>START|COMPLETE)"
)
"""Not of communicators that were split from another one: until 2.20 those print an identity that is none.
What is complete has each rank once, whatever else is said of it."""

WAITS_FOR = re.compile(
    r"\bwait timeout after \d{1,9} ?ms, keys: /?default_pg/\d{1,6}//cpu//\d{1,6}/(?P<rank>\d{1,6})\b"
)
"""In the group of all ranks: in another one a rank has another number."""

_MOST_CLAIMS = 100_000


@frozen
class _World:
    """A set of ranks that each belongs to one process: those of a communicator, or of the job."""

    name: str
    size: int


@dataclass(slots=True)
class _RankClaims:
    """Who claimed a rank, by stream and host, how often; and the line in which the first one did."""

    by: Counter[tuple[str, str]]
    first: Sighting


class ClaimedRanks:
    """Who says which rank is his, in one pass over the lines of all streams."""

    def __init__(self) -> None:
        self._claims: dict[_World, dict[int, _RankClaims]] = {}
        self._complete: set[str] = set()
        self._count = 0
        self._told: dict[tuple[str, str, int], dict[int, set[str]]] = {}
        """By stream, kind of label and size of the world: who says in his own words that he takes a rank."""

    def note_line(self, candidate: Candidate, line: Line) -> Sighting | None:
        """Take a line into account; the sign of a rank that waits for itself."""
        if waits := WAITS_FOR.search(line.text):
            return _waits_for_itself(int(waits["rank"]), candidate, line)
        if claim := _IN_COMMUNICATOR.search(line.text):
            if claim["at"] == "START":
                self._note(_World(claim["id"], int(claim["size"])), int(claim["rank"]), candidate, line)
            elif len(self._complete) < _MOST_CLAIMS:
                self._complete.add(claim["id"])
        elif claim := ANNOUNCED.search(line.text):
            self._note(_World("", int(claim["size"])), int(claim["rank"]), candidate, line)
        elif (claim := _OWN_WORDS.search(line.text)) and (label := label_of(line) or candidate.host):
            rank, size = int(claim["rank"]), int(claim["size"])
            stream = "" if label == candidate.host else candidate.stream
            if rank < size and line.rank in (None, rank) and len(self._told) < _MOST_CLAIMS:
                ranks = self._told.setdefault((stream, kind_of_label(label), size), {})
                ranks.setdefault(rank, set()).add(label)
        return None

    @property
    def told_twice(self) -> str | None:
        """The ranks that several hosts say are theirs, in words; None where each has one of its own, or all
        ranks of the world are told."""
        for (_, _, size), ranks in self._told.items():
            twice = sorted(rank for rank, labels in ranks.items() if len(labels) > 1)
            if twice and len(ranks) < size:
                who = list_some(sorted(set.union(*(ranks[rank] for rank in twice))), 4)
                verb = "is" if len(twice) == 1 else "are each"
                return f"{ranks_text(twice)} of {size} {verb} taken by more than one host or process: {who}"
        return None

    def forget_stream(self, stream: str) -> None:
        """What a stream claimed is of an earlier start, after which ranks may be others'."""
        self._told = {key: ranks for key, ranks in self._told.items() if key[0] not in ("", stream)}
        for ranks in self._claims.values():
            for rank, claims in list(ranks.items()):
                claims.by = Counter({key: times for key, times in claims.by.items() if key[0] != stream})
                if not claims.by:
                    del ranks[rank]

    @finds(Stage.LOG, distribution.LOCAL_RANK_AS_RANK)
    def sign_of_double_claim(self) -> Sighting | None:
        """That several hosts claim the same ranks, None where no line shows it.

        Where no line tells a host, each rank of a part of the world is claimed as often as there are parts.
        Where all ranks of a world are announced, each host may have one of its own.
        """
        for world, ranks in self._claims.items():
            if world.name in self._complete or (not world.name and len(ranks) >= world.size):
                continue
            on_hosts = {rank: {host for _, host in claims.by if host} for rank, claims in ranks.items()}
            twice = sorted(rank for rank, hosts in on_hosts.items() if len(hosts) > 1)
            if twice:
                hosts = list_some(sorted(set.union(*(on_hosts[rank] for rank in twice))), 4)
                what = f"{ranks_text(twice)} of {world.size} are each claimed by more than one host: {hosts}"
                return replace(ranks[twice[0]].first, what=what, role=LineRole.INITIATOR, vague=False)
            if times := _times_each(world, ranks):
                who = ranks_text(list(ranks))
                what = f"{who} of {world.size} are each claimed {times} times, and no other is"
                return replace(ranks[0].first, what=what)
        return None

    def _note(self, world: _World, rank: int, candidate: Candidate, line: Line) -> None:
        by = candidate.stream, line.host or candidate.host
        claims = self._claims.setdefault(world, {}).get(rank)
        if claims is not None:
            claims.by[by] += 1
        elif self._count < _MOST_CLAIMS:
            self._count += 1
            mode = distribution.LOCAL_RANK_AS_RANK
            first = sighting_without_row(mode, LineRole.SYMPTOM, "", candidate, line, vague=True)
            self._claims[world][rank] = _RankClaims(Counter([by]), replace(first, rank=None, host=None))


def _times_each(world: _World, ranks: Mapping[int, _RankClaims]) -> int | None:
    """How often each rank of the first part of a world was announced, where all the others never were."""
    times = {claims.by.total() for claims in ranks.values()}
    if world.name or len(times) != 1 or sorted(ranks) != list(range(len(ranks))):
        return None
    each = times.pop()
    return each if each > 1 and each * len(ranks) == world.size else None


@finds(Stage.LOG, distribution.LOCAL_RANK_AS_RANK)
def _waits_for_itself(rank: int, candidate: Candidate, line: Line) -> Sighting | None:
    if line.rank != rank:
        return None
    what = f"waited in vain for rank {rank}, which it is itself: it joined under another rank"
    mode = distribution.LOCAL_RANK_AS_RANK
    return sighting_without_row(mode, LineRole.INITIATOR, what, candidate, line, vague=False)


# The way to the store, and the barrier there in which ranks wait for one another before their process group
# is made.
#
# Text: torch/distributed/distributed_c10d.py of PyTorch 1.8 to 2.13, which prints it every ten seconds.
# With fewer workers than ranks it is ordinary, unless nothing comes after it. More never become fewer, and
# until PyTorch 2.1 the barrier waited for their number to be equal. torch/csrc/distributed/c10d/socket.cpp
# of 1.11 to 2.13 warns of each address that it cannot reach, and tries again.


BARRIER_LITERAL = "waiting in store based barrier to initialize process group"
"""A lower-case part of its line."""

_WAITS_AT_BARRIER = re.compile(
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
            yield sighting_without_row(
                nccl.RENDEZVOUS_TIMED_OUT, LineRole.SYMPTOM, what, candidate, line, vague=True
            )


@finds(Stage.LOG, nccl.RENDEZVOUS_TIMED_OUT)
def sign_of_barrier(candidate: Candidate, line: Line) -> Sighting | None:
    """That more processes came to the barrier than there are ranks; None for a line that shows no such."""
    waits = _WAITS_AT_BARRIER.search(line.text)
    if waits is None or int(waits["workers"]) <= int(waits["ranks"]):
        return None
    what = (
        f"{waits['workers']} processes came to the store, where {waits['ranks']} ranks wait for one another: "
        "ranks were started again, or another job uses the same store"
    )
    return sighting_without_row(
        nccl.RENDEZVOUS_TIMED_OUT, LineRole.SYMPTOM, what, candidate, line, vague=False
    )


def waiting_at_end(streams: Iterable[Sequence[LastLine]]) -> str | None:
    """Who did not come to the barrier at which the others wait with their last lines, in words; None where
    nobody waits there, or all have come.

    A rank is named only where the lines of all others are there.
    """
    waits: dict[int, re.Match[str]] = {}
    for lines in streams:
        of_stream: dict[int, re.Match[str]] = {}
        for each in lines:
            if waiting := _WAITS_AT_BARRIER.search(each.text):
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


# torchrun's table of failures: the entry that it saw first.
#
# Text: torch/distributed/elastic/multiprocessing/errors/__init__.py of PyTorch 1.10 to 2.13.


TABLE_TITLE = "root cause (first observed failure)"
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
        return sighting_without_row(
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
        host=line.host or candidate.host or _host_of_entry(fields) or None,
        index=candidate.index,
        clock=clock,
        time=time,
        text=f"{line.text} rank {fields['rank']}, exitcode {code}",
        captured=fields,
        stream=candidate.stream,
    )


def _host_of_entry(fields: Mapping[str, str]) -> str:
    """The host that an entry names, empty where that is any machine's name for itself."""
    host = fields.get("host", "")
    return "" if host.split(".")[0] == "localhost" else host


# What PyTorch's own analyser of flight recorders prints (`torchfrtrace`, `python -m
# tools.flight_recorder`).
#
# Texts: tools/flight_recorder of PyTorch 2.5 to 2.7 and torch/distributed/flight_recorder of 2.8 to 2.13:
# for each collective that does not match a record of `name: value` lines, with the ranks that did not join
# it, or a culprit and what differs.
#
# A file that holds nothing else is evidence by itself (`evidence/dumps.py`). People run the analyser
# where the job ran, and torchcomms prints its words while ranks still wait. Dumps themselves are not looked
# for in logs: no public one was found to have any, as pickle or as JSON.


ANALYSIS_LITERALS = ("not all ranks joining collective", "culprit rank ")
"""Lower-case parts of the lines in which it says what does not match."""

_LONGEST_ANALYSIS_LINE = 4000
_MOST_RECORDS = 1000
ANALYSIS_BEGINS = re.compile(
    r"^(?:Not all ranks joining collective|Collective)[,:]?(?: sequence number:)? (?P<number>\d{1,18})\b"
)
_ANALYSIS_FIELD = re.compile(
    r"^(?P<name>group info|collective|missing ranks|input sizes|world size|error msg): (?P<value>.{0,3000})$"
)
_RANKS = re.compile(r"^\{(?P<ranks>\d{1,7}(?:, \d{1,7}){0,2000})\}$")
_CULPRIT = re.compile(
    r"Culprit rank (?P<rank>\d{1,7}); (?:Error type: )?(?P<what>(?:COLLECTIVE_TYPE|SIZE_OR_SYNTAX"
    r"|COLLECTIVE_DTYPE)_MISMATCH)(?:, (?P<details>[^,]{1,300}))?"
)


@dataclass(slots=True)
class Unmatched:
    """A collective that does not match: its number in its group, and the fields of its record."""

    number: int
    fields: dict[str, str] = field(default_factory=dict)


def mismatches(text: str) -> list[Unmatched]:
    """The collectives of which a text tells, in its order."""
    found: list[Unmatched] = []
    for raw in text.splitlines():
        line = raw[:_LONGEST_ANALYSIS_LINE].rstrip()
        if (begun := ANALYSIS_BEGINS.match(line)) is not None:
            if len(found) == _MOST_RECORDS:
                break
            found.append(Unmatched(int(begun["number"])))
        elif found and (told := _ANALYSIS_FIELD.match(line)) is not None:
            found[-1].fields.setdefault(told["name"], told["value"].strip())
    return found


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT)
def signs_of_mismatch(mismatch: Unmatched) -> Iterator[Sighting]:
    """Which ranks did not join it, or called another one than the others."""
    if "missing ranks" in mismatch.fields:
        yield from _signs_of_missing(mismatch)
    else:
        yield from _differing(mismatch.fields.get("error msg", ""), _called_in_words(mismatch))


def _called_in_words(mismatch: Unmatched) -> str:
    return f"{mismatch.fields.get('collective', 'collective')} #{mismatch.number}"


def _signs_of_missing(mismatch: Unmatched) -> Iterator[Sighting]:
    missing = _RANKS.match(mismatch.fields.get("missing ranks", ""))
    if missing is not None:
        ranks = [int(rank) for rank in missing["ranks"].split(", ")]
        alone = ranks[0] if len(ranks) == 1 else None
        verb = "has not joined" if alone is not None else f"{ranks_text(ranks)} have not joined"
        yield _sign(f"{verb} {_called_in_words(mismatch)}, in which the others wait", alone)


def _differing(error: str, called: str = "a collective") -> Iterator[Sighting]:
    """Who called something else than the others, by the analyser's message."""
    for culprit in _CULPRIT.finditer(error):
        details = f": {culprit['details']}" if culprit["details"] else ""
        kind = culprit["what"].replace("_", " ").lower()
        yield _sign(f"differs from the others in {called} ({kind}{details})", int(culprit["rank"]))


def _sign(what: str, rank: int | None) -> Sighting:
    return Sighting(
        mode=nccl.COLLECTIVE_TIMED_OUT,
        role=LineRole.SYMPTOM,
        vague=False,
        what=what,
        rank=rank,
        host=None,
        index=BEFORE_ALL_LINES,
        clock=None,
        time=None,
        text=f"torch's analyser: {what}",
        captured={"analysed": "by torch"},
    )


def signs_of_analysis(candidate: Candidate, line: Line) -> Iterator[Sighting]:
    """Which ranks did not join the collective that this line begins to tell of, or called another one."""
    below = [each for each in map(parse, candidate.following()) if each.writer == line.writer]
    clock, time = time_of(candidate)
    not_joined = mismatches("\n".join([line.text, *(each.text for each in below)]))[:1]
    for sign in (*(sign for each in not_joined for sign in _signs_of_missing(each)), *_differing(line.text)):
        # It tells of any rank: who ran the analyser, and where, says nothing.
        yield replace(sign, index=candidate.index, clock=clock, time=time, stream=candidate.stream)
