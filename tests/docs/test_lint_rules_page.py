"""Each example on the page of the lint's rules is judged: the bad one is found, the good one is right."""

from __future__ import annotations

import ast

import pytest

from launcher.rules.script.check import rule_descriptions
from tools.generate.pages.lint_examples import Example, examples, findings_in, is_shown

EXAMPLES = examples()


def codes_in(program: str, example: Example) -> list[str]:
    return [
        each.code for each in findings_in(program, example.job, example.shell) if is_shown(each, example.code)
    ]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: f"{each.code}-{each.rule}")
def test_the_bad_program_gives_its_finding_alone_and_the_good_one_none(example: Example) -> None:
    assert codes_in(example.bad, example) == [example.code]
    assert codes_in(example.good, example) == []


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda each: f"{each.code}-{each.rule}")
def test_the_good_program_is_python(example: Example) -> None:
    ast.parse(example.good)


def test_every_rule_has_one_example_for_each_of_its_codes() -> None:
    wanted = [(code, each.rule) for each in rule_descriptions() for code in each.codes]
    assert sorted((each.code, each.rule) for each in EXAMPLES) == sorted(wanted)


def test_a_line_of_a_difference_is_of_the_bad_program_of_the_good_one_or_of_both() -> None:
    example = Example("DDP004", "rule", "", " both\n-bad\n+good\n\n both\n")
    assert (example.bad, example.good) == ("both\nbad\n\nboth\n", "both\ngood\n\nboth\n")


def test_no_two_examples_give_the_same_finding() -> None:
    """Of a code that several rules find, an example would else be another rule's."""
    messages = [
        (example.code, finding.message)
        for example in EXAMPLES
        for finding in findings_in(example.bad, example.job, example.shell)
        if finding.code == example.code
    ]
    assert len(messages) == len(set(messages))
