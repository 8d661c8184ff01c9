"""Data classes that are not assigned to: by what they hold, and by which object they are."""

from __future__ import annotations

from dataclasses import replace

from launcher.frozen import frozen, frozen_by_identity


@frozen
class Place:
    """Equal where its fields are."""

    line: int


@frozen_by_identity
class Mark:
    """Equal to itself alone."""

    line: int


def test_two_that_hold_the_same_are_one_in_a_set() -> None:
    assert Place(1) == Place(1)
    assert len({Place(1), Place(1), Place(2)}) == 2


def test_two_by_identity_are_two_in_a_set_though_they_hold_the_same() -> None:
    mark = Mark(1)
    assert mark == mark
    assert mark != Mark(1)
    assert len({mark, mark, Mark(1)}) == 2


def test_both_are_shown_by_their_fields_and_can_be_replaced() -> None:
    assert repr(replace(Mark(1), line=2)) == "Mark(line=2)"
    assert repr(replace(Place(1), line=2)) == "Place(line=2)"
