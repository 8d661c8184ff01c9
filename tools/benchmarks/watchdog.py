"""What the watchdog costs a script, and how long 64 ranks take to be judged.

Bounds: a beat at most 0.5 % of a step of 10 ms; all that 64 ranks say, read and judged, in 10 s. A beat is
measured as PyTorch's hook calls it, in a heartbeat's real file, against steps of 10 ms of the same run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from slipway.ranks.attendant import Heartbeat
from slipway.watchdog.judge_stall import judge_stall
from slipway.watchdog.rank_views import RankView, operations_in
from tools.benchmarks.measuring import Figure

STEP_SECONDS, STEP_SHARE = 0.010, 0.005
VERDICT_BOUND = 10.0
RANKS, COLLECTIVES = 64, 20_000
_TIMES = 200


def beat_share(folder: Path) -> float:
    """The share of a beat in a step that computes for 10 ms."""
    heartbeat = Heartbeat(folder / "0")
    beats, steps = [], []
    for _ in range(_TIMES):
        begun = time.perf_counter()
        while time.perf_counter() - begun < STEP_SECONDS:
            pass
        computed = time.perf_counter()
        heartbeat.beat(None, (), {})
        beats.append(time.perf_counter() - computed)
        steps.append(time.perf_counter() - begun)
    return median(beats) / median(steps)


def verdict_seconds() -> float:
    """For reading and judging 64 ranks, each with a recorder that is full, of which one is missing."""
    frames = [{"name": "step", "filename": "/code/train.py", "line": 27}]
    views, taken = [], 0.0
    for rank in range(RANKS):
        newest = COLLECTIVES - (rank == 40)
        entries = [
            {
                "process_group": ("0", "default_pg"),
                "collective_seq_id": number,
                "profiling_name": "nccl:all_reduce",
                "input_sizes": [[4160]],
                "frames": frames,
                "retired": number < COLLECTIVES,
                "state": "started",
                "time_created_ns": 0,
                "timeout_ms": 600_000,
            }
            for number in range(1, newest + 1)
        ]
        begun = time.perf_counter()
        last, operations = operations_in({"entries": entries}, "/code", 0.0)
        taken += time.perf_counter() - begun
        groups = {"0": tuple(range(RANKS))}
        views.append(RankView(rank, "algo-1", "S", 9, False, True, True, groups, last, operations))
    begun = time.perf_counter()
    verdict = judge_stall(views)
    taken += time.perf_counter() - begun
    assert verdict is not None and verdict.ranks == (40,), verdict
    return taken


def figures(folder: Path) -> Iterator[Figure]:
    """Both."""
    yield Figure("a beat, of a step of 10 ms", 100 * beat_share(folder), 100 * STEP_SHARE, " %")
    what = f"{RANKS} ranks of {COLLECTIVES:,} collectives read and judged"
    yield Figure(what, verdict_seconds(), VERDICT_BOUND, " s")
