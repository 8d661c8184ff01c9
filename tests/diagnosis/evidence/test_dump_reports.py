"""NCCL's own report and PyTorch's analyser of flight recorders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.collect import evidence_of
from launcher.diagnosis.evidence.dumps import FileEvidence, read_ras_report

BEGINNING = """NCCL version 2.28.3 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  MISMATCH
    1         4         1         2         2         8   RUNNING  OK

"""
BEHIND = """Warnings
========

#0-0 (a1b2c3d4e5f60708) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 1580
  Rank 5 has launched up to operation 1579 -- GPU 1 managed by process 4712 on node 10.0.0.2
"""
MISSING = """Errors
======

#0-0 (a1b2c3d4e5f60708) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 3 managed by process 4711 on node 10.0.0.1

"""


def test_the_rank_that_is_behind_the_others_is_named() -> None:
    text = BEGINNING + BEHIND
    found = evidence_of("ras.txt", text.encode(), lambda _: text.encode())
    assert found is not None
    assert found.world_size == 8
    cause = diagnose([], evidence=[found]).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == ("NCCL004", 5)
    assert "has launched AllReduce up to #1579, where most are at #1580" in cause.finding.message


def test_a_missing_rank_is_the_cause_of_others_being_behind() -> None:
    cause = diagnose([], evidence=[read_ras_report(BEGINNING + MISSING + BEHIND)]).root_cause
    assert cause is not None
    assert cause.rank == 3


def test_two_ranks_that_are_behind_together_are_told_and_none_is_named() -> None:
    text = BEHIND.replace("7 ranks", "6 ranks").partition("  Rank 5")[0] + (
        "  2 ranks have launched up to operation 1579\n"
        "  Rank 4 -- GPU 0 managed by process 4712 on node 10.0.0.2\n"
        "  Rank 5 -- GPU 1 managed by process 4713 on node 10.0.0.2\n"
    )
    (sighting,) = read_ras_report(BEGINNING + text).sightings
    assert sighting.rank is None
    assert sighting.what.startswith("ranks 4, 5 have launched AllReduce")


def test_the_ranks_of_a_smaller_communicator_are_not_the_jobs() -> None:
    found = read_ras_report(BEGINNING + BEHIND.replace("#0-0", "#1-2"))
    assert (found.rows, found.sightings) == ((), ())


def test_a_report_without_errors_says_nothing() -> None:
    assert read_ras_report(BEGINNING).sightings == ()


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    read_ras_report(BEGINNING + text + BEHIND + text)


RECORD = """internal record id: 7
group info: 0:default_pg
collective: nccl:all_reduce
{told}
input sizes: [[1024]]
output sizes: [[1024]]
world size: 4
expected ranks: {{0, 1, 2, 3}}
collective state: scheduled
collective stack trace:
 train at train.py:31
"""
HEADS = [
    "Not all ranks joining collective, sequence number: 8",
    "Not all ranks joining collective 8 at entry 7",
]
DIFFERS = (
    "error msg: Culprit rank 2; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: 'all_reduce' "
    "does not match found collective type: 'broadcast'"
)


def analysed(head: str, told: str) -> FileEvidence:
    text = f"{head}\n{RECORD.format(told=told)}"
    found = evidence_of("analysis.txt", text.encode(), lambda _: text.encode())
    assert found is not None
    return found


@pytest.mark.parametrize("head", HEADS)
def test_the_rank_that_did_not_join_is_named(head: str) -> None:
    found = analysed(head, "missing ranks: {3}")
    cause = diagnose([], evidence=[found]).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank, found.world_size) == ("NCCL004", 3, 4)
    assert "has not joined nccl:all_reduce #8, in which the others wait" in cause.finding.message


def test_of_several_ranks_nobody_is_named_alone() -> None:
    cause = diagnose([], evidence=[analysed(HEADS[0], "missing ranks: {1, 2}")]).root_cause
    assert cause is not None
    assert cause.rank is None
    assert "ranks 1, 2 have not joined" in cause.finding.message


@pytest.mark.parametrize(
    "head", ["Collective sequence number: 8 has errors", "Collective 8 at entry 7 errors"]
)
def test_the_rank_that_called_something_else_is_named(head: str) -> None:
    cause = diagnose([], evidence=[analysed(head, DIFFERS)]).root_cause
    assert cause is not None
    assert cause.rank == 2
    assert "collective type mismatch: Expected collective type: 'all_reduce'" in cause.finding.message


def test_a_state_that_differs_names_nobody() -> None:
    state = "error msg: Culprit rank 1; Error type: COLLECTIVE_STATE_MISMATCH, Expected state: 'scheduled'"
    assert analysed(HEADS[0], state).sightings == ()


def test_the_first_of_a_group_counts() -> None:
    text = f"{HEADS[0].replace('8', '9')}\n{RECORD.format(told='missing ranks: {1}')}{HEADS[0]}\n"
    text += RECORD.format(told="missing ranks: {3}")
    found = evidence_of("analysis.txt", text.encode(), lambda _: text.encode())
    assert found is not None
    assert [sign.rank for sign in found.sightings] == [3]


def test_other_texts_are_no_analysis() -> None:
    assert evidence_of("a.log", b"Collective 8 begins\nstep 9\n", lambda _: b"") is None
