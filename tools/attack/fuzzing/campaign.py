"""Cases by the thousand, in forks: one that crashes, hangs or eats memory does not end the others."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import struct
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tools.attack.forks import in_forks
from tools.attack.fuzzing.areas import Area
from tools.attack.fuzzing.handing_over import user_in

BATCH = 100
CASE_SECONDS = 10
"""Of wall clock, after which a case counts as hanging; on a quiet machine one takes milliseconds."""

MEMORY_BYTES = 6 * 1024**3
"""Of address space: a process that has everything loaded needs half a gigabyte, and each thread that a
command leaves behind is given eight megabytes, and now and then 64."""


@dataclass(slots=True)
class Fuzzed:
    """What came of an area: how many cases, which failed (`seed` makes a case again) and the slowest one."""

    area: Area
    tried: int = 0
    failed: dict[int, str] = field(default_factory=dict)
    slowest_seconds: float = 0.0
    slowest_seed: int = 0
    grown_bytes: int = 0
    """The most that the memory of a process grew by over its cases."""


@dataclass(frozen=True, slots=True)
class _Batch:
    first: int
    last: int


def fuzz(area: Area, number: int, *, first_seed: int = 0, at_once: int = 2) -> Fuzzed:
    """Try an area with the cases of so many seeds."""
    found = Fuzzed(area)
    with tempfile.TemporaryDirectory(prefix="slipway-attack-") as folder, mmap.mmap(-1, 1 << 16) as noted:
        left = [
            _Batch(start, min(start + BATCH, first_seed + number))
            for start in range(first_seed, first_seed + number, BATCH)
        ]
        slots = {batch.first: slot for slot, batch in enumerate(left)}
        while left:
            again = []
            for ended in in_forks(
                left,
                lambda batch: _run(area, batch, Path(folder), noted, slots[batch.first]),
                at_once=at_once,
                seconds=CASE_SECONDS * BATCH,
                memory_bytes=MEMORY_BYTES,
            ):
                batch: _Batch = ended.task
                if ended.trouble is not None:
                    (seed,) = struct.unpack_from("q", noted, 8 * slots[batch.first])
                    hung = f"hung for {CASE_SECONDS} s" if "SIGALRM" in ended.trouble else ended.trouble
                    found.failed[seed] = hung
                    found.tried += 1
                    # What came before it went down with its process, and is tried again.
                    for rest in (_Batch(batch.first, seed), _Batch(seed + 1, batch.last)):
                        if rest.first < rest.last:
                            again.append(rest)
                            slots.setdefault(rest.first, len(slots))
                    continue
                _add(found, ended.answer)
            left = again
    return found


def try_case(area: Area, seed: int, folder: Path) -> None:
    """Make one case and hand it over; raises what the launcher should not have raised."""
    area.attack(Random(f"{area.name} {seed}"), folder)


def _run(area: Area, batch: _Batch, folder: Path, noted: mmap.mmap, slot: int) -> dict[str, Any]:
    own = folder / str(os.getpid())
    own.mkdir()
    failed, slowest, before = {}, (0.0, batch.first), _memory()
    # Its default action ends the process, also within a pattern that does not come back.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with user_in(own):
        for seed in range(batch.first, batch.last):
            struct.pack_into("q", noted, 8 * slot, seed)
            signal.alarm(CASE_SECONDS)
            began = time.process_time()
            try:
                try_case(area, seed, own)
            except Exception as error:
                failed[seed] = f"{type(error).__name__}: {error}"[:400]
            slowest = max(slowest, (time.process_time() - began, seed))
    signal.alarm(0)
    return {
        "tried": batch.last - batch.first,
        "failed": failed,
        "slowest": slowest,
        "grown": _memory() - before,
    }


def _add(found: Fuzzed, answer: dict[str, Any]) -> None:
    found.tried += answer["tried"]
    found.failed |= {int(seed): text for seed, text in answer["failed"].items()}
    seconds, seed = answer["slowest"]
    if seconds > found.slowest_seconds:
        found.slowest_seconds, found.slowest_seed = seconds, seed
    found.grown_bytes = max(found.grown_bytes, answer["grown"])


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def failures_by_cause(found: Fuzzed) -> Iterator[tuple[str, int, int]]:
    """Each cause with how many cases it has, and the seed of the first."""
    causes: dict[str, list[int]] = {}
    for seed, text in sorted(found.failed.items()):
        causes.setdefault(text[:80], []).append(seed)
    for text, seeds in sorted(causes.items(), key=lambda item: -len(item[1])):
        yield text, len(seeds), seeds[0]
