"""What stands above the rules has all of its parts."""

from __future__ import annotations

import pytest

from launcher.rules.script.check import JOB_RULES, RULES, unread_finding
from launcher.rules.script.descriptions import RuleDescription, descriptions_of, rule_descriptions


def test_every_rule_is_described() -> None:
    names = [rule.__name__ for rule in (*RULES, unread_finding, *JOB_RULES)]
    assert [each.rule for each in rule_descriptions()] == names


@pytest.mark.parametrize("description", rule_descriptions(), ids=lambda each: each.rule)
def test_a_docstring_says_what_why_bad_good_and_source(description: RuleDescription) -> None:
    parts = ("finds", "why", "bad", "good", "source")
    assert [part for part in parts if not getattr(description, part)] == []


@pytest.mark.parametrize("description", rule_descriptions(), ids=lambda each: each.rule)
def test_a_source_is_one_sentence_and_what_is_silent_stands_before_it(description: RuleDescription) -> None:
    assert ". " not in description.source
    assert description.source.endswith(".")


def test_a_mode_has_the_descriptions_of_all_rules_that_find_it() -> None:
    assert [(each.rule, each.with_job) for each in descriptions_of("NCCL002")] == [
        ("settings_are_read_by_something", False),
        ("settings_suit_the_job", True),
    ]
    assert descriptions_of("EFA002") == []
