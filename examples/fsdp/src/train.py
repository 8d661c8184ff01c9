"""Train a small language model on bytes with fully sharded data parallelism.

Every rank holds its share of weights, gradients and optimizer, and gathers a block's weights only while it
computes with them. The text is a module of Python's own standard library, so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import gc
import os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

import slipway

MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
CONTEXT = 64


@record
def main() -> None:
    """Train from the newest checkpoint that is whole, or from the start, and leave the whole model."""
    arguments = parse_arguments()
    train(arguments, join_process_group())
    # Model and optimizer hold on to the process group until they are collected. A group that outlives this
    # line dies with the interpreter instead, and its threads then abort the rank now and then.
    gc.collect()
    dist.destroy_process_group()


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    """All steps that are left, with a checkpoint after every 20."""
    torch.manual_seed(0)
    model = shard(LanguageModel(width=64, depth=4), device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    data = sequences()
    # One order of the sequences for any number of ranks.
    sampler = slipway.GlobalSampler(data, arguments.global_batch)
    loader = DataLoader(data, batch_sampler=sampler)
    # Every rank saves and loads its own shards; with another number of ranks they are cut anew.
    checkpoints = slipway.CheckpointManager()
    resumed = checkpoints.resume(model=model, optimizer=optimizer, sampler=sampler)
    step = resumed.step if resumed else 0
    if resumed:
        report(f"resumed after step {step}")

    while step < arguments.steps:
        for (batch,) in sampler.follow(loader):
            batch = batch.to(device)
            loss = nn.functional.cross_entropy(model(batch[:, :-1]), batch[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            report(f"step={step} loss={mean(loss):.4f}")
            if step % 20 == 0:
                checkpoints.save(step, model=model, optimizer=optimizer, sampler=sampler)
            if step >= arguments.steps:
                break
    checkpoints.wait()

    # A collective: every rank takes part, and rank 0 alone gets the tensors and writes.
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    if dist.get_rank() == 0:
        MODEL.mkdir(parents=True, exist_ok=True)
        torch.save(whole, MODEL / "model.pt")
        report(f"saved {sum(each.numel() for each in whole.values())} parameters")
    dist.barrier()


def parse_arguments() -> argparse.Namespace:
    """The job file's hyperparameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--global_batch", type=int, default=32, help="sequences per step of all processes")
    parser.add_argument("--lr", type=float, default=0.003)
    return parser.parse_args()


def join_process_group() -> torch.device:
    """Meet the other ranks, and choose this one's device."""
    timeout = timedelta(minutes=10)
    if not torch.cuda.is_available():
        dist.init_process_group("gloo", timeout=timeout)
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", timeout=timeout, device_id=device)
    return device


class Block(nn.Module):
    """Attention to what came before, then a small network for each position."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before_attention = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.before_network = nn.LayerNorm(width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """`hidden` is (batch, position, width), and so is what comes out."""
        parts = self.attention(self.before_attention(hidden)).chunk(3, dim=-1)
        query, key, value = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in parts)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + seen.transpose(1, 2).flatten(2)
        return hidden + self.network(self.before_network(hidden))


class LanguageModel(nn.Module):
    """Predicts the next byte."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.bytes = nn.Embedding(256, width)
        self.positions = nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 256)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """From bytes (batch, position) to scores (batch, 256, position), as the loss takes them."""
        hidden = self.bytes(inputs) + self.positions(torch.arange(inputs.shape[1], device=inputs.device))
        for block in self.blocks:
            hidden = block(hidden)
        # Not a view of the head's output: FSDP hangs its hooks on what the model returns.
        return self.head(hidden).transpose(1, 2).contiguous()


def shard(model: LanguageModel, device: torch.device) -> LanguageModel:
    """Each block on its own, so that one is gathered while the one before it computes; then what is left."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model.to(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def sequences() -> TensorDataset:
    """Every stretch of the text that is as long as the model sees, and the byte after it."""
    text = torch.frombuffer(bytearray(Path(argparse.__file__).read_bytes()), dtype=torch.uint8).long()
    return TensorDataset(text.unfold(0, CONTEXT + 1, 1))


def mean(loss: torch.Tensor) -> float:
    """The mean over all ranks. A collective: every rank calls it."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def report(text: str) -> None:
    """Print on one rank only."""
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
