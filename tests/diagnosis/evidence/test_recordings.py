"""A flight recorder's dump, in the forms that PyTorch writes."""

from __future__ import annotations

import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.diagnosis.evidence.recordings import is_recording, read_recording
from tests.diagnosis.evidence.recorders import RECORDED, dump_of, entry


def test_a_dump_of_gloo_tells_the_collective_and_the_users_line() -> None:
    recording = read_recording((RECORDED / "never" / "rank_0").read_bytes(), 0)
    (waiting,) = recording.waiting
    assert (waiting.name, waiting.number, waiting.sizes, waiting.elements) == (
        "all_reduce",
        6,
        "[4160]",
        4160,
    )
    assert str(waiting.frame) == "train.py:34 in step"
    assert not recording.has_all


def test_a_dump_in_json_says_the_same() -> None:
    recording = read_recording((RECORDED / "rank_1.json").read_bytes(), 1)
    (waiting,) = recording.waiting
    assert (waiting.name, waiting.number, waiting.sizes) == ("all_reduce", 6, "[4160]")


def test_a_dump_of_torch_2_2_counts_otherwise() -> None:
    old = {
        "pg_id": 3,
        "seq_id": 17,
        "profiling_name": "nccl:all_reduce",
        "state": "started",
        "input_sizes": [[2]],
    }
    content = pickle.dumps({"version": "1.1", "entries": [old]}, 2)
    (operation,) = read_recording(content, 0).operations
    assert (operation.group, operation.number, operation.waits) == ("3", 17, True)


def test_sends_are_counted_apart_and_name_their_peer() -> None:
    send = entry(26, "send 0->3", group="43", is_p2p=True, p2p_seq_id=11981)
    recording = read_recording(dump_of([send], {"43": (0, 4, 8, 12)}), 0)
    (operation,) = recording.operations
    assert (operation.group, operation.number, operation.peer) == ("43 (p2p)", 11981, 3)
    assert recording.groups == {"43": (0, 4, 8, 12)}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"entries": 3}',
        b'{"entries": [{}]}',
        b'{"entries": [[]], "pg_config": {}}',
        b'{"entries": [{"profiling_name": "nccl:x", "pg_id": 1, "seq_id": "many"}]}',
        b'{"entries": [], "pg_config": [1]}',
        b'{"pg_config": {"0": {"ranks": [[1]]}}}',
        b"[" * 100_000,
        pickle.dumps([1, 2], 2),
        pickle.dumps({"entries": [None]}, 2),
    ],
)
def test_anything_else_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_recording(content, 0)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("pg_id", "process_group", "collective_seq_id", "profiling_name", "input_sizes", "frames", "state")


@given(
    entries=st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES), max_size=3),
    groups=VALUES,
    status=VALUES,
)
def test_whatever_the_fields_hold_it_is_read_or_refused(
    entries: object, groups: object, status: object
) -> None:
    content = json.dumps({"entries": entries, "pg_config": groups, "pg_status": status}).encode()
    try:
        read_recording(content, 0)
    except ValueError:
        return


def test_dumps_are_known_by_their_first_bytes() -> None:
    assert is_recording((RECORDED / "never" / "rank_0").read_bytes()[:4096])
    assert is_recording((RECORDED / "rank_1.json").read_bytes()[:4096])
    assert not is_recording(pickle.dumps({"weights": [1, 2]}, 2))
    assert not is_recording(b'{"log": "step 3"}')
