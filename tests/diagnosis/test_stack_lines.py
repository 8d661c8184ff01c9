"""Stacks that ranks print among their lines tell where each stands, as a file of stacks does."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.diagnosis.record import Record

FAULT = 'Thread 0x00007f1 (most recent call first):\n  File "{file}", line {line} in {function}\n'
PYSPY = 'Thread 4711 (active): "MainThread"\n    {function} ({file}:{line})\n'
USERS = '  File "/opt/ml/code/train.py", line {} in main'
OF_PYSPY = "    main (/opt/ml/code/train.py:{})"
WAITS = {
    "file": "/x/site-packages/torch/distributed/distributed_c10d.py",
    "line": 2501,
    "function": "all_reduce",
}
READS = {"file": "/opt/ml/code/data.py", "line": 31, "function": "read"}


def told(form: str, users: str, after: str = "", ranks: int = 4) -> Diagnosis:
    lines: list[Record] = []
    for rank in range(ranks):
        stack = form.format(**(READS if rank == 2 else WAITS)) + users.format(90)
        texts = [
            "step 1 loss 2",
            "step 2 loss 2",
            "Timeout (0:05:00)!",
            *stack.split("\n"),
            *after.split("\n"),
        ]
        lines += [Record(None, "algo-1", f"[rank{rank}]: {text}") for text in texts]
    return diagnose(lines)


@pytest.mark.parametrize(
    ("form", "users"), [(FAULT, USERS), (PYSPY, OF_PYSPY)], ids=["faulthandler", "py-spy"]
)
def test_the_rank_that_stands_elsewhere_than_those_that_wait_is_named(form: str, users: str) -> None:
    found = told(form, users)
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("NCCL004", 2)
    assert "data.py:31 in read" in found.root_cause.finding.message
    assert {row.rank: row.frame for row in found.ranks}[0] == "train.py:90 in main"


@pytest.mark.parametrize("after", ["step 3 loss 2", "Training finished"])
def test_what_goes_on_after_its_stacks_stands_nowhere(after: str) -> None:
    assert told(FAULT, USERS, after).verdict is Verdict.HEALTHY


def test_stacks_of_nobody_in_particular_name_nobody() -> None:
    lines = [Record(None, "", text) for text in (FAULT.format(**READS) + USERS.format(90)).split("\n")]
    assert diagnose(lines).root_cause is None
