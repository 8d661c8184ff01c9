"""Stacks of py-spy and faulthandler: where each rank is, and who stands elsewhere than those that wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.sagemaker_names import host_in
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.evidence.recognition import evidence_of, rank_in
from launcher.diagnosis.evidence.stacks import elsewhere, is_stack_dump, read_stacks

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
    assert elsewhere(stacks) is None


@pytest.mark.parametrize("text", [WAITS, LOADS])
def test_ranks_that_all_stand_at_one_place_say_nothing(text: str) -> None:
    assert elsewhere([each for rank in range(4) for each in read_stacks(text, rank)]) is None


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
