"""The programs of `programs/RULE/`: `found_...py` at its marked lines, `right_...py` never.

A line is marked by `# found: CODE` behind it, the file itself by that alone on a line. A first line
`# job: {...}` holds the fields of the job that starts the program, for the rules that need one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.failure_modes.model import Finding
from launcher.program.program import Program, read_program
from tests.rules.script.counting import PROGRAMS, rules_by_name
from tests.rules.script.judging_jobs import subject_of

MARK = "# found: "
JOB = "# job: "
TWO_HOSTS = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}


@pytest.mark.parametrize("file", PROGRAMS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_program_is_found_where_it_is_marked(file: Path, write_job: Callable[..., Path]) -> None:
    text = file.read_text("utf-8")
    assert file.name.startswith("found_" if MARK in text else "right_")
    findings = judged(file, text, write_job)
    assert sorted((each.code, each.location.line) for each in findings if each.location) == sorted(
        marks(text)
    )


def judged(file: Path, text: str, write_job: Callable[..., Path]) -> list[Finding]:
    """What the rule after which the folder is named says of a program."""
    rule = rules_by_name()[file.parent.name]
    if text.startswith(JOB):
        fields = json.loads(text.splitlines()[0].removeprefix(JOB))
        return list(rule(subject_of(write_job, text, **{"resources": TWO_HOSTS, **fields})))
    program = read_program(file)
    assert isinstance(program, Program)
    return list(rule(program))


def marks(text: str) -> Iterator[tuple[str, int]]:
    """The code and line of each mark; one that stands alone is of the file, which is found at its line 1."""
    for number, line in enumerate(text.splitlines(), start=1):
        before, mark, code = line.partition(MARK)
        if mark:
            yield code.strip(), number if before.strip() else 1
