"""Logs of jobs whose ranks were started again: what failed before is history."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.ending import End, Ending
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.diagnosis.record import Record

TRACEBACK = """
[rank2]:Traceback (most recent call last):
[rank2]:  File "/opt/ml/code/train.py", line 12, in <module>
[rank2]:    batch = rows[7]
[rank2]:KeyError: 7
"""
LOST = "[rank0]:RuntimeError: [..pair.cc:553] Connection closed by peer [10.0.0.2]:3456"
RESTART = (
    "slipway: restart {number} of 3: after 41 s and 25 steps CODE001 rank 2 on algo-2: KeyError: 7 "
    "(train.py:12); this may have been once (newest complete checkpoint: step 20)"
)
OUT_OF_MEMORY = "[rank3]:torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


def diagnosis(one: list[str], two: list[str], end: End | None = None) -> Diagnosis:
    lines = [Record(None, "algo-1", text) for text in one] + [Record(None, "algo-2", text) for text in two]
    return diagnose(lines, ending=Ending(end) if end else None)


def restart(number: int) -> str:
    return RESTART.replace("{number}", str(number))


def test_what_was_started_again_and_goes_on_has_not_failed() -> None:
    found = diagnosis([LOST, restart(1), "step 21"], [*TRACEBACK.split("\n"), restart(1), "step 21"])
    assert (found.verdict, found.root_cause) == (Verdict.HEALTHY, None)


def test_each_restart_is_told_once_whatever_came_of_the_job() -> None:
    for last in ("step 90", OUT_OF_MEMORY):
        found = diagnosis([restart(1), restart(2), last], [restart(1), restart(2)])
        told = [finding.message for finding in found.findings if "restart " in finding.message]
        assert [text.split(":")[0] for text in told] == ["restart 1 of 3", "restart 2 of 3"]


def test_the_root_cause_is_of_the_last_start() -> None:
    found = diagnosis([LOST, restart(1), "step 21", OUT_OF_MEMORY], [*TRACEBACK.split("\n"), restart(1)])
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("MEM001", 3)
    assert not found.consequences


def test_a_stream_that_tells_of_no_restart_is_read_as_before() -> None:
    found = diagnosis([restart(1)], TRACEBACK.split("\n"))
    assert found.root_cause is not None
    assert found.root_cause.rank == 2


@pytest.mark.parametrize("same", ["KeyError: 7", "KeyError: 8"])
def test_the_same_failure_again_is_found_again(same: str) -> None:
    again = TRACEBACK.replace("KeyError: 7", same).split("\n")
    found = diagnosis([LOST, restart(1)], [*TRACEBACK.split("\n"), restart(1), *again])
    assert found.root_cause is not None
    assert same in found.root_cause.finding.message
