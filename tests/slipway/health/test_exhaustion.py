"""What exceptions say of memory, in the words of several versions of torch."""

from __future__ import annotations

import pytest
import torch

from slipway.health.exhaustion import Exhaustion, exhaustion

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
    assert exhaustion(error) == found


def test_a_real_allocation_that_fails_is_recognised() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60, dtype=torch.uint8)
    found = exhaustion(raised.value)
    assert found is not None
    assert (found.code, found.asked) == ("MEM002", f"{2**60} bytes")
