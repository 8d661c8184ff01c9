"""PyTorch's flight recorder: what one rank's dump says of its collectives.

Both forms that PyTorch writes, pickle and JSON, of NCCL and of gloo, in the versions 1.x to 2.10 of torch 2.2
to 2.13 (torch/csrc/distributed/c10d/FlightRecorder.hpp and its older places). What is not as PyTorch writes
it is refused, for whoever wrote the file may want to do harm.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from launcher.diagnosis.evidence.frames import CodeFrame, is_saving, users_frame
from launcher.diagnosis.evidence.plain_pickle import LARGEST, read_plain_pickle

_MOST_RANKS = 1 << 20
_LONGEST_NAME = 80
_DIMENSIONS = 8
_PEERS = re.compile(r"(?:send|recv) (?P<own>\d{1,6})(?:->|<-)(?P<peer>\d{1,6})")
_RANK = re.compile(r"\d{1,7}")
_SYNCHRONISING = ("all_", "_all_", "all", "reduce_scatter", "_reduce_scatter", "barrier")


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    operations, places = [], {}
    for entry in entries:
        operation = _operation(entry)
        operations.append(operation)
        if "pg_id" in entry:
            places[operation.group.removesuffix(" (p2p)")] = str(entry["pg_id"])[:_LONGEST_NAME]
    last: dict[str, int] = {}
    ended: dict[str, int] = {}
    for each in operations:
        last[each.group] = max(each.number, last.get(each.group, 0))
        if each.completed:
            ended[each.group] = max(each.number, ended.get(each.group, 0))
    status = dump.get("pg_status") or {}
    for name, place in places.items():
        known = status.get(place) or {}
        if any(each.group == f"{name} (p2p)" for each in operations):
            continue  # It counts both, one in the other.
        done = int(known.get("last_completed_collective", 0))
        if _is(entries, "nccl:") and done > 0:
            ended[name] = max(done, ended.get(name, 0))
    return Recording(
        rank, host, tuple(operations), dict(_groups(dump)), last, ended, not _is(entries, "gloo:")
    )


def _is(entries: Sequence[Mapping[str, Any]], library: str) -> bool:
    return any(str(entry["profiling_name"]).startswith(library) for entry in entries[:1])


def _groups(dump: Mapping[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The global ranks of the groups that have more than one, as far as the recorder knows them."""
    for config in (dump.get("pg_config") or {}).values():
        ranks = config.get("ranks", "")
        if not isinstance(ranks, str):
            ranks = ",".join(str(int(each)) for each in ranks)
        found = sorted({int(each) for each in _RANK.findall(ranks)})
        if found and found[-1] < _MOST_RANKS:
            yield str(config.get("name", ""))[:_LONGEST_NAME], tuple(found)


def _operation(entry: Mapping[str, Any]) -> RecordedOperation:
    name = str(entry["profiling_name"])[:_LONGEST_NAME]
    name = name.partition(":")[2] or name
    peers = _PEERS.search(name)
    p2p = bool(entry.get("is_p2p", peers is not None))
    # Older recorders (torch 2.1 and 2.2) have a number in the group's place, and count all alike.
    group = entry["process_group"] if "process_group" in entry else entry["pg_id"]
    group = str(group[0] if isinstance(group, (tuple, list)) else group)[:_LONGEST_NAME]
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
        dtypes=" ".join(str(each)[:20] for each in (entry.get("input_dtypes") or ())[:_DIMENSIONS]),
        waits=not entry.get("retired", False) and state != "completed",
        completed=state == "completed",
        peer=int(peers["peer"]) if peers else None,
        frame=users_frame(frames),
        saving=is_saving(frames),
        elements=_elements(shapes),
    )


def _frame(value: Mapping[str, Any]) -> CodeFrame:
    return CodeFrame(str(value["filename"])[:500], int(value["line"]), str(value["name"])[:200])


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
