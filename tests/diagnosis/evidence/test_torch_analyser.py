"""The output of PyTorch's analyser of flight recorders, in the words of its versions."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.evidence.recognition import evidence_of

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
