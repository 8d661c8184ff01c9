"""A batch in parts, and what an exception says of memory that ran out."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slipway.training.split_batches import Exhaustion, batch_size, exhaustion_of, parts_of

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


TORCH_1_13 = (
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity; 14.23 GiB already "
    "allocated; 18.75 MiB free; 14.61 GiB reserved in total by PyTorch) If reserved memory is >> allocated"
)
TORCH_2_1 = (
    "CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5 has a total capacty of 23.43 GiB of which 198.06 "
    "MiB is free. Including non-PyTorch memory, this process has 23.23 GiB memory in use."
)
CPU = (
    "[enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 94371840000 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (RuntimeError(TORCH_1_13), Exhaustion("MEM001", "20.00 MiB", "18.75 MiB")),
        (torch.cuda.OutOfMemoryError(TORCH_2_1), Exhaustion("MEM001", "1.96 GiB", "198.06 MiB")),
        (RuntimeError("CUDA error: out of memory"), Exhaustion("MEM001", None, None)),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            Exhaustion("MEM001", None, None),
        ),
        (RuntimeError(CPU), Exhaustion("MEM002", "94371840000 bytes", None)),
        (MemoryError(), Exhaustion("MEM002", None, None)),
        (
            MemoryError("Unable to allocate 12.0 GiB for an array with shape (1,)"),
            Exhaustion("MEM002", "12.0 GiB", None),
        ),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None),
        (ValueError("out of memory is what this model dreams of"), None),
    ],
)
def test_each_text_is_understood(error: Exception, found: Exhaustion | None) -> None:
    assert exhaustion_of(error) == found


def test_a_real_allocation_that_fails_is_recognised() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60, dtype=torch.uint8)
    found = exhaustion_of(raised.value)
    assert found is not None
    assert (found.code, found.asked) == ("MEM002", f"{2**60} bytes")
