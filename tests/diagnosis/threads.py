"""Logs of jobs as they were pasted into public issue threads, each with what is known of it.

They were labelled before the diagnosis saw them. What is kept of each are the fewest lines with the same
answer, in names of ours (`tools/reduce_logs`).
"""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from tests.diagnosis.cases import records
from tests.logs.cases import LogCase, log_cases


def threads() -> list[LogCase]:
    """All of them, by name."""
    return [case for case in log_cases() if not case.modelled]


def diagnosis_of(case: LogCase) -> Diagnosis:
    """What the diagnosis says of a case."""
    return diagnose([], case.text) if case.failure_reason else diagnose(records(case.text))


def is_right(case: LogCase, told: Diagnosis) -> bool:
    """Whether the root cause is one of those in the label, or none where there is none."""
    code = told.root_cause.finding.code if told.root_cause else None
    return code in ((*case.codes, *case.also) or (None,))
