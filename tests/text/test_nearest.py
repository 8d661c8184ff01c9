"""What somebody may have meant."""

from __future__ import annotations

from launcher.text.nearest import LONGEST_WORD, nearest

TYPES = ["ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p5.48xlarge"]


def test_the_likest_come_first_and_no_more_than_asked_for() -> None:
    assert nearest("ml.p4d.24xlrge", TYPES) == ["ml.p4d.24xlarge"]
    assert nearest("ml.p4d.24xlrge", TYPES, most=2) == ["ml.p4d.24xlarge", "ml.p4de.24xlarge"]


def test_what_is_like_nothing_has_no_nearest() -> None:
    assert nearest("banana", TYPES) == []


def test_a_word_too_long_for_a_slip_is_not_compared() -> None:
    near = "x" * LONGEST_WORD
    assert nearest(near, [near]) == [near]
    assert nearest(f"{near}x", [near]) == []
