"""For how long a save holds training, against a bare copy of the same tensors into memory that is there.

Medians of saves after the first, which allocates the memory. Each time the save before is complete.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time

import torch
from torch import nn

import slipway

BOUND = 1.5
ROUNDS = 7


def main() -> int:
    """Prints the ratio; exits with 1 over the bound."""
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(24)))
    optimizer = torch.optim.AdamW(model.parameters())
    sum(parameter.sum() for parameter in model.parameters()).backward()
    optimizer.step()
    tensors = [*model.state_dict().values()]
    tensors += [value for state in optimizer.state.values() for value in state.values()]
    there = [torch.empty_like(tensor) for tensor in tensors]
    copies, saves = [], []
    with tempfile.TemporaryDirectory() as folder:
        manager = slipway.CheckpointManager(folder, keep=1)
        for step in range(ROUNDS + 1):
            started = time.perf_counter()
            for kept, tensor in zip(there, tensors, strict=True):
                kept.copy_(tensor)
            copied = time.perf_counter()
            manager.save(step, model=model, optimizer=optimizer)
            saved = time.perf_counter()
            manager.wait()
            copies.append(copied - started)
            saves.append(saved - copied)
    copy, save = statistics.median(copies[1:]), statistics.median(saves[1:])
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    milliseconds = f"save {save * 1000:.1f} ms, copy {copy * 1000:.1f} ms"
    print(f"{size / 1e6:.0f} MB: {milliseconds}: {save / copy:.2f} (bound {BOUND})")
    return int(save / copy > BOUND)


if __name__ == "__main__":
    sys.exit(main())
