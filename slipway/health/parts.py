"""A batch in parts of nearly one size, whatever it is made of: tensors, dicts, lists, tuples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def batch_size(batch: Any) -> int:
    """The number of samples: the length of the tensors' first dimension.

    Raises TypeError where there is none, or where tensors have different ones: which of them counts samples
    (a list of images may have their channels there) is not to be guessed.
    """
    sizes = list(dict.fromkeys(_sizes(batch)))
    if len(sizes) != 1:
        why = f"tensors with {sizes} entries" if sizes else "no tensor with a dimension of samples"
        raise TypeError(
            f"a batch of {type(batch).__name__} with {why} cannot be split into parts. Hand over tensors "
            "whose first dimension is the samples, alone or in dicts, lists and tuples"
        )
    return sizes[0]


def parts_of(batch: Any, parts: int) -> list[Any]:
    """The batch in so many parts, or in as many as it has samples; in order, none empty.

    Tensors are cut, and lists of anything else that are as long; the rest is in each part as it is.
    Raises TypeError as `batch_size`.
    """
    size = batch_size(batch)
    parts = max(1, min(parts, size))
    bounds = [size * part // parts for part in range(parts + 1)]
    return [_cut(batch, begin, end, size) for begin, end in zip(bounds, bounds[1:])]


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "size") and hasattr(value, "dim")


def _sizes(batch: Any) -> Iterator[int]:
    if _is_tensor(batch):
        if batch.dim() > 0:
            yield int(batch.size(0))
    elif isinstance(batch, (dict, list, tuple)):
        for part in batch.values() if isinstance(batch, dict) else batch:
            yield from _sizes(part)


def _cut(batch: Any, begin: int, end: int, size: int) -> Any:
    if _is_tensor(batch):
        return batch[begin:end] if batch.dim() > 0 else batch
    if isinstance(batch, dict):
        cut = {key: _cut(value, begin, end, size) for key, value in batch.items()}
        try:
            return type(batch)(cut)
        except TypeError:
            return cut
    if isinstance(batch, (list, tuple)):
        if len(batch) == size and not any(_sizes(batch)):
            return batch[begin:end]
        cuts = [_cut(value, begin, end, size) for value in batch]
        if isinstance(batch, tuple) and hasattr(batch, "_fields"):
            return type(batch)(*cuts)
        return tuple(cuts) if isinstance(batch, tuple) else cuts
    return batch
