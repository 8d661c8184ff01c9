"""What is known of a rank at one moment, by its stacks and PyTorch's flight recorder, as plain data.

Hosts send each other these views as JSON. A recorder's dump is a pickle of plain values
(torch/csrc/distributed/c10d/FlightRecorder.hpp). It comes from the process of a script, so every class in
it is refused.
"""

from __future__ import annotations

import dataclasses
import io
import pickle
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from slipway.errors import say

STOPPED, GONE = "T", "gone"
"""Of a process' states (proc(5)) the one of a stopped process; and what stands for a process that is not
there."""


class UserLine(NamedTuple):
    """A line of the user's own code, its file as it lies below the code's folder."""

    file: str
    number: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


@dataclass(frozen=True)
class Operation:
    """A collective that a rank has entered.

    `number` counts the group's collectives; `lines` are the user's lines that led to it, the innermost last;
    `saving` says that it was called on the way of saving or of making a state_dict, `gathers` of the
    latter or of PyTorch's distributed checkpoint. `seconds` is how long
    ago it was entered, `timeout` the group's, both in seconds. `peer` is the other rank of the group where it
    is a send or receive.
    """

    group: str
    number: int
    name: str
    sizes: str = ""
    lines: tuple[UserLine, ...] = ()
    saving: bool = False
    gathers: bool = False
    waits: bool = False
    seconds: float = 0.0
    timeout: float | None = None
    peer: int | None = None

    @property
    def key(self) -> tuple[str, int, str]:
        """What it is, whenever it is looked at."""
        return self.group, self.number, self.name


@dataclass(frozen=True)
class RankView:
    """One rank, as it was seen.

    `answered` says that it answered itself, `recorded` that PyTorch's flight recorder told of its
    collectives. `last` is the newest number that it has entered in each group, `operations` are the newest of
    each and all that wait, `groups` the global ranks of its groups. `lines` is where its main thread is in
    the user's code; `waits_by_stack` that the thread is inside of PyTorch where one waits for other ranks.
    `failed` says that its script ended by an exception; `counters` are the whole numbers that its functions
    hold, by file, function and name, such as the epoch.
    """

    rank: int
    host: str
    state: str
    steps: int
    ended: bool = False
    answered: bool = False
    recorded: bool = False
    groups: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    last: dict[str, int] = dataclasses.field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    lines: tuple[UserLine, ...] = ()
    waits_by_stack: bool = False
    saving: bool = False
    failed: bool = False
    counters: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def waiting(self) -> tuple[Operation, ...]:
        """The oldest collective that it waits in, of each group."""
        oldest: dict[str, Operation] = {}
        for each in self.operations:
            if each.waits and (each.group not in oldest or each.number < oldest[each.group].number):
                oldest[each.group] = each
        return tuple(oldest.values())

    def entered(self, group: str, number: int) -> Operation | None:
        """What it entered under this number; None where that is not known any more, or not yet."""
        found = (each for each in self.operations if (each.group, each.number) == (group, number))
        return next(found, None)


def steady_view(before: RankView, after: RankView) -> RankView | None:
    """What is equal in two looks at a rank; None where the rank got on between them.

    A collective counts as waited in where it was so both times.
    """
    if before.steps != after.steps or (before.recorded and after.recorded and before.last != after.last):
        return None
    waited = {each.key for each in before.operations if each.waits}
    operations = tuple(
        dataclasses.replace(each, waits=each.waits and each.key in waited) for each in after.operations
    )
    return dataclasses.replace(
        after,
        operations=operations,
        waits_by_stack=before.waits_by_stack and after.waits_by_stack,
        state=after.state if after.state == before.state or after.state == GONE else "S",
    )


def view_to_json(view: RankView) -> dict[str, Any]:
    """A view as JSON holds it."""
    return dataclasses.asdict(view)


def view_from_json(value: dict[str, Any]) -> RankView:
    """The view that `view_to_json` wrote. Raises KeyError, TypeError or ValueError for anything else."""
    fields = dict(value)
    fields["groups"] = {name: tuple(ranks) for name, ranks in fields["groups"].items()}
    fields["lines"] = _lines(fields["lines"])
    fields["operations"] = tuple(
        Operation(**{**each, "lines": _lines(each["lines"])}) for each in fields["operations"]
    )
    return RankView(**fields)


def _lines(values: Any) -> tuple[UserLine, ...]:
    return tuple(UserLine(*each) for each in values)


# Where a stack of frames is: the user's own lines of it, and what the frames of libraries tell.


class StackFrame(NamedTuple):
    """A frame of a stack, of anybody's code."""

    file: str
    number: int
    function: str
    numbers: Mapping[str, int] = {}


_DEEPEST = 12
"""Lines of the user's that are kept, the innermost."""

_WAITING = (
    ("torch/distributed/distributed_c10d.py", None),
    ("torch/distributed/_functional_collectives.py", None),
    ("torch/autograd/graph.py", "_engine_run_backward"),
    ("torch/autograd/__init__.py", "backward"),
    ("torch/cuda/__init__.py", "synchronize"),
    ("torch/cuda/streams.py", "synchronize"),
)
"""Where a rank stands while it waits for others: the file's end, and the function where it matters."""

_SAVERS = ("save", "_save", "state_dict", "_state_dict")


def user_lines(frames: Sequence[StackFrame], code: str) -> tuple[UserLine, ...]:
    """The lines of files below the user's code, the innermost last; `frames` are in the same order."""
    found = [
        UserLine(str(PurePath(file).relative_to(code)), number, function)
        for file, number, function, _ in frames
        if file.startswith(f"{code}/")
    ]
    return tuple(found[-_DEEPEST:])


def counters_in(frames: Sequence[StackFrame], code: str) -> dict[str, int]:
    """The whole numbers that the user's functions hold, as `RankView.counters`."""
    return {
        f"{PurePath(file).relative_to(code)} {function} {name}": int(value)
        for file, _, function, numbers in frames
        if file.startswith(f"{code}/")
        for name, value in numbers.items()
    }


def is_saving(frames: Sequence[StackFrame]) -> bool:
    """Whether something is being saved: a state_dict is made, PyTorch's distributed checkpoint works, or a
    function of the user's or of a library has a name that says so."""
    return gathers_state(frames) or any(
        "/torch/" not in file and (function.startswith(_SAVERS) or "_save" in function)
        for file, _, function, _ in frames
    )


def gathers_state(frames: Sequence[StackFrame]) -> bool:
    """Whether a state_dict is made, or PyTorch's distributed checkpoint works: often with all ranks."""
    return any(
        "torch/distributed/checkpoint/" in file or "state_dict" in function for file, _, function, _ in frames
    )


def waits_inside(frames: Sequence[StackFrame]) -> bool:
    """Whether the innermost frame is one in which a rank waits for others."""
    if not frames:
        return False
    file, _, function, _ = frames[-1]
    # A decorator of PyTorch lies around its collectives (torch/distributed/c10d_logger.py).
    return any(file.endswith(end) and name in (None, function) for end, name in _WAITING)


def in_backward(frames: Sequence[StackFrame]) -> bool:
    """Whether a stack is in a backward pass."""
    return any("torch/autograd/" in frame.file or frame.function == "backward" for frame in frames)


_PRINTED = re.compile(
    r'^\s{1,200}File "(?P<file>[^"\n]{1,4096})", line (?P<line>\d{1,9}),? in (?P<name>\S.*)$'
)


def last_stack_of(lines: Iterable[str]) -> list[StackFrame]:
    """The frames of the last traceback that a rank printed, the outermost first, or of its main thread where
    faulthandler printed those of a signal."""
    stacks: list[list[StackFrame]] = []
    crashed = False
    for line in lines:
        begins = "most recent call" in line
        crashed = crashed or line.endswith("Fatal Python error: Aborted")
        match = _PRINTED.match(line)
        if begins:
            stacks.append([])
        elif match is not None and stacks:
            stacks[-1].append(StackFrame(match["file"], int(match["line"]), match["name"]))
    if crashed:
        # faulthandler begins with the innermost frame, and writes the main thread last.
        stacks = [stack[::-1] for stack in stacks]
    return next((stack for stack in reversed(stacks) if stack), [])


def text_reader(code: Path) -> Callable[[str], str | None]:
    """Gives the text of a file of the user's code by its name; None where it cannot be read."""

    def text_of(name: str) -> str | None:
        try:
            return (code / name).read_text("utf-8")
        except (OSError, ValueError):
            return None

    return text_of


# PyTorch's flight recorder: what a dump says of a rank's collectives.


KEPT_OF_A_GROUP = 8
"""The newest collectives of each group that are compared between ranks, besides those that wait."""

LARGEST_DUMP = 64 * 1024 * 1024
"""Bytes that are read of one: 20,000 collectives with their stacks are some 30 MB."""

_PEERS = re.compile(r"(?:send|recv) (?P<own>\d{1,6})(?:->|<-)(?P<peer>\d{1,6})")


class _PlainValues(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a recording holds {module}.{name}, which is no plain value")


def read_dump(content: bytes) -> Mapping[str, Any]:
    """The dump's values. Raises ValueError for what is none, or has a class in it."""
    try:
        found = _PlainValues(io.BytesIO(content)).load()
    except Exception as error:  # a broken pickle may raise nearly anything
        raise ValueError(f"not a flight recorder's dump: {error}") from None
    if not isinstance(found, dict) or not isinstance(found.get("entries"), list):
        raise ValueError("not a flight recorder's dump: it has no entries")
    return found


def newest_of(dump: Mapping[str, Any]) -> dict[str, Any]:
    """Of a dump what is judged: of each group the newest entries, and the oldest that waits.

    Raises ValueError where an entry is not as PyTorch writes it.
    """
    by_group: dict[str, list[Any]] = {}
    try:
        for entry in dump["entries"]:
            by_group.setdefault(_group(entry), []).append(entry)
        kept = []
        for entries in by_group.values():
            entries.sort(key=_number)
            older = entries[:-KEPT_OF_A_GROUP]
            kept += [entry for entry in older if _waits(entry)][:1] + entries[-KEPT_OF_A_GROUP:]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"a flight recorder's entry cannot be read: {error!r}") from None
    return {"entries": kept, "pg_config": dump.get("pg_config")}


def operations_in(
    dump: Mapping[str, Any], code: str, now: float
) -> tuple[dict[str, int], tuple[Operation, ...]]:
    """The newest number of each group, and the collectives that matter: the newest, and those that wait.

    `code` is the folder of the user's code, `now` the time in seconds since the epoch. Raises ValueError
    where an entry is not as PyTorch writes it.
    """
    try:
        operations = [
            _operation(entry, _group(entry), _number(entry), code, now)
            for entry in newest_of(dump)["entries"]
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"a flight recorder's entry cannot be read: {error!r}") from None
    last: dict[str, int] = {}
    for each in operations:
        last[each.group] = max(each.number, last.get(each.group, 0))
    return last, tuple(operations)


def group_ranks(dump: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The global ranks of the groups, where the recorder knows them (NCCL's does)."""
    found = {}
    for config in (dump.get("pg_config") or {}).values():
        ranks = re.findall(r"\d+", str(config.get("ranks", "")))
        if ranks and config.get("name"):
            found[str(config.get("name"))] = tuple(sorted(map(int, ranks)))
    return found


def _operation(entry: Mapping[str, Any], group: str, number: int, code: str, now: float) -> Operation:
    name = str(entry["profiling_name"]).partition(":")[2] or str(entry["profiling_name"])
    # From the innermost to the outermost.
    frames = [
        StackFrame(str(frame["filename"]), int(frame["line"]), str(frame["name"]))
        for frame in reversed(entry.get("frames") or ())
    ]
    peers = _PEERS.search(name)
    timeout = entry.get("timeout_ms")
    return Operation(
        group=group,
        number=number,
        name=name[:80],
        sizes=" ".join(str(size).replace(" ", "") for size in entry.get("input_sizes") or ())[:120],
        lines=user_lines(frames, code),
        saving=is_saving(frames),
        gathers=gathers_state(frames),
        waits=_waits(entry),
        seconds=max(0.0, now - entry["time_created_ns"] / 1e9),
        timeout=timeout / 1000 if timeout else None,
        peer=int(peers["peer"]) if peers else None,
    )


def _group(entry: Mapping[str, Any]) -> str:
    """The name of its process group; sends and receives count apart from the collectives."""
    # Older recorders (torch 2.1 and 2.2) have a number in its place.
    group = entry["process_group"] if "process_group" in entry else entry["pg_id"]
    name = str(group[0] if isinstance(group, (tuple, list)) else group)
    return f"{name} (p2p)" if entry.get("is_p2p") else name


def _number(entry: Mapping[str, Any]) -> int:
    if entry.get("is_p2p"):
        return int(entry["p2p_seq_id"])
    return int(entry["collective_seq_id"] if "collective_seq_id" in entry else entry["seq_id"])


def _waits(entry: Mapping[str, Any]) -> bool:
    return not entry.get("retired", False) and entry.get("state") != "completed"


# The recorders' dumps of a stall, kept as PyTorch's analyzer reads them: `rank_N` in one folder a host.
#
# The analyzer (torch.distributed.flight_recorder.fr_trace) wants the files of all hosts in one folder.


DUMPS_FOLDER = "flight_recorder"


def keep_dumps(
    dumps: Mapping[int, bytes], groups: Mapping[int, Mapping[str, Sequence[int]]], folder: Path
) -> None:
    """Write the ranks' dumps, in place of earlier ones; where that fails it is said and no more.

    `groups` are the global ranks of each rank's groups, by their names, as it knows them.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for rank, content in dumps.items():
            (folder / f"rank_{rank}").write_bytes(with_groups(content, groups.get(rank, {})))
    except OSError as error:
        text = f"the flight recorder's dumps cannot be kept in {folder}: {error.strerror}"
        say(text)


def with_groups(content: bytes, groups: Mapping[str, Sequence[int]]) -> bytes:
    """A dump that says which ranks its groups have.

    NCCL's does. gloo's has one group without a name (torch 2.13), and the analyzer ends with a
    KeyError at the first collective.
    """
    try:
        dump = dict(read_dump(content))
    except ValueError:
        return content
    said = dict(each["process_group"] for each in dump["entries"] if "process_group" in each)
    if set(said) <= set(group_ranks(dump)) or not groups:
        return content
    dump["pg_config"] = {
        name: {"name": name, "desc": said.get(name, "undefined"), "ranks": str(list(ranks))}
        for name, ranks in groups.items()
    }
    return pickle.dumps(dump, protocol=2)
