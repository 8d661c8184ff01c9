"""Every row of the signatures proves itself by its own example and its own near miss."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable
from typing import Any

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.match.rows import ROLES, rows_matching
from launcher.diagnosis.model import Diagnosis
from launcher.diagnosis.signatures import CONTEXTS, LACKS, SIGNATURES, Signature
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import registered

EVERY_KIND = (*SIGNATURES, *CONTEXTS, *LACKS.values())


def wrong(rows: Iterable[Any], holds: Callable[[Any], Any]) -> list[tuple[str, str]]:
    """Code and example of the rows for which something does not hold."""
    return [(row.mode.code, row.example) for row in rows if not holds(row)]


def of_example(row: Signature) -> Diagnosis:
    return diagnose([Record(None, "algo-1", line) for line in row.example.split("\n")])


def test_a_row_matches_its_example_and_not_its_near_miss() -> None:
    assert wrong(EVERY_KIND, lambda row: row.pattern.search(row.example)) == []
    assert wrong(EVERY_KIND, lambda row: not row.pattern.search(row.near_miss)) == []


def test_the_literal_lets_example_and_near_miss_through() -> None:
    """Only then it is the pattern that refuses the near miss."""
    rows = (*SIGNATURES, *CONTEXTS)
    assert wrong(rows, lambda row: row.literal == row.literal.lower()) == []
    assert wrong(rows, lambda row: row.literal in row.example.lower()) == []
    assert wrong(rows, lambda row: row.literal in row.near_miss.lower()) == []


def test_no_row_is_shadowed_by_another_one() -> None:
    def first(row: Signature) -> Signature:
        matches = [match for match, _ in rows_matching(row.example)]
        return min(matches, key=lambda match: (ROLES[match.role], match.vague))

    assert wrong(SIGNATURES, lambda row: first(row) is row) == []


def test_a_row_that_calls_for_another_attempt_than_its_mode_wins_against_the_rows_of_its_mode() -> None:
    def retry(row: Signature) -> Any:
        matches = [match for match, _ in rows_matching(row.example)]
        return min(matches, key=lambda match: (ROLES[match.role], match.vague)).retry

    assert wrong(SIGNATURES, lambda row: row.retry in (None, retry(row))) == []


def test_a_mode_with_a_row_is_planned_for_logs() -> None:
    assert wrong((*SIGNATURES, *CONTEXTS), lambda row: Stage.LOG in row.mode.stages) == []


def test_a_message_uses_only_what_the_pattern_captures() -> None:
    def used(row: Signature) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(row.says or "") if name}

    assert wrong(SIGNATURES, lambda row: used(row) <= set(row.captures)) == []


def test_the_message_of_the_example_is_filled_in() -> None:
    assert (
        wrong(SIGNATURES, lambda row: all("{" not in each.message for each in of_example(row).findings)) == []
    )


def test_only_rows_that_may_be_the_root_cause_become_one() -> None:
    def root(row: Signature) -> str | None:
        cause = of_example(row).root_cause
        return cause.finding.code if cause else None

    assert wrong(SIGNATURES, lambda row: root(row) == (row.code if row.role.may_be_root else None)) == []


def test_every_row_is_registered() -> None:
    claimed = {mode.code for entry in registered() if entry.stage is Stage.LOG for mode in entry.modes}
    assert {row.mode.code for row in (*SIGNATURES, *CONTEXTS)} <= claimed


def test_the_codes_of_the_first_diagnosis_are_all_there() -> None:
    first = ["MEM001", "MEM002", "HW001", "CAP001", "CAP002", "CODE001", "NCCL004", "NCCL005", "S3002"]
    assert set(first) <= {row.code for row in SIGNATURES}
