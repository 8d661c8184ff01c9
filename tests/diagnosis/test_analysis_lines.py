"""What torch's analyser of flight recorders says in the middle of a log counts as in a file of its own."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Verdict
from launcher.diagnosis.record import Record
from tests.diagnosis.cases import records

STEPS = "\n".join(f"[rank0]: step {step} loss 2.0" for step in range(40))
WAITS = (
    "[rank0]:[E820 11:30:44.1 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=31117, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for "
    "600061 milliseconds before timing out."
)
FIELDS = """internal record id: 31116
group info: 0:default_pg
collective: nccl:all_reduce
missing ranks: {ranks}
input sizes: [[1571911]]
output sizes: [[1571911]]
world size: 8
expected ranks: {{0, 1, 2, 3, 4, 5, 6, 7}}"""
HEADS = (
    "Not all ranks joining collective: sequence number: 31117",
    "Not all ranks joining collective, sequence number: 31117",
    "Not all ranks joining collective 31117 at entry 31116",
)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("before", ["", WAITS])
def test_the_rank_that_did_not_join_is_named(head: str, before: str) -> None:
    lines = "\n".join([STEPS, *([before] if before else []), head, FIELDS.format(ranks="{3}")])
    cause = diagnose(records(lines)).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank, cause.finding.subject) == ("NCCL004", 3, "rank 3")
    assert "has not joined nccl:all_reduce #31117, in which the others wait" in cause.finding.message


def test_of_several_ranks_nobody_is_named_alone() -> None:
    cause = diagnose(records(f"{STEPS}\n{HEADS[0]}\n{FIELDS.format(ranks='{3, 4, 5, 6, 7}')}")).root_cause
    assert cause is not None
    assert cause.rank is None
    assert "ranks 3, 4, 5, 6, 7 have not joined" in cause.finding.message


def test_lines_of_other_ranks_may_stand_between_the_fields() -> None:
    said = ("Not all ranks joining collective, sequence number: 4", "collective: nccl:all_reduce")
    lines: list[str] = []
    for line in (*said, "missing ranks: {1}"):
        lines += [f"[rank0]: {line}", "[rank1]: step 9 loss 2.0"]
    cause = diagnose([Record(None, "algo-1", line) for line in lines]).root_cause
    assert cause is not None
    assert cause.rank == 1


def test_the_rank_that_called_something_else_is_named() -> None:
    said = (
        "error msg: Culprit rank 2; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective type: "
        "'all_reduce' does not match found collective type: 'broadcast'"
    )
    cause = diagnose(records(f"{STEPS}\n{said}")).root_cause
    assert cause is not None
    assert cause.rank == 2
    assert "differs from the others in a collective (collective type mismatch" in cause.finding.message


def test_ranks_that_join_later_were_only_slow() -> None:
    said = f"{HEADS[1]}\n{FIELDS.format(ranks='{1}')}"
    later = "\n".join(f"[rank0]: step {step} loss 2.0" for step in range(40, 80))
    assert diagnose(records(f"{STEPS}\n{said}\n{later}")).verdict is Verdict.HEALTHY


def test_what_only_resembles_it_is_nothing() -> None:
    lines = f"{STEPS}\nNot all ranks joining collective calls is a bug\nINFO the culprit rank is unknown\n"
    assert diagnose(records(lines + "[rank0]: step 41 loss 2.0")).verdict is Verdict.HEALTHY
