"""What is called healthy, and what is said of what nobody understood."""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.model import Diagnosis, RankState, Verdict
from launcher.diagnosis.verdict.stream_ends import describe_first_silent
from tests.diagnosis.cases import records
from tests.logs.cases import log_cases

STEPS = "\n".join(f"step {number} loss 2.0" for number in range(1, 40))


def said(text: str) -> Diagnosis:
    return diagnose(records(text))


def test_a_dump_that_could_not_be_read_leaves_it_open() -> None:
    found = diagnose(records(STEPS), evidence=[FileEvidence(unread=("rank_0: cut",))])
    assert found.verdict is Verdict.UNKNOWN
    assert "1 file of evidence could not be read" in found.summary


def test_the_rank_that_fell_silent_long_before_all_others_is_named() -> None:
    rows = [RankState(rank, last_output=1000.0 if rank != 3 else 400.0) for rank in range(8)]
    assert "rank 3 fell silent first, 10 minutes" in describe_first_silent(rows)
    assert describe_first_silent([RankState(rank, last_output=1000.0 + rank) for rank in range(8)]) is None
    stepped = [RankState(rank, step=40 if rank != 2 else 12) for rank in range(4)]
    assert "rank 2 stopped first, at step 12" in describe_first_silent(stepped)


def test_no_log_of_those_without_a_failure_becomes_unknown_unless_it_is_cut_off() -> None:
    """Of those in which nothing shows how the job goes on unknown is right: their labels say why."""
    without = [case for case in log_cases() if not case.codes and not case.failure_reason]
    unknown = {case.name for case in without if said(case.text).verdict is Verdict.UNKNOWN}
    assert unknown == {case.name for case in without if case.unknown}
    assert len(without) >= 300
