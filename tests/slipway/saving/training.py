"""A training whose every step depends on all that a checkpoint must hold: weights, momenta, random numbers
and the order of the samples. What it is to do comes as options; what it did goes to standard output.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

import slipway

SAMPLES = 240


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--every", type=int, default=3)
    parser.add_argument("--kind", default="ddp", choices=["plain", "ddp", "fsdp1", "fsdp2", "compiled"])
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--ranks-per-host", type=int, default=0, help="0: all share a disk")
    parser.add_argument("--tell", action="store_true", help="each step's samples")
    parser.add_argument("--absent", type=int, default=-1, help="a rank that does not save")
    parser.add_argument("--patience", type=float, default=60)
    parser.add_argument("--seed", type=int, default=7)
    return parser.parse_args()


def say(line: str) -> None:
    """In one piece, as the ranks share their output."""
    os.write(1, f"{line}\n".encode())


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, width), nn.Dropout(0.2), nn.Linear(width, 1))

    def forward(self, batch: Any) -> Any:
        return self.layers(batch)


def wrapped(kind: str, model: nn.Module) -> Any:
    if kind == "ddp":
        # DDP sorts its buckets anew after a process' first step, and sums of 4 ranks round differently
        # then: a resumed run would differ in the last bits for that alone. With this option it does not.
        return nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    if kind == "compiled":
        return torch.compile(model, backend="eager")
    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
    if kind == "fsdp2":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return model


def weights(kind: str, model: nn.Module) -> str:
    """The SHA-256 of all weights, the same however they are spread."""
    if kind == "fsdp1":
        from torch.distributed.fsdp import FullyShardedDataParallel

        with FullyShardedDataParallel.summon_full_params(model):
            return digest(dict(model.named_parameters()))
    named = dict(model.named_parameters())
    if kind == "fsdp2":
        named = {name: one.full_tensor() for name, one in named.items()}
    return digest(named)


def digest(named: dict[str, Any]) -> str:
    sha256 = hashlib.sha256()
    for _, tensor in sorted(named.items()):
        sha256.update(tensor.detach().clone().numpy().tobytes())
    return sha256.hexdigest()


def train(wanted: argparse.Namespace) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    folder = os.environ["SLIPWAY_CHECKPOINT_DIR"]
    if wanted.ranks_per_host:
        host = f"algo-{1 + rank // wanted.ranks_per_host}"
        os.environ["SM_CURRENT_HOST"] = host
        folder = f"{folder}/{host}"
    torch.manual_seed(0)
    inputs, targets = torch.randn(SAMPLES, 8), torch.randn(SAMPLES, 1)
    data = torch.utils.data.TensorDataset(torch.arange(SAMPLES), inputs, targets)
    model = wrapped(wanted.kind, Net(wanted.width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    random.seed(rank)
    torch.manual_seed(100 + rank)
    sampler = slipway.GlobalSampler(data, 24, seed=wanted.seed)
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
    manager = slipway.CheckpointManager(folder, patience=wanted.patience)
    resumed = manager.resume(model=model, optimizer=optimizer, sampler=sampler)
    step = resumed.step if resumed else 0
    if resumed:
        say(f"rank {rank} resumed {step} {resumed.extra}")
    while step < wanted.steps:
        for indices, batch, target in sampler.follow(loader):
            optimizer.zero_grad()
            noise = random.random() * 1e-3
            loss = ((model(batch) - target + noise) ** 2).mean()
            loss.backward()
            if wanted.kind in ("plain", "compiled"):
                for parameter in model.parameters():
                    dist.all_reduce(parameter.grad)
            optimizer.step()
            step += 1
            if wanted.tell:
                say(f"step {step} {' '.join(str(int(index)) for index in indices)}")
            if step % wanted.every == 0 and rank != wanted.absent:
                manager.save(step, model=model, optimizer=optimizer, sampler=sampler, extra={"of": rank})
                if rank == 0:
                    say(f"saved {step}")
            if step == wanted.steps:
                break
    manager.wait()
    final = weights(wanted.kind, model)
    if rank == 0:
        say(f"final {step} {final}")
    dist.destroy_process_group()


if __name__ == "__main__":
    train(options())
