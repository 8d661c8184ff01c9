"""For how long a save holds training, against a bare copy of the same tensors into memory that is there.

Medians of saves after the first, which allocates the memory. Each time the save before is complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import torch
from torch import nn

import slipway
from tools.benchmarks.measuring import Figure, medians, seconds_of

BOUND = 1.5
ROUNDS = 7


def figures(folder: Path) -> Iterator[Figure]:
    """The ratio of both."""
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(24)))
    optimizer = torch.optim.AdamW(model.parameters())
    sum(parameter.sum() for parameter in model.parameters()).backward()
    optimizer.step()
    tensors = [*model.state_dict().values()]
    tensors += [value for state in optimizer.state.values() for value in state.values()]
    there = [torch.empty_like(tensor) for tensor in tensors]
    manager, steps = slipway.CheckpointManager(folder, keep=1), count()

    def copy() -> None:
        for kept, tensor in zip(there, tensors, strict=True):
            kept.copy_(tensor)

    def saved() -> float:
        taken = seconds_of(lambda: manager.save(next(steps), model=model, optimizer=optimizer))
        manager.wait()
        return taken

    middle = medians({"copy": lambda: seconds_of(copy), "save": saved}, ROUNDS)
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    beside = f"save {middle['save'] * 1000:.1f} ms, copy {middle['copy'] * 1000:.1f} ms"
    yield Figure(
        f"a save of {size / 1e6:.0f} MB against a copy", middle["save"] / middle["copy"], BOUND, "", beside
    )
