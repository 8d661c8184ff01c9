"""Every row of the signatures proves itself by its own example and its own near miss."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.match.rows import ROLES, rows_matching
from launcher.diagnosis.signatures.signature import Context, Signature
from launcher.diagnosis.signatures.table import CONTEXTS, SIGNATURES
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import registered

PLANNED = json.loads((Path(__file__).parents[2] / "failure_modes/planned_stages.json").read_text("utf-8"))

ROWS = [pytest.param(row, id=f"{row.mode.code}-{row.literal}") for row in (*SIGNATURES, *CONTEXTS)]
ONLY_SIGNATURES = [pytest.param(row, id=f"{row.code}-{row.literal}") for row in SIGNATURES]


@pytest.mark.parametrize("row", ROWS)
def test_a_row_matches_its_example(row: Signature | Context) -> None:
    assert row.pattern.search(row.example)


@pytest.mark.parametrize("row", ROWS)
def test_a_row_does_not_match_its_near_miss(row: Signature | Context) -> None:
    assert not row.pattern.search(row.near_miss)


@pytest.mark.parametrize("row", ROWS)
def test_the_literal_lets_example_and_near_miss_through(row: Signature | Context) -> None:
    assert row.literal == row.literal.lower()
    assert row.literal in row.example.lower()
    assert row.literal in row.near_miss.lower(), "only then it is the pattern that refuses"


@pytest.mark.parametrize("row", ONLY_SIGNATURES)
def test_no_row_is_shadowed_by_another_one(row: Signature) -> None:
    matches = [match for match, _ in rows_matching(row.example)]
    assert min(matches, key=lambda match: (ROLES[match.role], match.vague)) is row


@pytest.mark.parametrize("row", ROWS)
def test_the_code_is_in_the_catalogue_and_planned_for_logs(row: Signature | Context) -> None:
    assert CATALOGUE[row.mode.code] is row.mode
    assert Stage.LOG.letter in PLANNED[row.mode.code]


@pytest.mark.parametrize("row", ONLY_SIGNATURES)
def test_a_message_uses_only_what_the_pattern_captures(row: Signature) -> None:
    used = {name for _, name, _, _ in string.Formatter().parse(row.says or "") if name}
    assert used <= set(row.captures)


@pytest.mark.parametrize("row", ONLY_SIGNATURES)
def test_the_message_of_the_example_is_filled_in(row: Signature) -> None:
    found = diagnose([Record(None, "algo-1", line) for line in row.example.split("\n")]).findings
    assert "{" not in "".join(finding.message for finding in found)


@pytest.mark.parametrize("row", ONLY_SIGNATURES)
def test_only_rows_that_may_be_the_root_cause_become_one(row: Signature) -> None:
    root = diagnose([Record(None, "algo-1", line) for line in row.example.split("\n")]).root_cause
    assert (root.finding.code if root else None) == (row.code if row.role.may_be_root else None)


def test_every_row_is_registered() -> None:
    claimed = {mode.code for entry in registered() if entry.stage is Stage.LOG for mode in entry.modes}
    assert {row.mode.code for row in (*SIGNATURES, *CONTEXTS)} <= claimed


def test_the_codes_of_the_first_diagnosis_are_all_there() -> None:
    first = ["MEM001", "MEM002", "HW001", "CAP001", "CAP002", "CODE001", "NCCL004", "NCCL005", "S3002"]
    assert set(first) <= {row.code for row in SIGNATURES}
