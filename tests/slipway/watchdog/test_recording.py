"""The flight recorder's dumps: read as plain values, and nothing else."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pytest

from slipway.watchdog.recording import KEPT_OF_A_GROUP, group_ranks, operations_in, read_dump


def entry(number: int, *, retired: bool = True, **more: Any) -> dict[str, Any]:
    """As gloo's recorder of torch 2.13 writes it."""
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "is_p2p": False,
        "profiling_name": "gloo:all_reduce",
        "input_sizes": [[4160]],
        "frames": [
            {"name": "all_reduce", "filename": "/lib/torch/distributed/distributed_c10d.py", "line": 3245},
            {"name": "step", "filename": "/code/lib/step.py", "line": 5},
            {"name": "<module>", "filename": "/code/train.py", "line": 17},
        ],
        "retired": retired,
        "state": "scheduled",
        "time_created_ns": 1_000_000_000_000,
        "timeout_ms": 600_000,
        **more,
    }


def test_a_collective_is_read_with_the_users_lines() -> None:
    dump = read_dump(pickle.dumps({"version": "2.10", "entries": [entry(1, retired=False)]}))
    last, (operation,) = operations_in(dump, "/code", now=1012.0)
    assert last == {"0": 1}
    assert (operation.name, operation.sizes, operation.waits) == ("all_reduce", "[4160]", True)
    assert [str(line) for line in operation.lines] == ["train.py:17", "lib/step.py:5"]
    assert (operation.seconds, operation.timeout, operation.saving) == (12.0, 600.0, False)


def test_of_a_long_recording_the_newest_are_kept_and_the_oldest_that_waits() -> None:
    entries = [entry(number, retired=number != 3) for number in range(1, 101)]
    last, operations = operations_in({"entries": entries}, "/code", now=0)
    assert last == {"0": 100}
    assert [each.number for each in operations] == [3, *range(101 - KEPT_OF_A_GROUP, 101)]


@pytest.mark.parametrize(
    ("state", "retired", "waits"),
    [
        ("scheduled", False, True),
        ("started", False, True),
        ("completed", False, False),
        ("started", True, False),
    ],
)
def test_what_is_completed_or_retired_does_not_wait(state: str, retired: bool, waits: bool) -> None:
    _, (operation,) = operations_in({"entries": [entry(1, retired=retired, state=state)]}, "/code", 0)
    assert operation.waits == waits


def test_a_receive_names_its_peer_and_counts_apart() -> None:
    received = entry(7, is_p2p=True, p2p_seq_id=2, profiling_name="nccl:recv 1<-3")
    last, (operation,) = operations_in({"entries": [received]}, "/code", 0)
    assert last == {"0 (p2p)": 2}
    assert operation.peer == 3


def test_the_words_of_older_recorders_are_read_too() -> None:
    older = entry(0)
    for name in ("process_group", "collective_seq_id", "is_p2p", "timeout_ms", "retired"):
        del older[name]
    last, (operation,) = operations_in({"entries": [{**older, "pg_id": 0, "seq_id": 9}]}, "/code", 0)
    assert (last, operation.timeout) == ({"0": 9}, None)


def test_saving_is_seen_in_the_frames() -> None:
    frames = [{"name": "_state_dict", "filename": "/lib/torch/nn/x.py", "line": 1}]
    _, (operation,) = operations_in({"entries": [entry(1, frames=frames)]}, "/code", 0)
    assert operation.saving


def test_nccls_recorder_knows_the_ranks_of_its_groups() -> None:
    config = {
        "a": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"},
        "b": {"name": "1", "ranks": "[]"},
        "c": {"name": "", "ranks": "[0, 1]"},
    }
    assert group_ranks({"pg_config": config}) == {"0": (0, 1, 2)}


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/should-not-be-there",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"entries": [Evil()]}),
        pickle.dumps([]),
        pickle.dumps({"entries": 3}),
        pickle.dumps({"entries": []})[:-3],
        b"",
        b"not a pickle",
    ],
)
def test_what_is_no_dump_is_refused_and_no_class_is_loaded(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a flight recorder's dump"):
        read_dump(content)


@pytest.mark.parametrize("broken", [{}, {"process_group": ("0", "x")}, 3, {**entry(1), "frames": [3]}])
def test_an_entry_that_cannot_be_read_is_said(broken: Any) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        operations_in({"entries": [broken]}, "/code", 0)
