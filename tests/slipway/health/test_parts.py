"""Batches of every make, in parts."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slipway.health.parts import batch_size, parts_of

Pair = namedtuple("Pair", ["image", "label"])


@given(st.integers(1, 100), st.integers(1, 40))
def test_every_sample_is_in_one_part_and_parts_are_nearly_alike(samples: int, parts: int) -> None:
    cut = parts_of(torch.arange(samples), parts)
    assert torch.cat(cut).tolist() == list(range(samples))
    sizes = [len(part) for part in cut]
    assert len(sizes) == min(parts, samples)
    assert max(sizes) - min(sizes) <= 1


def test_dicts_lists_and_tuples_are_cut_within() -> None:
    batch = {
        "pair": Pair(torch.arange(4), [torch.ones(4, 2)]),
        "names": ["a", "b", "c", "d"],
        "scale": torch.tensor(2.0),
        "mode": "train",
    }
    first, second = parts_of(batch, 2)
    assert isinstance(first["pair"], Pair)
    assert first["pair"].image.tolist() == [0, 1]
    assert second["pair"].label[0].shape == (2, 2)
    assert (first["names"], second["names"]) == (["a", "b"], ["c", "d"])
    assert first["scale"] is second["scale"] is batch["scale"]
    assert first["mode"] == "train"


@pytest.mark.parametrize(
    "batch",
    [
        "text",
        {},
        torch.tensor(1.0),
        [torch.ones(3, 8, 8), torch.ones(5, 4)],
        (torch.ones(4, 2), torch.ones(2, 2)),
    ],
)
def test_where_it_is_not_plain_what_counts_samples_nothing_is_guessed(batch: Any) -> None:
    with pytest.raises(TypeError, match="cannot be split into parts"):
        batch_size(batch)
