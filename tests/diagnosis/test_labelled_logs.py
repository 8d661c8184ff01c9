"""Logs modelled on public issue threads: the root cause is the right one, and healthy logs stay healthy."""

from __future__ import annotations

import re

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import End, Ending
from tests.diagnosis.cases import cases, records
from tests.diagnosis.threads import diagnosis_of, is_right


def test_the_root_cause_is_the_right_one() -> None:
    assert [case.name for case in cases() if not is_right(case, diagnosis_of(case))] == []


def test_the_one_that_failed_first_is_named() -> None:
    unnamed = {}
    for case in cases():
        if not re.fullmatch(r"(local_)?rank \d+|[\w.-]*\d[\w.-]*", case.first_failing or ""):
            continue
        root = diagnosis_of(case).root_cause
        said = root and f"rank {root.rank} | {root.host} | {root.finding.subject}"
        if not said or str(case.first_failing).replace("_", " ") not in said:
            unnamed[case.name] = said
    assert unnamed == {}


def test_there_are_healthy_logs_among_them() -> None:
    assert sum(not case.codes for case in cases()) >= 4


def test_ending_a_job_well_means_no_root_cause() -> None:
    completed = {case.name: diagnose(records(case.text), ending=Ending(End.COMPLETED)) for case in cases()}
    assert {name: told.root_cause for name, told in completed.items() if told.root_cause is not None} == {}
