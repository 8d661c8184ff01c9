"""How close a host and its devices come to their memory's limit (MEM003).

Of the device's memory counts what training cannot do without: what torch keeps only to use it again is free
in truth, and so is a host's memory that holds copies of files.
"""

from __future__ import annotations

import os
import typing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 0.97
"""The part of a memory from which on it is close to its limit."""

Read = typing.Callable[[str], "str | None"]


@dataclass(frozen=True)
class Memory:
    """`what` is for people: "GPU 0"; sizes are bytes."""

    what: str
    used: int
    limit: int


def too_full(memory: Memory) -> str | None:
    """What is said of a memory within 3 % of its limit; None of any other."""
    if memory.limit <= 0 or memory.used < LIMIT * memory.limit:
        return None
    return (
        f"{memory.what} is close to its limit: {_size(memory.used)} of {_size(memory.limit)} "
        f"({100 * memory.used / memory.limit:.1f} %). The same job may run out of memory on other hosts, "
        "or with longer samples"
    )


def device_memory(free: int, total: int, reserved: int, allocated_at_most: int, device: int) -> Memory:
    """A device's: what is used there at all, less what torch keeps and never needed.

    `free` and `total` are cudaMemGetInfo's, the others torch's statistics of its allocator, in bytes.
    """
    spare = max(0, reserved - allocated_at_most)
    return Memory(f"GPU {device}", total - free - spare, total)


def host_memory(read: Read) -> Memory | None:
    """The host's, by the container's control group, else by the system; None where neither says.

    `read` gives the text of a file, None where there is none. Files: memory.max, memory.current and
    memory.stat of control groups version 2, those of version 1 below memory/ (the kernel's
    admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst), and /proc/meminfo.
    """
    total, available = _meminfo(read("/proc/meminfo") or "")
    for limit_file, used_file, stat_file, cached in (
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ):
        limit, used = (_number(read(f"/sys/fs/cgroup/{file}")) for file in (limit_file, used_file))
        # Version 1 without a limit has the largest number of pages; the host's memory bounds it as well.
        if limit is not None and used is not None and (not total or limit < total):
            spare = _field(read(f"/sys/fs/cgroup/{stat_file}") or "", cached)
            return Memory("the container's memory", max(0, used - spare), limit)
    return Memory("the host's memory", total - available, total) if total else None


def memories_here(*, with_host: bool) -> list[Memory]:
    """Those of this rank: its device's where it has one, and `with_host` the host's."""
    found = []
    import torch

    if torch.cuda.is_initialized():
        device = torch.cuda.current_device()
        free, total = torch.cuda.mem_get_info(device)
        reserved, highest = torch.cuda.memory_reserved(device), torch.cuda.max_memory_allocated(device)
        found.append(device_memory(free, total, reserved, highest, device))
    host = host_memory(_text_of) if with_host else None
    return [*found, host] if host is not None else found


def is_first_on_host() -> bool:
    """Whether this rank speaks for its host; by LOCAL_RANK, as torchrun sets it."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def _text_of(file: str) -> Any:
    try:
        return Path(file).read_text("ascii", "replace")
    except OSError:
        return None


def _number(text: str | None) -> int | None:
    stripped = (text or "").strip()
    return int(stripped) if stripped.isdigit() else None


def _meminfo(text: str) -> tuple[int, int]:
    return 1024 * _field(text, "MemTotal:"), 1024 * _field(text, "MemAvailable:")


def _field(text: str, name: str) -> int:
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == name and words[1].isdigit():
            return int(words[1])
    return 0


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
