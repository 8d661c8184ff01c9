"""`${NAME}` in a job file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.load import load_job

WriteJob = Callable[..., Path]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${TEAM}", "vision"),
        ("a-${TEAM}-b", "a-vision-b"),
        ("$${TEAM}", "${TEAM}"),
        ("$TEAM", "$TEAM"),
        ("{TEAM}", "{TEAM}"),
        ("${TEAM}${RUN}", "vision7"),
    ],
)
def test_a_reference_stands_for_its_value(write_job: WriteJob, written: str, value: str) -> None:
    loaded = load_job(write_job(environment={"X": written}), {}, {"TEAM": "vision", "RUN": "7"})
    assert loaded.spec.environment == {"X": value}


def test_a_value_that_looks_like_a_reference_is_not_replaced_again(write_job: WriteJob) -> None:
    loaded = load_job(write_job(environment={"X": "${A}"}), {}, {"A": "${B}", "B": "no"})
    assert loaded.spec.environment == {"X": "${B}"}


def test_references_in_lists_and_nested_fields_are_replaced(write_job: WriteJob) -> None:
    code = {"source_dir": "src", "entry_point": "train.py", "arguments": ["--team", "${TEAM}"]}
    assert load_job(write_job(code=code), {}, {"TEAM": "vision"}).spec.code.arguments[1] == "vision"


@pytest.mark.parametrize(
    ("written", "says"),
    [("${TEM}", "TEAM"), ("${OTHER_THING}", "export OTHER_THING"), ("${}", "letters"), ("${a b}", "letters")],
)
def test_a_reference_to_nothing_is_an_error_where_it_stands(
    write_job: WriteJob, written: str, says: str
) -> None:
    loaded = load_job(write_job(environment={"X": written}), {}, {"TEAM": "vision"})
    assert loaded.spec is None
    (finding,) = loaded.findings
    assert (finding.code, finding.subject) == ("SPEC003", "environment.X")
    assert says in finding.remedy
    assert finding.location.line > 1
