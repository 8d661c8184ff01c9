"""Logs modelled on public issue threads: the root cause is the right one, and healthy logs stay healthy."""

from __future__ import annotations

import re

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.ending import End, Ending
from tests.diagnosis.cases import Case, cases, records

CASES = [pytest.param(case, id=case.name) for case in cases()]
LOCATED = [
    pytest.param(case, id=case.name)
    for case in cases()
    if re.fullmatch(r"(local_)?rank \d+|[\w.-]*\d[\w.-]*", case.label["first_failing"] or "")
]


@pytest.mark.parametrize("case", CASES)
def test_the_root_cause_is_the_right_one(case: Case) -> None:
    root = diagnose(records(case.text)).root_cause
    code = root.finding.code if root else None
    assert code in (case.label["codes"] + case.label["also"] or [None])


@pytest.mark.parametrize("case", LOCATED)
def test_the_one_that_failed_first_is_named(case: Case) -> None:
    root = diagnose(records(case.text)).root_cause
    wanted = case.label["first_failing"].replace("_", " ")
    said = f"rank {root.rank} | {root.host} | {root.finding.subject}"
    assert wanted in said


def test_there_are_healthy_logs_among_them() -> None:
    assert sum(not case.label["codes"] for case in cases()) >= 4


@pytest.mark.parametrize("case", CASES)
def test_ending_a_job_well_means_no_root_cause(case: Case) -> None:
    assert diagnose(records(case.text), ending=Ending(End.COMPLETED)).root_cause is None
