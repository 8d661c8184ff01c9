"""How many batches all ranks get, and what is said of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.batches.counts import told, wanted
from slipway.errors import SlipwayError

COUNTS = st.lists(st.integers(1, 1000), min_size=1, max_size=64)


@given(COUNTS)
def test_padding_gives_the_most_and_dropping_the_fewest(counts: list[int]) -> None:
    assert wanted("pad", counts) == sorted(counts)[-1]
    assert wanted("drop", counts) == sorted(counts)[0]


@given(COUNTS, st.sampled_from(["pad", "drop"]), st.booleans())
def test_something_is_said_where_and_only_where_ranks_differ(
    counts: list[int], mode: str, at_least: bool
) -> None:
    line = told(mode, counts, at_least=at_least)
    assert (line is None) == (len(set(counts)) == 1)
    assert line is None or (line.startswith("DATA001 ") and len(line) < 1000 and "\n" not in line)


@pytest.mark.parametrize("mode", ["pad", "drop"])
def test_ranks_without_any_batch_are_refused_unless_all_are(mode: str) -> None:
    with pytest.raises(SlipwayError, match=r"^DATA001 ranks 0, 2 got no batch at all"):
        wanted(mode, [0, 3, 0])
    assert wanted(mode, [0, 0]) == 0


def test_many_ranks_are_not_all_listed() -> None:
    line = told("pad", list(range(1, 65)))
    assert line is not None
    assert "64 on rank 63, 63 on rank 62" in line
    assert "…" in line
