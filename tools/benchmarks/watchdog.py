"""What the watchdog costs a script, and how long 64 ranks take to be judged.

Bounds: a beat at most 0.5 % of a step of 10 ms; all that 64 ranks say, read and judged, in 10 s. A beat is
measured as PyTorch's hook calls it, in a heartbeat's real file, against steps of 10 ms of the same run.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from slipway.ranks.attendant import Heartbeat
from slipway.watchdog.judge_stall import judge_stall
from slipway.watchdog.rank_views import RankView, operations_in

STEP_SECONDS, STEP_SHARE = 0.010, 0.005
VERDICT_BOUND = 10.0
RANKS, COLLECTIVES = 64, 20_000
_TIMES = 200


def beat_share() -> float:
    """The share of a beat in a step that computes for 10 ms."""
    with tempfile.TemporaryDirectory() as folder:
        heartbeat = Heartbeat(Path(folder) / "0")
        beats, steps = [], []
        for _ in range(_TIMES):
            begun = time.perf_counter()
            while time.perf_counter() - begun < STEP_SECONDS:
                pass
            computed = time.perf_counter()
            heartbeat.beat(None, (), {})
            beats.append(time.perf_counter() - computed)
            steps.append(time.perf_counter() - begun)
        return statistics.median(beats) / statistics.median(steps)


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


def main() -> int:
    """Print the figures; 1 where one misses its bound."""
    share, seconds = beat_share(), verdict_seconds()
    print(f"a beat: {share:.4%} of a step of 10 ms (at most {STEP_SHARE:.1%})")
    print(f"{RANKS} ranks of {COLLECTIVES:,} collectives read and judged: {seconds:.1f} s (at most 10 s)")
    return int(share > STEP_SHARE or seconds > VERDICT_BOUND)


if __name__ == "__main__":
    raise SystemExit(main())
