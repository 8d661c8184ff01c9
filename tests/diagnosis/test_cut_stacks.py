"""Logs that end in the middle of a traceback: an exception was raised, and where, is all they tell."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.diagnosis.record import Record

STACK = (
    '  File "<frozen runpy>", line 88, in _run_code',
    '  File "/opt/ml/code/train.py", line 121, in <module>',
    "    main(parse_arguments())",
    '  File "/opt/ml/code/train.py", line 45, in main',
    "    model = build(",
    "            ^^^^^^",
)
TO_RENDEZVOUS = (
    "Traceback (most recent call last):",
    '  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/run.py", line 892, in run',
    "    elastic_launch(",
    '  File "/opt/conda/lib/python3.11/site-packages/torch/distributed/elastic/rendezvous/'
    'static_tcp_rendezvous.py", line 66, in next_rendezvous',
    "    self._store = TCPStore(",
)


def diagnosis(*lines: str) -> Diagnosis:
    return diagnose([Record(None, "algo-1", line, "algo-1") for line in lines])


def of_rank(rank: int, lines: Sequence[str]) -> list[str]:
    return [f"[rank{rank}]:{line}" for line in lines]


@pytest.mark.parametrize("torn", [[], ["    )"], ["Valu"]])
def test_a_log_that_ends_within_a_stack_tells_that_and_where_an_exception_was_raised(torn: list[str]) -> None:
    found = diagnosis("loading the model", *STACK, *torn)
    assert found.verdict is Verdict.FAILED
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "CODE001"
    assert "an exception, of which the log has only the stack" in found.root_cause.finding.message
    assert "train.py:45" in found.root_cause.finding.message


def test_the_rank_is_that_of_the_stack_among_the_lines_of_others() -> None:
    mixed = [line for pair in zip(of_rank(1, STACK), ["[rank0]:loading"] * 6, strict=True) for line in pair]
    found = diagnosis(*mixed)
    assert found.root_cause is not None
    assert found.root_cause.finding.subject == "rank 1"


@pytest.mark.parametrize(
    "before", ["Stack (most recent call last):", "Thread 0x7f12 (most recent call first):"]
)
def test_a_stack_that_is_printed_without_an_error_is_none(before: str) -> None:
    assert diagnosis("loading the model", before, *STACK).verdict is Verdict.UNKNOWN


def test_the_stacks_of_faulthandler_have_no_error() -> None:
    lines = [line.replace(", in ", " in ") for line in STACK]
    assert diagnosis("loading the model", *lines).verdict is Verdict.UNKNOWN


def test_what_comes_after_a_stack_shows_that_somebody_dealt_with_it() -> None:
    assert diagnosis(*STACK, "INFO retried", "INFO step 3 of 10").root_cause is None


def test_a_stack_of_an_earlier_start_is_history() -> None:
    again = "INFO torch.distributed.elastic.agent.server.api:[default] Restarting worker group"
    assert diagnosis(*of_rank(1, STACK), again, "[rank0]:loading").root_cause is None


def test_a_stack_with_its_header_is_told_once() -> None:
    found = diagnosis(*of_rank(1, ("Traceback (most recent call last):", *STACK)))
    assert [finding.message for finding in found.findings] == [
        "rank 1 on algo-1: an exception, of which the log has only the stack (train.py:45)"
    ]


def test_a_stack_with_its_header_before_training_went_on_was_survived() -> None:
    steps = [f"[rank0]:step {step} of 90 loss 2.1" for step in range(3, 9)]
    cut = of_rank(1, ("Traceback (most recent call last):", *STACK))
    assert diagnosis(*steps[:2], *cut, *steps[2:]).root_cause is None


@pytest.mark.parametrize("raised", ["ValueError: bad learning rate", "zipfile.BadZipFile: bad header"])
def test_an_exception_that_stands_there_is_told_rather_than_the_stack(raised: str) -> None:
    found = diagnosis("Traceback (most recent call last):", *STACK, raised)
    assert found.root_cause is not None
    assert found.root_cause.finding.message == f"algo-1: {raised} (train.py:45)"
    assert found.consequences == ()


def test_the_known_failure_of_another_rank_comes_first() -> None:
    found = diagnosis("[rank0]: torch.OutOfMemoryError: CUDA out of memory.", *of_rank(1, STACK))
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.finding.subject) == ("MEM001", "rank 0")


def test_a_stack_that_ends_where_hosts_meet_tells_that_they_did_not() -> None:
    found = diagnosis(*TO_RENDEZVOUS)
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "NCCL008"
