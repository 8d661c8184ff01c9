"""What an exception says of memory that ran out: whether it does, how much was asked for and was free.

Texts: c10/cuda/CUDACachingAllocator.cpp of PyTorch 1.11 to 2.13, c10/core/impl/alloc_cpu.cpp, numpy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_DEVICE = ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED")
_HOST = ("DefaultCPUAllocator: can't allocate", "DefaultCPUAllocator: not enough memory")
_SIZE = r"\d[\d.]{0,20} ?[KMGT]?i?(?:B|bytes)"
_ASKED = re.compile(rf"(?:Tried to allocate|tried to allocate|Unable to allocate) ({_SIZE})")
_FREE = re.compile(rf"({_SIZE})(?: is)? free")


@dataclass(frozen=True)
class Exhaustion:
    """Memory ran out: `code` is MEM001 on a device, MEM002 on the host; sizes as the text has them."""

    code: str
    asked: str | None
    free: str | None

    def text(self) -> str:
        """In words: "ran out of GPU memory (asked for 2.00 GiB with 1.00 GiB free)"."""
        what = "GPU" if self.code == "MEM001" else "host"
        asked = f"asked for {self.asked}" if self.asked else "how much was asked for is not said"
        free = f" with {self.free} free" if self.free else ""
        return f"ran out of {what} memory ({asked}{free})"


def exhaustion(error: BaseException) -> Exhaustion | None:
    """What an exception says of memory; None where it is about something else."""
    text = str(error)[:2000]
    if isinstance(error, MemoryError) or any(sign in text for sign in _HOST):
        code = "MEM002"
    elif isinstance(error, RuntimeError) and any(sign in text for sign in _DEVICE):
        code = "MEM001"
    else:
        return None
    asked, free = _ASKED.search(text), _FREE.search(text)
    return Exhaustion(code, asked.group(1) if asked else None, free.group(1) if free else None)
