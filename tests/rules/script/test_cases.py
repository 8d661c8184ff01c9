"""The rules find what is marked in their cases and nothing else, and each rule has enough of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from launcher.failure_modes.model import Finding
from tests.case_files import BadCase
from tests.rules.script.cases import (
    Mark,
    ScriptCase,
    WriteJob,
    codes_of,
    findings_of,
    read_cases,
    rules_by_name,
    script_cases,
)

MUST_FIND, MUST_LEAVE_ALONE = 5, 8


@pytest.mark.parametrize("topic", script_cases())
def test_the_rules_find_what_is_marked_and_nothing_else(topic: str, write_job: WriteJob) -> None:
    wrong = [
        line for case in script_cases()[topic] for line in differences(case, findings_of(case, write_job))
    ]
    assert not wrong, "\n".join(wrong)


def differences(case: ScriptCase, findings: list[Finding]) -> list[str]:
    """The marks without a finding and the findings without a mark, a line of text for each."""
    missing: list[Mark] = []
    left = list(findings)
    # The marks that ask for more come first, so that they get the finding that has it.
    for mark in sorted(case.marks, key=lambda each: (each.subject is None, -len(each.said))):
        found = next((each for each in left if mark.fits(each)), None)
        if found is None:
            missing.append(mark)
        else:
            left.remove(found)
    told = [f"{each.code} {each.severity.value}: {each.message} {each.location}" for each in left]
    return [
        *(f"{case.place}: case {case.name}: not found: {mark}" for mark in missing),
        *(f"{case.place}: case {case.name}: not marked: {each}" for each in told),
    ]


def test_every_rule_has_enough_cases_that_it_must_find_and_leave_alone() -> None:
    """For each code of a rule: cases that are marked with it, and cases without a mark of the rule."""
    found, left_alone = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for case in (each for cases in script_cases().values() for each in cases):
        for name in case.rules:
            codes = set(codes_of(name))
            marked = codes & {mark.code for mark in case.marks}
            found.update((name, code) for code in marked)
            left_alone.update((name, code) for code in (() if marked else codes))
    wanted = [(name, code) for name in rules_by_name() for code in codes_of(name)]
    assert {each: found[each] for each in wanted if found[each] < MUST_FIND} == {}
    assert {each: left_alone[each] for each in wanted if left_alone[each] < MUST_LEAVE_ALONE} == {}


RULE = "[rule channels_are_there]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\n[case one]\n", "data_files.test:1: a file begins with"),
        ("[case one]\nx = 1\n", r"data_files.test:1: `\[rule NAME\]` stands above it"),
        ("[rule no_rule]\n[case one]\nx = 1\n", "data_files.test:1: .*data_files.py has no rule no_rule"),
        (
            "[rule workers_are_there]\n[case one]\nx = 1\n",
            "data_files.test:1: .* has no rule workers_are_there",
        ),
        (RULE + "[case one]\n\n", "data_files.test:2: case one has no lines"),
        (
            RULE + "[case one]\nx = 1\n[case one]\nx = 1\n",
            "data_files.test:4: each case has a name of its own",
        ),
        (RULE + "[file a.py]\nx = 1\n", r"data_files.test:2: `\[file NAME\]` stands behind a case"),
        (RULE + "[case one]\n# job: {\nx = 1\n", "data_files.test:3: the job's fields are no JSON"),
        (RULE + "[case one]\nx = 1  # !DATA7\n", "data_files.test:2: case one: not `# !CODE"),
        (RULE + "[case one]\nx = 1  # !DATA007 fatal\n", "data_files.test:2: case one: not `# !CODE"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "data_files.test"
    file.write_text(text, "utf-8")
    with pytest.raises(BadCase, match=said):
        read_cases(file)


def test_a_case_is_read_with_its_frame_its_files_and_its_marks(tmp_path: Path) -> None:
    file = tmp_path / "data_files.test"
    file.write_text(
        '[frame]\n# job: {"inputs": {}}\nif x:\n    <case>\nend()\n\n'
        "[rule channels_are_there]\n\n[case one]\n"
        "a = 1  # !DATA007 info at a  # !CODE002: b ... c\n\nd()\n\n[file e.py]\nf()  # !DDP004\n",
        "utf-8",
    )
    assert read_cases(file) == [
        ScriptCase(
            "one",
            f"{file}:9",
            ("channels_are_there",),
            {"train.py": "if x:\n    a = 1\n\n    d()\nend()\n", "e.py": "f()\n"},
            (
                Mark("train.py", 2, "DATA007", "info", "a", ()),
                Mark("train.py", 2, "CODE002", "error", None, ("b", "c")),
                Mark("e.py", 1, "DDP004", "error", None, ()),
            ),
            {"inputs": {}},
        )
    ]
