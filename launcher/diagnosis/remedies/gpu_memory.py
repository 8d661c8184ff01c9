"""What to do about a full GPU, from the numbers of PyTorch's own message.

Texts: c10/cuda/CUDACachingAllocator.cpp of PyTorch 1.13 (`GPU 0; 39.59 GiB total capacity; 37.50 GiB already
allocated; 1.20 GiB free; 37.60 GiB reserved in total by PyTorch`), 2.0 (`a total capacty of`) and 2.1 to
2.13.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.diagnosis.remedies.asked_job import AskedJob
from launcher.diagnosis.sighting import Sighting
from launcher.jobs.given_numbers import BATCH_NAMES, GivenNumber
from launcher.text.sizes import memory_in_words

_A_LITTLE = 1 / 8
"""Of a GPU's memory. Where at least so much is missing a batch of three quarters is not tried: it frees a
quarter of what grows with the batch, and the weights do not."""

_MUCH_UNUSED = 1 / 20
"""Of a GPU's memory: PyTorch's message speaks of pieces "if reserved but unallocated memory is large", and
some is there always."""

_SMALLEST_ROUND = 32
"""From here on batches are rounded to eights, which tensor cores want."""

_SIZE = r"(?<![\d.])(\d{1,9}(?:\.\d{1,4})? ?(?:[KMGT]i?B|bytes))"
_ASKED = re.compile(rf"Tried to allocate {_SIZE}")
_FREE = re.compile(rf"(?:of which {_SIZE} is free|; {_SIZE} free;)")
_TOTAL = re.compile(rf"(?:total capaci?ty of {_SIZE}|; {_SIZE} total capacity)")
_UNALLOCATED = re.compile(rf"\band {_SIZE} is reserved by PyTorch but unallocated")
_RESERVED = re.compile(rf"; {_SIZE} reserved in total by PyTorch")
_ALLOCATED = re.compile(rf"; {_SIZE} already allocated;")
_OF_OTHERS = re.compile(rf"\bProcess \d{{1,10}} has {_SIZE} memory in use")
_OWN = re.compile(r"\bthis process has \d")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_MOVES_WEIGHTS = re.compile(
    r"\.(?:to|cuda|half|bfloat16|from_pretrained|load_state_dict|to_empty|prepare)\("
    r"|\b(?:DistributedDataParallel|DDP|FullyShardedDataParallel|FSDP|fully_shard)\("
)
"""Code that brings a model to the GPU, where a batch plays no part, unless it moves a batch itself."""

_MOVES_A_BATCH = re.compile(r"batch|input|image|label|target|\bx\b|\by\b", re.I)


@dataclass(frozen=True, slots=True)
class GpuShortage:
    """A failed allocation, in bytes: what was asked for and free, of how much in all, how much PyTorch held
    without using it, and how much other processes held. None is what the line does not say."""

    asked: float
    free: float
    total: float | None = None
    unused: float | None = None
    others: float | None = None

    @property
    def missing(self) -> float:
        """What was missing at the least: more may have been asked for afterwards."""
        return max(0.0, self.asked - self.free)

    @property
    def is_in_pieces(self) -> bool:
        """Whether what was asked for lies unused in pieces, and is not just the rest of a full GPU."""
        if self.unused is None or self.total is None:
            return False
        return self.unused >= max(self.asked, _MUCH_UNUSED * self.total)


def shortage_in(text: str) -> GpuShortage | None:
    """The numbers of PyTorch's message; None where it names not both what was asked for and what was free."""
    asked, free = _bytes(_ASKED, text), _bytes(_FREE, text)
    if asked is None or free is None:
        return None
    unused = _bytes(_UNALLOCATED, text)
    reserved, allocated = _bytes(_RESERVED, text), _bytes(_ALLOCATED, text)
    if unused is None and reserved is not None and allocated is not None:
        unused = reserved - allocated
    # In a container a process may not know itself by its number: then nobody is known to be another one.
    others = sum(map(_in_bytes, _OF_OTHERS.findall(text))) if _OWN.search(text) else 0.0
    return GpuShortage(asked, free, _bytes(_TOTAL, text), unused, others or None)


def gpu_remedy(root: Sighting, job: AskedJob) -> str | None:
    """The next try for a GPU that was full; None where neither the line nor the job has a number for it."""
    shortage = shortage_in(root.text)
    rest = f"If that is not enough: {root.mode.remedy}"
    if shortage is not None and shortage.others is not None and shortage.others >= shortage.missing:
        return (
            f"Other processes hold {memory_in_words(shortage.others)} of this GPU, and {_missing(shortage)}: "
            "a process that an earlier run left, or ranks that share a GPU because they do not call "
            "torch.cuda.set_device(LOCAL_RANK) first. With the GPU to itself the rank may well fit."
        )
    if shortage is not None and shortage.is_in_pieces:
        return (
            f"PyTorch holds {memory_in_words(shortage.unused or 0)} that it does not use, in pieces too "
            f"small for the {memory_in_words(shortage.asked)}: set PYTORCH_CUDA_ALLOC_CONF to "
            f"expandable_segments:True in `environment`, which joins them. {rest}"
        )
    batch = job.number(BATCH_NAMES)
    if batch is None or batch.value == 0:
        return None
    short = "" if shortage is None else f" ({_missing(shortage)})"
    if _is_of_the_model(root):
        return (
            f"The model itself does not fit{short}, whatever {batch.name} ({batch.value}) is: load it in "
            "bf16, shard it (FSDP or SMP), or take a type with more memory on each GPU."
        )
    fewer = smaller_batch(batch.value, shortage)
    if fewer is None:
        return (
            f"{batch.name} is 1 already{short}: activation checkpointing, bf16, sharding (FSDP or SMP), or a "
            "type with more memory on each GPU."
        )
    return (
        f"Set {batch.name} to {fewer} instead of {batch.value}{short}, or keep {batch.value} with activation "
        f"checkpointing.{_whole_batch(batch, fewer, job)} {rest}"
    )


def smaller_batch(batch: int, shortage: GpuShortage | None) -> int | None:
    """The batch to try next: three quarters of it where little is known to be missing, else half; None for
    a batch of one."""
    if batch < 2:
        return None
    known = shortage is not None and shortage.total
    little = known and shortage is not None and shortage.missing < _A_LITTLE * (shortage.total or 0.0)
    fewer = batch * 3 // 4 if little else batch // 2
    return fewer - fewer % 8 if batch >= _SMALLEST_ROUND else fewer


def _whole_batch(batch: GivenNumber, fewer: int, job: AskedJob) -> str:
    """What becomes of the batch of all ranks, where its name says that it is one process's."""
    if not batch.plain_name.startswith("per_device") or fewer * 2 != batch.value:
        return ""
    steps = job.number(("gradient_accumulation_steps",))
    if steps is None:
        return ""
    return (
        f" With {steps.name} {steps.value * 2} instead of {steps.value} a step learns from as many samples."
    )


def _is_of_the_model(root: Sighting) -> bool:
    """Whether the innermost line of the user's code moves or wraps a model."""
    code = next((each for each in root.details if root.place and each.startswith(f"{root.place}: ")), "")
    return _MOVES_WEIGHTS.search(code) is not None and _MOVES_A_BATCH.search(code) is None


def _missing(shortage: GpuShortage) -> str:
    whole = "" if shortage.total is None else f" of {memory_in_words(shortage.total)}"
    return f"at least {memory_in_words(shortage.missing)}{whole} is missing"


def _bytes(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    return None if found is None else _in_bytes(next(each for each in found.groups() if each))


def _in_bytes(size: str) -> float:
    number = size.rstrip("KMGTiBbytes ")
    unit = size[len(number) :].strip()
    return float(number) * _UNITS[unit[0] if unit[0] in _UNITS else ""]
