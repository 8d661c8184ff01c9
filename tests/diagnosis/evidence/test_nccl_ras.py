"""The report of ncclras, in the words of NCCL 2.28's src/ras/client_support.cc."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.nccl_ras import read_ras_report
from launcher.diagnosis.evidence.recognition import evidence_of

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
