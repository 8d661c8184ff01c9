"""What our peers' own tests ask, asked of us: every answer is the one that is judged right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.peers.answers import answer
from tests.peers.cases import Case, all_cases

DEVELOPING = Path(__file__).parents[2] / "docs" / "contributing" / "developing.md"

LEAST_AGREEMENT = 0.95
"""The share of cases in which we must answer as is judged right, the open ones counted as wrong."""


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.group}: {case.id}")
def test_a_case_is_answered_as_is_right(case: Case, tmp_path: Path) -> None:
    given = answer(case, tmp_path)

    assert given.meets(case) is (case.open is None), (given, case.expected, case.by)


def test_nearly_every_case_is_answered_as_is_right() -> None:
    cases = all_cases()
    assert len(cases) >= 200
    assert sum(case.open is None for case in cases) >= LEAST_AGREEMENT * len(cases)


def test_who_contradicts_a_peer_says_why() -> None:
    silent = [case.id for case in all_cases() if not case.agrees_with_peer and not case.reason]
    assert silent == []


def test_a_reason_is_given_for_a_contradiction_alone() -> None:
    idle = [case.id for case in all_cases() if case.reason and case.expected == case.peer]
    assert idle == []


def test_a_refusal_of_a_job_names_its_code() -> None:
    unnamed = [
        case.id for case in all_cases() if case.kind == "job" and case.expected == "refused" and not case.by
    ]
    assert unnamed == []


def test_no_two_cases_have_one_name() -> None:
    assert [name for name, count in Counter(case.id for case in all_cases()).items() if count > 1] == []


def test_the_figures_in_the_documentation_are_current() -> None:
    cases = all_cases()
    right = sum(case.open is None for case in cases)
    contradicted = sum(not case.agrees_with_peer for case in cases)
    figures = f"Of {len(cases)} cases {right} are answered so; in {contradicted} that is another answer"
    assert f"{figures} than the peer's" in DEVELOPING.read_text("utf-8")
