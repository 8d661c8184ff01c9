"""What the health gate says in a job's log is the diagnosis of a job that it refused."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.match.rows import rows_matching
from launcher.diagnosis.signatures import SIGNATURES
from slipway.gate.judge_host import ORDER, HostFinding, Report
from slipway.gate.judge_network import first_host_silent, judge_pairs, missing_hosts
from slipway.gate.pass_gate import verdict_lines, verdict_of
from tests.diagnosis.cases import records

ROWS = [
    row
    for row in SIGNATURES
    if "slipway: " in row.example and "algo-2: " in row.example and row.says == "{what}"
]
HOSTS = ["algo-1", "algo-2", "algo-3"]

BLOCKED = {
    "algo-1": {"algo-2": {"ended": "connection", "reason": "no answer in time", "address": "10.0.0.2:4"}},
    "algo-2": {},
    "algo-3": {},
}

REAL = {
    "NCCL008 of a missing host": missing_hosts(["algo-2"], HOSTS, 60.0, 7778)[0],
    "NCCL008 of the first host": first_host_silent("algo-1", "10.0.0.1:7778 did not answer within 80 s"),
    "NCCL007": judge_pairs(BLOCKED, HOSTS).findings[0],
}


def said(finding: HostFinding, host: str, mode: str) -> str:
    """What a host prints of a verdict with this finding."""
    verdict = verdict_of({finding.host: Report((finding,))}, HOSTS, mode)
    return "\n".join(f"slipway: {line}" for line in verdict_lines(verdict, host, HOSTS, 3.0, "3 hosts"))


@pytest.mark.parametrize("finding", [pytest.param(each, id=name) for name, each in REAL.items()])
@pytest.mark.parametrize("host", HOSTS)
def test_a_refused_job_has_the_gates_code_host_and_measurement(finding: HostFinding, host: str) -> None:
    cause = diagnose(records(said(finding, host, "on"), host)).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.host) == (finding.code, finding.host)
    assert finding.text[:40] in cause.finding.message


def test_what_the_gate_only_tells_is_no_cause_of_a_failure() -> None:
    log = said(REAL["NCCL007"], "algo-1", "warn") + "\nTraceback (most recent call last):\nKeyError: 'label'"
    cause = diagnose(records(log, "algo-1")).root_cause
    assert cause is not None
    assert cause.finding.code == "CODE001"


def test_a_stall_is_of_the_host_of_the_rank_that_does_not_come() -> None:
    line = (
        "slipway: NCCL004 rank 2 on algo-2 has not entered all_reduce #21 [4160] (train.py:27), in which "
        "ranks 0, 1, 3 wait; it gives no answer, process state T; no rank has made a step for 62 s"
    )
    cause = diagnose(records(line, "algo-1")).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.finding.subject, cause.host) == ("NCCL004", "rank 2", "algo-2")


def test_the_gate_has_a_row_for_each_code_that_it_finds() -> None:
    assert {row.code for row in ROWS} == set(ORDER) - {""}


def test_what_the_boot_says_after_the_ranks_have_run_is_none_of_it() -> None:
    line = "slipway: HW001 rank 0 on algo-1: the GPU returned memory that could not be corrected"
    assert not [row for row, _ in rows_matching(line) if row in ROWS]
