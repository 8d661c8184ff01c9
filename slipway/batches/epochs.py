"""The number of the epoch, given to whatever shuffles by it."""

from __future__ import annotations

from typing import Any


class Epochs:
    """Counts the epochs of a loader, and tells its samplers and its dataset.

    A number that the script set itself, as after a resume, counts: it goes on from there.
    """

    def __init__(self) -> None:
        self._next = 0
        self._left: dict[int, int] = {}

    def begin(self, loader: Any) -> int:
        """Call set_epoch where the number is another one than is there; returns the epoch's number."""
        listeners = _listeners(loader)
        own = [
            epoch
            for listener in listeners
            for epoch in [getattr(listener, "epoch", None)]
            if type(epoch) is int and epoch != self._left.get(id(listener), 0)
        ]
        epoch = own[0] if own else self._next
        for listener in listeners:
            if getattr(listener, "epoch", None) != epoch:
                listener.set_epoch(epoch)
            self._left[id(listener)] = epoch
        self._next = epoch + 1
        return epoch


def _listeners(loader: Any) -> list[Any]:
    """What of a loader has set_epoch: itself, its samplers, the sampler within, its dataset."""
    batch_sampler = getattr(loader, "batch_sampler", None)
    candidates = [
        loader,
        getattr(loader, "sampler", None),
        batch_sampler,
        getattr(batch_sampler, "sampler", None),
        getattr(loader, "dataset", None),
    ]
    found: list[Any] = []
    for candidate in candidates:
        if callable(getattr(candidate, "set_epoch", None)) and all(one is not candidate for one in found):
            found.append(candidate)
    return found
