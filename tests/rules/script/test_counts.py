"""Every rule has, for each code, five programs that it must find and eight that it must leave alone."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

from launcher.rules.script.check import JOB_RULES, RULES
from tests.rules.script.counting import PROGRAMS, Cases, codes_of, found, left_alone, rules_by_name

MUST_FIND, MUST_LEAVE_ALONE = 5, 8


def test_every_rule_has_enough_programs_that_it_must_find() -> None:
    assert lacking(found, "found_", MUST_FIND) == {}


def test_every_rule_has_enough_programs_that_it_must_leave_alone() -> None:
    assert lacking(left_alone, "right_", MUST_LEAVE_ALONE) == {}


def test_every_folder_of_programs_is_that_of_a_rule() -> None:
    assert {file.parent.name for file in PROGRAMS} <= set(rules_by_name())


def lacking(cases: Cases, start: str, least: int) -> dict[tuple[str, str], int]:
    """The rules with their codes that have too few, and how many they have."""
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        importlib.import_module(f"tests.rules.script.{file.stem}")
    files = Counter[tuple[str, str]]()
    for file in PROGRAMS:
        if file.name.startswith(start):
            text = file.read_text("utf-8")
            for code in codes_of(rules_by_name()[file.parent.name]):
                if start == "right_" or f"# found: {code}" in text:
                    files[file.parent.name, code] += 1
    wanted = [(rule.__name__, code) for rule in (*RULES, *JOB_RULES) for code in codes_of(rule)]
    counts = {each: sum(cases.get(each, {}).values()) + files[each] for each in wanted}
    return {each: number for each, number in counts.items() if number < least}
