"""The numbers that a job gives its script."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.jobs.script_inputs import find_given_numbers


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (32, 32),
        ("32", 32),
        ('"32"', 32),
        ("0.1", None),
        ("auto", None),
        ('"3', None),
        (True, None),
        ("9" * 11, None),
    ],
)
def test_a_hyperparameter_is_a_number_in_any_writing(value: Any, number: int | None) -> None:
    assert [each.value for each in find_given_numbers({"batch": value}, ())] == (
        [] if number is None else [number]
    )


@pytest.mark.parametrize(
    ("arguments", "known"),
    [
        (("--batch-size", "8"), [("batch-size", 8)]),
        (("--batch-size=8",), [("batch-size", 8)]),
        (("batch_size=8",), [("batch_size", 8)]),
        (("-b", "8"), [("b", 8)]),
        (("--flag", "--batch-size", "8"), [("batch-size", 8)]),
        (("8",), []),
        (("--batch-size",), []),
    ],
)
def test_an_argument_is_spaced_or_has_an_equals_sign(
    arguments: tuple[str, ...], known: list[tuple[str, int]]
) -> None:
    assert [(each.name, each.value) for each in find_given_numbers({}, arguments)] == known


def test_a_number_knows_its_field_and_its_plain_name() -> None:
    one, two = find_given_numbers({"Batch-Size": 4}, ("--x", "1"))
    assert (one.path, one.plain_name) == (("hyperparameters", "Batch-Size"), "batch_size")
    assert two.path == ("code", "arguments", 0)
