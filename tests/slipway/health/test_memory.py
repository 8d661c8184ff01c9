"""How close memories are to their limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.health.memory import Memory, device_memory, host_memory, memories_here, too_full

GIB = 2**30
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1000 kB\nMemAvailable:    4194304 kB\n"


def read_from(files: dict[str, str]) -> Memory | None:
    return host_memory(files.get)


def test_within_3_percent_of_the_limit_is_told() -> None:
    said = too_full(Memory("GPU 0", 98 * GIB, 100 * GIB))
    assert said is not None
    assert said.startswith("GPU 0 is close to its limit: 98.0 GiB of 100.0 GiB (98.0 %)")
    assert too_full(Memory("GPU 0", 97 * GIB, 100 * GIB)) is not None
    assert too_full(Memory("GPU 0", 97 * GIB - 1, 100 * GIB)) is None
    assert too_full(Memory("GPU 0", 0, 0)) is None


def test_what_torch_keeps_and_never_needed_counts_as_free() -> None:
    """Of 80 GiB 1 is free by the driver, but torch has 20 in its cache that it never needed at once."""
    memory = device_memory(1 * GIB, 80 * GIB, reserved=70 * GIB, allocated_at_most=50 * GIB, device=3)
    assert memory == Memory("GPU 3", 59 * GIB, 80 * GIB)
    assert device_memory(1 * GIB, 80 * GIB, 70 * GIB, 71 * GIB, 0).used == 79 * GIB


def test_a_control_group_of_version_2_counts_without_its_copies_of_files() -> None:
    memory = read_from({
        "/proc/meminfo": MEMINFO,
        "/sys/fs/cgroup/memory.max": f"{8 * GIB}\n",
        "/sys/fs/cgroup/memory.current": f"{6 * GIB}\n",
        "/sys/fs/cgroup/memory.stat": f"anon {4 * GIB}\ninactive_file {2 * GIB}\n",
    })  # fmt: skip
    assert memory == Memory("the container's memory", 4 * GIB, 8 * GIB)


def test_a_control_group_of_version_1_counts_as_well() -> None:
    memory = read_from({
        "/proc/meminfo": MEMINFO,
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{8 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{7 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.stat": f"cache 0\ntotal_inactive_file {GIB}\n",
    })  # fmt: skip
    assert memory == Memory("the container's memory", 6 * GIB, 8 * GIB)


@pytest.mark.parametrize(
    "files",
    [
        {"/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory.current": f"{6 * GIB}\n"},
        {
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{6 * GIB}\n",
        },
        {},
    ],
)
def test_without_a_limit_of_its_own_the_hosts_memory_counts(files: dict[str, str]) -> None:
    assert read_from({"/proc/meminfo": MEMINFO, **files}) == Memory("the host's memory", 12 * GIB, 16 * GIB)


@pytest.mark.parametrize("text", ["", "MemTotal:", "MemTotal: many kB", "\x00\xff"])
def test_what_cannot_be_read_is_not_judged(text: str) -> None:
    assert read_from({"/proc/meminfo": text}) is None


def test_this_host_has_a_memory() -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("no /proc here")
    (memory,) = [one for one in memories_here(with_host=True) if "GPU" not in one.what]
    assert 0 < memory.used < memory.limit
    assert [one for one in memories_here(with_host=False) if "GPU" not in one.what] == []
