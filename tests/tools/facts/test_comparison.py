"""Figures are compared one by one, and a difference that is meant has its reason."""

from __future__ import annotations

from tools.facts.comparison import compare, memberships


def test_equal_figures_agree() -> None:
    comparison = compare("a page", [("a", 1, 1), ("b", 2, 2)], independent=True)
    assert (comparison.compared, comparison.unexplained) == (2, ())


def test_a_difference_is_said_with_both_figures() -> None:
    (difference,) = compare("a page", [("a", 1, 2)], independent=True).unexplained
    assert str(difference) == "a is 1 here and 2 there"


def test_a_difference_with_a_reason_stands_but_need_not_be_looked_at() -> None:
    comparison = compare("a page", [("a", 1, 2)], independent=True, known={"a": "ours is newer"})
    assert comparison.unexplained == ()
    assert str(comparison.differences[0]) == "a is 1 here and 2 there: ours is newer"


def test_a_reason_that_nothing_needs_any_more_is_a_difference() -> None:
    comparison = compare("a page", [("a", 1, 1)], independent=True, known={"a": "ours is newer"})
    assert len(comparison.unexplained) == 1


def test_members_of_either_set_are_compared() -> None:
    figures = memberships("types", ["a", "b"], ["b", "c"])
    assert [what for what, ours, theirs in figures if ours != theirs] == [
        "a among the types",
        "c among the types",
    ]
