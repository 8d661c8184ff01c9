"""Ranks in a sentence: as launcher and container write them, neither of which may import the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.text.rank_ranges import ranks_text
from slipway.watchdog import wording


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([2], "rank 2"),
        ([3, 0, 1], "ranks 0, 1, 3"),
        ([*range(7), *range(8, 64)], "ranks 0-6, 8-63"),
        (range(0, 64, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 24 more stretches"),
        ([5, 5], "rank 5"),
    ],
)
def test_ranks_are_named_or_drawn_together(ranks: list[int], words: str) -> None:
    assert ranks_text(ranks) == words


@given(st.sets(st.integers(0, 40), min_size=1))
def test_the_container_and_the_launcher_say_it_alike(ranks: set[int]) -> None:
    assert wording.ranks_text(sorted(ranks, reverse=True)) == ranks_text(sorted(ranks, reverse=True))
