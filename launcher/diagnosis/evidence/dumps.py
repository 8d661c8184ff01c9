"""What dumps and reports say of single ranks: the collectives of PyTorch's flight recorder and its
analyser, NCCL's own report, and who stands elsewhere than the others by their stacks.

`FileEvidence` is what any piece of evidence says. Files may be made to do harm: a pickle is read without
running anything of it, and what is not as PyTorch writes it is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

from launcher.diagnosis.logs.tracebacks import CodeFrame, RankStack, users_frame
from launcher.diagnosis.model import CollectiveCall, RankState
from launcher.diagnosis.signatures import LineRole
from launcher.diagnosis.signs.group_lines import ANALYSIS_BEGINS, Unmatched, mismatches, signs_of_mismatch
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting
from launcher.failure_modes import nccl
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.text.values import ranks_text


@frozen
class FileEvidence:
    """What was read of one file, or of all files of a job put together.

    `rows` are what is known of ranks, `sightings` what points at a failure, `world_size` how many ranks the
    job has; None is what nothing tells. `recordings` and `stacks` are what can only be judged beside those of
    the other ranks (see `collect.combine_evidence`). `of_hosts` is what a host's own records say, of any
    day (see `host_records.demote_untimely`). `unread` says what could not be read, and why; `has_lines` that
    the file is to be read as a log as well.
    """

    rows: tuple[RankState, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    world_size: int | None = None
    recordings: tuple[Recording, ...] = ()
    stacks: tuple[RankStack, ...] = ()
    of_hosts: tuple[Sighting, ...] = ()
    unread: tuple[str, ...] = ()
    has_lines: bool = False


# Which ranks stand elsewhere than the others, by their stacks.


@frozen
class Elsewhere:
    """The ranks that stand elsewhere than most, which are `usual`; each with where. `saving` where these save
    and the others do not."""

    odd: tuple[RankStack, ...]
    usual: tuple[RankStack, ...]
    saving: bool = False


def find_elsewhere(stacks: Iterable[RankStack]) -> Elsewhere | None:
    """Who stands elsewhere than the ranks that wait for others; None where that singles out nobody.

    Only where more ranks wait than do not: who does not is awaited. Where all wait, those that save while
    as many or more do not, else the few that wait at another line than most.
    """
    every = sorted({each.rank: each for each in stacks}.values(), key=lambda each: each.rank)
    inside = [each for each in every if each.waits]
    outside = [each for each in every if not each.waits]
    if inside and outside:
        return Elsewhere(tuple(outside), tuple(inside)) if len(inside) > len(outside) else None
    if outside:
        return None
    saving = [each for each in inside if is_saving(each.frames)]
    if saving and 2 * len(saving) <= len(inside):
        return Elsewhere(tuple(saving), tuple(each for each in inside if each not in saving), saving=True)
    places: dict[CodeFrame | None, list[RankStack]] = {}
    for each in inside:
        places.setdefault(each.users, []).append(each)
    usual = max(places.values(), key=len, default=[])
    odd = [each for each in inside if each not in usual]
    if not odd or len(odd) >= len(usual):
        return None
    return Elsewhere(tuple(odd), tuple(usual))


# PyTorch's flight recorder: what one rank's dump says of its collectives.
#
# Both forms that PyTorch writes, pickle and JSON, of NCCL and of gloo, in the versions 1.x to 2.10 of torch
# 2.2 to 2.13 (torch/csrc/distributed/c10d/FlightRecorder.hpp and its older places). What is not as PyTorch
# writes it is refused, for whoever wrote the file may want to do harm.


_MOST_RANKS = 1 << 20
_LONGEST_NAME = 80
_DIMENSIONS = 8

_MOST_WORK = 3_000_000
"""Entries, frames and ranks of groups: of 20,000 collectives with 100 frames each there are 2 million."""

_PEERS = re.compile(r"(?:send|recv) (?P<own>\d{1,6})(?:->|<-)(?P<peer>\d{1,6})")
_RANK = re.compile(r"\d{1,7}")
_SYNCHRONISING = ("all_", "_all_", "all", "reduce_scatter", "_reduce_scatter", "barrier")


@frozen
class RecordedOperation:
    """A collective, send or receive that a rank has called.

    `group` is its process group's name, with ` (p2p)` behind it for sends and receives, which are counted
    apart; `number` counts them from 1. `sizes` are the tensors' that go in, `peer` is the other rank of the
    group of a send or receive, `frame` the user's line that called it. `waits` says that it has not ended,
    `completed` that it has and the recorder of a GPU saw it.
    """

    group: str
    number: int
    name: str
    sizes: str
    dtypes: str
    waits: bool
    completed: bool
    peer: int | None = None
    frame: CodeFrame | None = None
    saving: bool = False
    elements: int | None = None

    @property
    def needs_all(self) -> bool:
        """Whether it ends on no rank before all ranks of its group have entered it."""
        return self.peer is None and self.name.startswith(_SYNCHRONISING)


@frozen
class Recording:
    """What one rank's recorder knew: its collectives in their order, and the global ranks of the groups.

    `last` is the number of the newest that it has called in each group, `ended` of the newest that ended on
    its GPU. `has_all` says that sends and receives would be among them: gloo's recorder leaves them out.
    """

    rank: int
    host: str | None
    operations: tuple[RecordedOperation, ...]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    last: Mapping[str, int] = field(default_factory=dict)
    ended: Mapping[str, int] = field(default_factory=dict)
    has_all: bool = True

    @property
    def waiting(self) -> tuple[RecordedOperation, ...]:
        """The oldest operation of each group that has not ended."""
        oldest: dict[str, RecordedOperation] = {}
        for each in self.operations:
            if each.waits and (each.group not in oldest or each.number < oldest[each.group].number):
                oldest[each.group] = each
        return tuple(oldest.values())


def is_recording(head: bytes) -> bool:
    """Whether a file that begins with these bytes may be a flight recorder's dump."""
    if head[:1] == b"\x80":
        return b"pg_config" in head or b"entries" in head or b"nccl_version" in head
    return head.lstrip()[:1] == b"{" and (b'"pg_config"' in head or b'"collective_seq_id"' in head)


def read_recording(content: bytes, rank: int, host: str | None = None) -> Recording:
    """The recording of a rank.

    Raises ValueError for what is none.
    """
    if len(content) > LARGEST:
        raise ValueError(f"a dump of {len(content)} bytes, more than the {LARGEST} that are read")
    try:
        dump = read_plain_pickle(content) if content[:1] == b"\x80" else json.loads(content)
    except RecursionError:
        raise ValueError("not a flight recorder's dump: nested too deep") from None
    entries = dump.get("entries", []) if isinstance(dump, dict) else None
    if not isinstance(entries, list) or not (entries or "pg_config" in dump):
        raise ValueError("not a flight recorder's dump: it has no entries")
    try:
        return _recording(dump, entries, rank, host)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        raise ValueError(f"a flight recorder's entry cannot be read: {error!r:.200}") from None


def _recording(
    dump: Mapping[str, Any], entries: Sequence[Mapping[str, Any]], rank: int, host: str | None
) -> Recording:
    operations, places, work = [], {}, _Work()
    for entry in entries:
        operation = _operation(entry, work)
        operations.append(operation)
        if "pg_id" in entry:
            places[operation.group.removesuffix(" (p2p)")] = _text(entry["pg_id"])
    last: dict[str, int] = {}
    ended: dict[str, int] = {}
    for each in operations:
        last[each.group] = max(each.number, last.get(each.group, 0))
        if each.completed:
            ended[each.group] = max(each.number, ended.get(each.group, 0))
    status = dump.get("pg_status") or {}
    called = {each.group for each in operations}
    for name, place in places.items():
        known = status.get(place) or {}
        if f"{name} (p2p)" in called:
            continue  # It counts both, one in the other.
        done = int(known.get("last_completed_collective", 0))
        if _is_of_library(entries, "nccl:") and done > 0:
            ended[name] = max(done, ended.get(name, 0))
    return Recording(
        rank,
        host,
        tuple(operations),
        dict(_groups(dump, work)),
        last,
        ended,
        not _is_of_library(entries, "gloo:"),
    )


def _is_of_library(entries: Sequence[Mapping[str, Any]], library: str) -> bool:
    return any(_text(entry["profiling_name"]).startswith(library) for entry in entries[:1])


class _Work:
    """What is looked at of a dump in all: what is named often is there once, and looked at each time."""

    def __init__(self) -> None:
        self._left = _MOST_WORK

    def spend(self, count: int) -> None:
        """Count so many values, or characters. Raises ValueError where that is too much."""
        self._left -= count
        if self._left < 0:
            raise _too_many()


def _text(value: Any, longest: int = _LONGEST_NAME) -> str:
    """A text, or a number as one. Raises TypeError for containers: one that holds another twice, and so on,
    is small and has a text without end."""
    if value is not None and not isinstance(value, (str, int, float)):
        raise TypeError(f"a {type(value).__name__} in the place of a text")
    return str(value)[:longest]


def _groups(dump: Mapping[str, Any], work: _Work) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The global ranks of the groups that have more than one, as far as the recorder knows them."""
    for config in (dump.get("pg_config") or {}).values():
        ranks = config.get("ranks", "")
        work.spend(1 + len(ranks))
        if not isinstance(ranks, str):
            ranks = ",".join(str(int(each)) for each in ranks)
        found = sorted({int(each) for each in _RANK.findall(ranks)})
        if found and found[-1] < _MOST_RANKS:
            yield _text(config.get("name", "")), tuple(found)


def _operation(entry: Mapping[str, Any], work: _Work) -> RecordedOperation:
    work.spend(1 + len(entry.get("frames") or ()))
    name = _text(entry["profiling_name"])
    name = name.partition(":")[2] or name
    peers = _PEERS.search(name)
    p2p = bool(entry.get("is_p2p", peers is not None))
    # Older recorders (torch 2.1 and 2.2) have a number in the group's place, and count all alike.
    group = entry["process_group"] if "process_group" in entry else entry["pg_id"]
    group = _text(group[0] if isinstance(group, (tuple, list)) else group)
    counted = "p2p_seq_id" if p2p and "p2p_seq_id" in entry else "collective_seq_id"
    number = int(entry[counted] if counted in entry else entry["seq_id"])
    shapes = _shapes(entry.get("input_sizes"))
    frames = [_frame(each) for each in entry.get("frames") or ()]
    state = entry.get("state")
    return RecordedOperation(
        group=f"{group} (p2p)" if p2p else group,
        number=number,
        name=name,
        sizes=" ".join(f"[{','.join(map(str, shape))}]" for shape in shapes),
        dtypes=" ".join(_text(each, 20) for each in (entry.get("input_dtypes") or ())[:_DIMENSIONS]),
        waits=not entry.get("retired", False) and state != "completed",
        completed=state == "completed",
        peer=int(peers["peer"]) if peers else None,
        frame=users_frame(frames),
        saving=is_saving(frames),
        elements=_elements(shapes),
    )


def _frame(value: Mapping[str, Any]) -> CodeFrame:
    return CodeFrame(_text(value["filename"], 500), int(value["line"]), _text(value["name"], 200))


def _shapes(value: Any) -> list[list[int]]:
    if not isinstance(value, (list, tuple)):
        return []
    shapes = [each for each in value[:_DIMENSIONS] if isinstance(each, (list, tuple))]
    return [[each for each in shape[:_DIMENSIONS] if isinstance(each, int)] for shape in shapes]


def _elements(shapes: Sequence[Sequence[int]]) -> int | None:
    if not shapes:
        return None
    total = 0
    for shape in shapes:
        product = 1
        for length in shape:
            product *= length
        total += product
    return total if 0 <= total < 1 << 63 else None


# Read a pickle of plain values that may have been made to do harm.
#
# A pickle is a program; Python's own reader runs it, with all the classes that it names. This one knows the
# opcodes of None, numbers, texts, lists, tuples and dictionaries with texts for keys, and refuses any other
# before anything is done with it. So what is read takes time and memory in proportion to its bytes: no
# class is ever looked up, no place of the memo is far away, and no keys can be made to collide.


LARGEST = 64 * 1024 * 1024
"""Bytes of a pickle that is read: 20,000 collectives with their stacks are some 30 MB."""

_MOST_OPERATIONS = 16_000_000
"""Of a recorder of 20,000 collectives with 20 frames each there are 3.5 million."""

_MOST_CONTAINERS = 2_000_000
"""Lists, dictionaries and tuples: one byte of a pickle makes some 60 bytes of them."""

_LONGEST_NUMBER = 16
"""Bytes of a whole number: times are nanoseconds in eight."""


def read_plain_pickle(content: bytes) -> Any:
    """The value of a pickle.

    Raises ValueError for what is too large, torn, or holds anything but plain values.
    """
    if len(content) > LARGEST:
        raise ValueError(f"a pickle of {len(content)} bytes, more than the {LARGEST} that are read")
    try:
        return _PlainPickle(content).read()
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a pickle of plain values, or a torn one ({type(error).__name__})") from None
    except Exception as error:
        # struct.error is no ValueError.
        raise ValueError(f"not a pickle of plain values, or a torn one ({error})") from None


class _PlainPickle:
    """Runs the opcodes of plain values, and refuses any other."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._containers = 0

    def read(self) -> Any:
        """The one value that is left at the end."""
        content, steps = self._content, _STEPS
        for _ in range(_MOST_OPERATIONS):
            code = content[self._at]
            self._at += 1
            if code == _STOP:
                if len(self._stack) != 1:
                    raise ValueError("more than one value")
                return self._stack[0]
            if code not in steps:
                raise ValueError(f"opcode {bytes([code])!r} is not of a plain value")
            step, argument = steps[code]
            step(self, argument)
        raise _too_many()

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _bytes(self, count: int) -> bytes:
        start, self._at = self._at, self._at + count
        if self._at > len(self._content):
            raise ValueError("it ends early")
        return self._content[start : self._at]

    def _unpack(self, of: Struct) -> Any:
        self._at += of.size
        return of.unpack_from(self._content, self._at - of.size)[0]

    def skip(self, count: int) -> None:
        """Pass over the number of a protocol or the size of a frame."""
        self._at += count

    def mark(self, _: None) -> None:
        """Keep the place from which an opcode takes all that lies above."""
        self._marks.append(len(self._stack))

    def recall(self, of: Struct | None) -> None:
        """Push what lies at a place of the memo, which is a byte or as `of` has it."""
        self._stack.append(self._memo[self._byte() if of is None else self._unpack(of)])

    def keep(self, of: Struct | None) -> None:
        """Put the uppermost value at a place of the memo."""
        self._memo[self._byte() if of is None else self._unpack(of)] = self._stack[-1]

    def memoize(self, _: None) -> None:
        """Put the uppermost value at the next place of the memo."""
        self._memo[len(self._memo)] = self._stack[-1]

    def push(self, value: Any) -> None:
        """Push a constant."""
        self._stack.append(value)

    def push_number(self, of: Struct | None) -> None:
        """Push a number, of a byte or as `of` has it."""
        self._stack.append(self._byte() if of is None else self._unpack(of))

    def push_long(self, _: None) -> None:
        """Push a whole number of so many bytes as the first one says."""
        length = self._byte()
        if length > _LONGEST_NUMBER:
            raise ValueError(f"a number of {length} bytes")
        self._stack.append(int.from_bytes(self._bytes(length), "little", signed=True))

    def push_text(self, width: int) -> None:
        """Push a text whose length stands before it in so many bytes."""
        length = int.from_bytes(self._content[self._at : self._at + width], "little")
        self._at += width
        self._stack.append(str(self._bytes(length), "utf-8", "surrogatepass"))

    def push_container(self, make: Callable[[], Any]) -> None:
        """Push an empty list or dictionary."""
        self._stack.append(make())
        self._count_container()

    def push_tuple(self, size: int | None) -> None:
        """Make a tuple of the uppermost values, of all above the mark where there is no size."""
        start = self._marks.pop() if size is None else self._below(size)
        self._stack[start:] = [tuple(self._stack[start:])]
        self._count_container()

    def append(self, _: None) -> None:
        """Add the uppermost value to the list below it."""
        value = self._stack.pop()
        _list(self._stack[-1]).append(value)

    def append_all(self, _: None) -> None:
        """Add all above the mark to the list below it."""
        start = self._marks.pop()
        _list(self._stack[start - 1]).extend(self._stack[start:])
        del self._stack[start:]

    def set_items(self, size: int | None) -> None:
        """Put keys and values into the dictionary below them: two values, or all above the mark."""
        start = self._marks.pop() if size is None else self._below(size)
        _set_items(self._stack[start - 1], self._stack[start:])
        del self._stack[start:]

    def _below(self, count: int) -> int:
        if len(self._stack) < count:
            raise IndexError("stack")
        return len(self._stack) - count

    def _count_container(self) -> None:
        self._containers += 1
        if self._containers > _MOST_CONTAINERS:
            raise _too_many()


_UINT32 = Struct("<I")
_STOP = 0x2E
_STEPS: Mapping[int, tuple[Callable[[_PlainPickle, Any], None], Any]] = {
    0x80: (_PlainPickle.skip, 1),  # PROTO
    0x95: (_PlainPickle.skip, 8),  # FRAME
    0x28: (_PlainPickle.mark, None),  # MARK
    0x68: (_PlainPickle.recall, None),  # BINGET
    0x6A: (_PlainPickle.recall, _UINT32),  # LONG_BINGET
    0x71: (_PlainPickle.keep, None),  # BINPUT
    0x72: (_PlainPickle.keep, _UINT32),  # LONG_BINPUT
    0x94: (_PlainPickle.memoize, None),  # MEMOIZE
    0x4E: (_PlainPickle.push, None),  # NONE
    0x88: (_PlainPickle.push, True),  # NEWTRUE
    0x89: (_PlainPickle.push, False),  # NEWFALSE
    0x4B: (_PlainPickle.push_number, None),  # BININT1
    0x4D: (_PlainPickle.push_number, Struct("<H")),  # BININT2
    0x4A: (_PlainPickle.push_number, Struct("<i")),  # BININT
    0x47: (_PlainPickle.push_number, Struct(">d")),  # BINFLOAT
    0x8A: (_PlainPickle.push_long, None),  # LONG1
    0x8C: (_PlainPickle.push_text, 1),  # SHORT_BINUNICODE
    0x58: (_PlainPickle.push_text, 4),  # BINUNICODE
    0x8D: (_PlainPickle.push_text, 8),  # BINUNICODE8
    0x5D: (_PlainPickle.push_container, list),  # EMPTY_LIST
    0x7D: (_PlainPickle.push_container, dict),  # EMPTY_DICT
    0x29: (_PlainPickle.push_tuple, 0),  # EMPTY_TUPLE
    0x85: (_PlainPickle.push_tuple, 1),  # TUPLE1
    0x86: (_PlainPickle.push_tuple, 2),  # TUPLE2
    0x87: (_PlainPickle.push_tuple, 3),  # TUPLE3
    0x74: (_PlainPickle.push_tuple, None),  # TUPLE
    0x61: (_PlainPickle.append, None),  # APPEND
    0x65: (_PlainPickle.append_all, None),  # APPENDS
    0x73: (_PlainPickle.set_items, 2),  # SETITEM
    0x75: (_PlainPickle.set_items, None),  # SETITEMS
}
"""What each opcode does, and with which argument."""


def _too_many() -> ValueError:
    return ValueError("more values in it than any recorder holds")


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("not a list")
    return value


def _set_items(value: Any, items: list[Any]) -> None:
    if type(value) is not dict or not all(type(key) is str for key in items[::2]):
        raise TypeError("not a dictionary with texts for keys")
    value.update(zip(items[::2], items[1::2], strict=True))


_SAVERS = ("save", "_save", "state_dict", "_state_dict")


def is_saving(frames: Sequence[CodeFrame]) -> bool:
    """Whether something is being saved, by the names of functions or PyTorch's distributed checkpoint."""
    for frame in frames:
        if "torch/distributed/checkpoint/" in frame.file or "state_dict" in frame.function:
            return True
        if "/torch/" not in frame.file and (frame.function.startswith(_SAVERS) or "_save" in frame.function):
            return True
    return False


# NCCL's own report (`ncclras`), and PyTorch's analyser of flight recorders.


# NCCL's own report of a job, as `ncclras` prints it (NCCL 2.24 to 2.28, src/ras/client_support.cc).
#
# Its errors and warnings list ranks of a communicator: missing ones, dead processes, and those that
# launched fewer operations than the others. Ranks are a communicator's, which are the job's only in the one
# that has all of them; of others the process is told.


_LONGEST_RAS_LINE = 500
_HEADING = re.compile(r"^#(?P<group>\d{1,7})-\d{1,7} \([0-9a-f]{1,16}\) (?P<what>INCOMPLETE|ERROR|MISMATCH)$")
_TOTAL = re.compile(r"^ {0,6}\d{1,7} +\d{1,9} +\d{1,11} +\d{1,9} +(?P<gpus>\d{1,7})$")
"""Of the job summary: hosts, processes a host, GPUs a process, processes, GPUs in all."""

_SIZES = re.compile(
    r"^ {0,5}(?P<group>\d{1,7}) +(?P<count>\d{1,7}) +\d{1,7} +[\d-]{1,15} +(?P<ranks>\d{1,7}) +\d{1,7} +[A-Z]"
)
_COUNTS = re.compile(r"^ {2}Communicator ranks have different (?P<name>\w{1,40}) operation counts$")
_SEVERAL = re.compile(
    r"^ {2}\d{1,7} ranks have (?:launched up to operation (?P<number>\d{1,18})|not launched any operations)$"
)
_ONE = re.compile(
    r"^ {2}Rank (?P<rank>\d{1,7})(?: has (?:launched up to operation (?P<number>\d{1,18})|"
    r"(?P<none>not launched any) operations))? -- "
)


@dataclass(slots=True)
class _RasReport:
    """What is said of one communicator: its ranks that are missing, and how far each of the others is."""

    what: str
    ranks: int | None
    name: str | None = None
    missing: tuple[int, ...] = ()
    launched: tuple[tuple[int, int], ...] = ()
    most: int | None = None
    """The number at which most ranks are: the first that is named."""
    of_group: int | None = None
    """The number of the ranks that are listed next."""


def is_ras_report(head: bytes) -> bool:
    """Whether a file begins as the output of ncclras does."""
    return b"NCCL version " in head and b"Job summary" in head


def read_ras_report(text: str) -> FileEvidence:
    """What the report says of ranks that are missing or behind."""
    totals = [
        int(found["gpus"]) for line in text.splitlines() if (found := _TOTAL.match(line[:_LONGEST_RAS_LINE]))
    ]
    world = totals[0] if totals else None
    whole = [each for each in _reports(text) if each.ranks is not None and each.ranks == world]
    rows = [RankState(rank, state="missing in NCCL's report") for each in whole for rank in each.missing]
    rows += [
        RankState(rank, enqueued=CollectiveCall(each.name or "", number))
        for each in whole
        for rank, number in each.launched
    ]
    return FileEvidence(tuple(rows), tuple(_sightings(whole)), world, has_lines=True)


@finds(Stage.LOG, nccl.COLLECTIVE_TIMED_OUT)
def _sightings(reports: Sequence[_RasReport]) -> Iterator[Sighting]:
    for each in reports:
        # Also in a job that goes on some are a little behind, so this is vague.
        behind = tuple(rank for rank, number in each.launched if each.most is not None and number < each.most)
        ranks = each.missing or behind
        if not ranks:
            continue
        has = "has" if len(ranks) == 1 else "have"
        if each.missing:
            told = f"{has} given NCCL no account of the communicator: dead, or not to be reached"
        else:
            numbers = ", ".join(str(number) for rank, number in each.launched if rank in behind[:3])
            told = f"{has} launched {each.name} up to #{numbers}, where most are at #{each.most}"
        yield Sighting(
            mode=nccl.COLLECTIVE_TIMED_OUT,
            role=LineRole.SYMPTOM,
            vague=not each.missing,
            what=told if len(ranks) == 1 else f"{ranks_text(ranks)} {told}",
            rank=ranks[0] if len(ranks) == 1 else None,
            host=None,
            index=BEFORE_ALL_LINES,
            clock=None,
            time=None,
            text=f"NCCL RAS: {ranks_text(ranks)} {told}",
        )


def _reports(text: str) -> Iterator[_RasReport]:
    sizes: dict[str, int] = {}
    report: _RasReport | None = None
    for raw in text.splitlines():
        line = raw[:_LONGEST_RAS_LINE].rstrip()
        if report is None and (size := _SIZES.match(line)) is not None:
            if size["count"] == "1":
                sizes[size["group"]] = int(size["ranks"])
        elif (heading := _HEADING.match(line)) is not None:
            if report is not None:
                yield report
            report = _RasReport(heading["what"], sizes.get(heading["group"]))
        elif report is not None and (counts := _COUNTS.match(line)) is not None:
            yield report
            report = _RasReport(report.what, report.ranks, counts["name"])
        elif report is not None:
            _add_line(report, line)
    if report is not None:
        yield report


def _add_line(report: _RasReport, line: str) -> None:
    if report.name is not None and (several := _SEVERAL.match(line)) is not None:
        report.of_group = int(several["number"] or 0)
        report.most = report.of_group if report.most is None else report.most
        return
    one = _ONE.match(line)
    if one is None:
        return
    rank = int(one["rank"])
    if report.what == "INCOMPLETE" and report.name is None:
        report.missing = (*report.missing, rank)
    elif report.name is not None:
        number = int(one["number"] or 0) if one["number"] or one["none"] else report.of_group
        if number is not None:
            report.launched = (*report.launched, (rank, number))


# The output of PyTorch's own analyser of flight recorders, of which `signs/group_lines.py` has the texts.


def is_analysis(head: bytes) -> bool:
    """Whether a file begins as the analyser's output does, where it found something."""
    if b"ollective" not in head:
        return False
    lines = head.decode("utf-8", "replace").splitlines()
    return any(ANALYSIS_BEGINS.match(line) for line in lines) and any(
        line.startswith(("internal record id: ", "group info: ")) for line in lines
    )


def read_analysis(text: str) -> FileEvidence:
    """Which ranks did not join a collective, or called another one than the others."""
    found = mismatches(text)
    sizes = [each.fields.get("world size", "") for each in found]
    world = [int(size) for size in sizes if size.isdecimal() and len(size) < 7]
    return FileEvidence(
        sightings=tuple(sign for each in _first_of_each_group(found) for sign in signs_of_mismatch(each)),
        world_size=max(world, default=None),
    )


def _first_of_each_group(found: list[Unmatched]) -> Iterator[Unmatched]:
    """The first of each group: what comes after it follows from it."""
    seen: set[str] = set()
    for each in sorted(found, key=lambda one: one.number):
        group = each.fields.get("group info", "")
        if group not in seen:
            seen.add(group)
            yield each
