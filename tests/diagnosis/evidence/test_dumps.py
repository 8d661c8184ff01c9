"""Dumps of ranks: pickles that may be hostile, flight recorders, stacks."""

from __future__ import annotations

import json
import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.names import host_in
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence import dumps
from launcher.diagnosis.evidence.collect import evidence_of, rank_in
from launcher.diagnosis.evidence.dumps import (
    FileEvidence,
    find_elsewhere,
    is_recording,
    read_plain_pickle,
    read_recording,
)
from launcher.diagnosis.logs.tracebacks import is_stack_dump, read_stacks
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


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**100), 2**100)
    | st.text(max_size=9)
    | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.lists(inner, min_size=1, max_size=5).map(tuple)
    ),
    max_leaves=8,
)
DUMPS = [file.read_bytes() for file in sorted(RECORDED.glob("*/rank_*"))]


@pytest.mark.few_cases("2", "5")
@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@given(value=PLAIN)
def test_plain_values_come_back(protocol: int, value: Any) -> None:
    assert read_plain_pickle(pickle.dumps(value, protocol)) == value


def test_recorded_dumps_are_read_as_python_reads_them() -> None:
    assert DUMPS
    for content in DUMPS:
        assert read_plain_pickle(content) == pickle.loads(content)


class Runs:
    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.file),)


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_what_would_call_something_is_refused_before_it_does(tmp_path: Path, protocol: int) -> None:
    file = tmp_path / "made"
    content = pickle.dumps({"entries": [Runs(file)]}, protocol)
    with pytest.raises(ValueError, match="plain value"):
        read_plain_pickle(content)
    assert not file.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02cos\nsystem\n(X\x04\x00\x00\x00true\x85R.",
        b"\x80\x02(ios\nsystem\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02Pname\n.",
        b"\x80\x02}q\x00b.",
        b"\x80\x02K\x01r\xff\xff\xff\xff",
        b"\x80\x02j\xff\xff\xff\xff.",
        b"\x80\x02\x8b\xff\xff\xff\x7f",
        b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".",
        b"\x80\x02X\xff\xff\xff\xffa.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.",
        b"\x80\x02}(K\x01K\x02u.",
        b"\x80\x02}(K\x01\x85K\x02u.",
        b"\x80\x02}u.",
        b"\x80\x02e.",
        b"\x80\x02\x86.",
        b"\x80\x02",
        b"",
    ],
)
def test_hostile_and_torn_ones_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read_plain_pickle(content)


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("content", [b"\x80\x02" + b"]" * 2_000_000, b"\x80\x02(" + b"}" * 2_000_000])
def test_a_pickle_of_containers_takes_no_memory_out_of_proportion(
    content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert dumps._MOST_CONTAINERS == 2_000_000  # A tenth of them is tried, in a tenth of the memory.
    monkeypatch.setattr(dumps, "_MOST_CONTAINERS", 200_000)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="more values"):
            read_plain_pickle(content)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


def test_a_number_in_the_memo_may_be_any_without_taking_memory() -> None:
    assert read_plain_pickle(b"\x80\x02K\x07r" + struct.pack("<I", 2**32 - 1) + b".") == 7


@given(content=st.sampled_from(DUMPS), data=st.data())
def test_a_broken_dump_is_read_or_refused(content: bytes, data: st.DataObject) -> None:
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 5))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_plain_pickle(bytes(changed))
    except ValueError:
        return


@given(content=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        read_plain_pickle(b"\x80\x02" + content)
    except ValueError:
        return


TORCH = "/opt/conda/lib/python3.11/site-packages/torch/distributed"


def faulthandler(frames: str, thread: str = "Current thread") -> str:
    return f"{thread} 0x00007f1c2b5d5740 (most recent call first):\n{frames}"


WAITS = faulthandler(
    f'  File "{TORCH}/distributed_c10d.py", line 3245 in all_reduce\n'
    f'  File "{TORCH}/c10d_logger.py", line 83 in wrapper\n'
    '  File "/opt/ml/code/train.py", line 34 in step\n'
    '  File "/opt/ml/code/train.py", line 50 in <module>\n'
)
LOADS = faulthandler(
    '  File "/opt/ml/code/data.py", line 8 in fetch\n  File "/opt/ml/code/train.py", line 30 in step\n'
)
PYSPY = f"""Process 4711: python -u train.py --rank 3
Python v3.11.7 (/opt/conda/bin/python3.11)

Thread 4711 (idle): "MainThread"
    all_reduce ({TORCH}/distributed_c10d.py:3245)
    wrapper ({TORCH}/c10d_logger.py:83)
    step (/opt/ml/code/train.py:34)
    <module> (/opt/ml/code/train.py:50)
Thread 4790 (active): "Thread-1 (_pin)"
    _pin (/opt/ml/code/other.py:2)
"""


def test_the_innermost_frame_of_the_users_code_is_where_a_rank_is() -> None:
    (stack,) = read_stacks(WAITS, 0)
    assert str(stack.users) == "train.py:34 in step"
    assert stack.waits


def test_py_spy_names_the_main_thread_and_its_command_the_rank() -> None:
    (stack,) = read_stacks(PYSPY, None)
    assert (stack.rank, str(stack.users), stack.waits) == (3, "train.py:34 in step", True)


def test_several_ranks_in_one_file_are_told_apart_by_their_prefix() -> None:
    lines = [f"[rank{rank}]: {line}" for rank, text in ((0, WAITS), (1, LOADS)) for line in text.splitlines()]
    found = read_stacks("\n".join(lines), None)
    assert [(each.rank, str(each.users)) for each in found] == [
        (0, "train.py:34 in step"),
        (1, "data.py:8 in fetch"),
    ]


def test_the_rank_that_does_not_wait_is_the_one_that_is_awaited() -> None:
    texts = [WAITS, WAITS, LOADS, WAITS]
    parts = [FileEvidence(stacks=read_stacks(text, rank, "algo-1")) for rank, text in enumerate(texts)]
    cause = diagnose([], evidence=parts).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank, cause.host) == ("NCCL004", 2, "algo-1")
    assert "it is at data.py:8 in fetch" in cause.finding.message


def test_nobody_is_named_where_as_many_wait_as_do_not() -> None:
    stacks = [each for rank in range(4) for each in read_stacks(LOADS if rank < 2 else WAITS, rank)]
    assert find_elsewhere(stacks) is None


@pytest.mark.parametrize("text", [WAITS, LOADS])
def test_ranks_that_all_stand_at_one_place_say_nothing(text: str) -> None:
    assert find_elsewhere([each for rank in range(4) for each in read_stacks(text, rank)]) is None


def test_the_name_of_a_file_tells_rank_and_host() -> None:
    assert rank_in("/tmp/algo-2/stacks/rank_11.stacks") == 11
    assert host_in("/tmp/algo-2/stacks/rank_11.stacks") == "algo-2"
    assert rank_in("pyspy.txt") is None


def test_a_file_of_stacks_is_known_and_read_as_a_log_as_well() -> None:
    found = evidence_of("rank_0.txt", WAITS.encode(), lambda _: WAITS.encode())
    assert found is not None
    assert found.has_lines
    assert [each.rank for each in found.stacks] == [0]
    assert not is_stack_dump(b"step 3\nThread 3 is idle\n")


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    read_stacks(text, 0)
    read_stacks(PYSPY + text + WAITS + text, None)


def deep() -> tuple[object, ...]:
    value: tuple[object, ...] = ("nccl:all_reduce",)
    for _ in range(40):
        value = (value, value)
    return value


ENTRY = {
    "profiling_name": "nccl:all_reduce",
    "process_group": ("0", ""),
    "collective_seq_id": 1,
    "frames": [],
}
FRAME = {"filename": "train.py", "line": 1, "name": "main"}


@pytest.mark.parametrize(
    "entry",
    [
        {**ENTRY, "profiling_name": deep()},
        {**ENTRY, "process_group": (deep(), "")},
        {**ENTRY, "pg_id": deep()},
        {**ENTRY, "input_dtypes": [deep()]},
        {**ENTRY, "frames": [{**FRAME, "name": deep()}]},
    ],
)
def test_values_that_hold_themselves_twice_and_so_on_have_no_text(entry: dict[str, object]) -> None:
    content = pickle.dumps({"entries": [entry]}, 2)
    assert len(content) < 1000
    with pytest.raises(ValueError, match="a tuple in the place of a text"):
        read_recording(content, 0)


def test_what_is_shared_counts_as_often_as_it_is_looked_at() -> None:
    """A megabyte: 300,000 times one entry of 300,000 times one frame."""
    frames, group = [FRAME] * 300_000, {"ranks": [1] * 300_000}
    for dump in (
        {"entries": [{**ENTRY, "frames": frames}] * 300_000},
        {"entries": [ENTRY], "pg_config": {str(number): group for number in range(30_000)}},
    ):
        with pytest.raises(ValueError, match="more values in it than any recorder holds"):
            read_recording(pickle.dumps(dump, 2), 0)
