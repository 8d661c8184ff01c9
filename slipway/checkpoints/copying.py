"""Copies of a state in host memory, made by the training thread and written by another one.

The memory is kept from one save to the next: allocating it anew takes longer than the copy itself. What is
copied holds only what `torch.load(weights_only=True)` reads again: tensors, numbers, texts and their lists,
tuples and dicts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class Copies:
    """The host memory of one writer: what `take` returned is valid until the next `begin`."""

    def __init__(self) -> None:
        self._memory: dict[Any, Any] = {}
        self._used: dict[Any, Any] = {}
        self._seen: dict[Any, Any] = {}

    def begin(self) -> None:
        """Start a new set of copies, in the memory of those before."""
        self._memory, self._used, self._seen = {**self._memory, **self._used}, {}, {}

    def take(self, value: Any, name: str) -> Any:
        """A copy of a state; `name` is what people call it. Raises TypeError for what could not be loaded."""
        import torch

        kind = type(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, name)
        if kind in _PLAIN or isinstance(value, torch.dtype):
            return value
        if isinstance(value, Mapping):
            return {self._key(key, name): self.take(one, f"{name}[{key!r}]") for key, one in value.items()}
        if kind is list:
            return [self.take(one, f"{name}[{index}]") for index, one in enumerate(value)]
        if kind in (tuple, torch.Size):
            return tuple(self.take(one, f"{name}[{index}]") for index, one in enumerate(value))
        if kind.__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
            return value.item()
        raise TypeError(
            f"{name} is a {kind.__module__}.{kind.__qualname__}, which could only be loaded again by running "
            "what a checkpoint says. Save tensors, numbers, texts and lists, tuples and dicts of those (an "
            "array as torch.from_numpy(array))"
        )

    def end(self) -> None:
        """Wait for the copies that a device still makes; memory that is no longer needed is given back."""
        self._memory, self._seen = self._used, {}
        if any(tensor.is_pinned() for tensor in self._used.values() if _has_cuda()):
            import torch

            torch.cuda.synchronize()

    def _tensor(self, tensor: Any, name: str) -> Any:
        import torch

        tensor = tensor.detach()
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return tensor.cpu().clone()
        # Tied weights are one tensor under two names, and are to be one in the file.
        same = (tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, str(tensor.device))
        if tensor.numel() and same in self._seen:
            return self._seen[same]
        shape = (name, tensor.shape, tensor.stride(), tensor.dtype, str(tensor.device))
        copy = self._memory.get(shape)
        if copy is None:
            pinned = tensor.is_cuda
            copy = torch.empty_like(tensor, device="cpu", pin_memory=pinned, requires_grad=False)
        copy.copy_(tensor, non_blocking=tensor.is_cuda)
        self._used[shape] = self._seen[same] = copy
        return copy

    @staticmethod
    def _key(key: Any, name: str) -> Any:
        if type(key) in (str, int, float, bool, tuple):
            return key
        raise TypeError(f"{name} has a key that is a {type(key).__qualname__}; use texts and numbers")


def _has_cuda() -> bool:
    import torch

    return bool(torch.cuda.is_available())
