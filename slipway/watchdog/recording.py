"""PyTorch's flight recorder: what a dump says of a rank's collectives.

A dump is a pickle of plain values (torch/csrc/distributed/c10d/FlightRecorder.hpp). It comes from the process
of a script, so every class in it is refused.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping
from typing import Any

from slipway.watchdog.places import StackFrame, is_saving, user_lines
from slipway.watchdog.views import Operation

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
