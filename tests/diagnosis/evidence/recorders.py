"""Dumps of flight recorders for tests: recorded ones (torch 2.13, gloo, four ranks), and made ones as NCCL
writes them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.diagnosis.evidence.dumps import Recording, read_recording

RECORDED = Path(__file__).parent / "recorded"


def recorded(case: str) -> list[Recording]:
    """The recordings of a job; in each case rank 2 is to blame, and in `two` ranks 1 and 3."""
    return [
        read_recording(file.read_bytes(), int(file.name.rpartition("_")[2]))
        for file in sorted((RECORDED / case).iterdir())
    ]


def entry(
    number: int, name: str = "all_reduce", group: str = "0", state: str = "scheduled", **more: Any
) -> dict[str, Any]:
    """A collective as NCCL's recorder has it in version 2.9."""
    return {
        "pg_id": int(group),
        "process_group": (group, "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "profiling_name": f"nccl:{name}",
        "input_sizes": [[64]],
        "input_dtypes": ["Float"],
        "state": state,
        "retired": state == "completed",
        "is_p2p": False,
        **more,
    }


def dump_of(
    entries: Sequence[Mapping[str, Any]],
    groups: Mapping[str, Sequence[int]],
    status: Mapping[str, int] | None = None,
) -> bytes:
    """A dump; `status` are the last collectives that ended on the GPU, by their groups."""
    return pickle.dumps(
        {
            "version": "2.9",
            "pg_config": {
                name: {"name": name, "desc": "", "ranks": str(list(r))} for name, r in groups.items()
            },
            "pg_status": {
                name: {"last_enqueued_collective": 0, "last_completed_collective": number}
                for name, number in (status or {}).items()
            },
            "entries": list(entries),
        },
        protocol=2,
    )


def recording(rank: int, entries: Sequence[Mapping[str, Any]], world: int = 4, **status: int) -> Recording:
    """A recording of a rank whose groups are all ranks (`0`) and the first two (`1`)."""
    groups = {"0": range(world), "1": (0, 1)}
    by_group = {name.removeprefix("ended_in_"): number for name, number in status.items()}
    return read_recording(dump_of(entries, groups, by_group), rank)
