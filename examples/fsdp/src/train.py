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
import torch.distributed.checkpoint as distributed_checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import fully_shard

CHECKPOINTS = Path(os.environ.get("SM_CHECKPOINT_DIR", "/opt/ml/checkpoints"))
MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
CONTEXT = 64


@record
def main() -> None:
    """Train from the newest complete checkpoint, or from the start, and leave the whole model."""
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
    first = resume(model, optimizer)
    text = torch.frombuffer(bytearray(Path(argparse.__file__).read_bytes()), dtype=torch.uint8).long()

    for step in range(first, arguments.steps):
        inputs, targets = batch(text, arguments.batch_size, step, device)
        loss = nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report(f"step={step + 1} loss={mean(loss):.4f}")
        if (step + 1) % 20 == 0:
            save(model, optimizer, step + 1)

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
    parser.add_argument("--batch_size", type=int, default=8, help="sequences per step and process")
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


def batch(
    text: torch.Tensor, size: int, step: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences that no other rank has in this step, the same ones again after a resume."""
    draw = torch.Generator().manual_seed(step * dist.get_world_size() + dist.get_rank())
    starts = torch.randint(len(text) - CONTEXT - 1, (size,), generator=draw)
    sequences = torch.stack([text[start : start + CONTEXT + 1] for start in starts]).to(device)
    return sequences[:, :-1], sequences[:, 1:]


def mean(loss: torch.Tensor) -> float:
    """The mean over all ranks. A collective: every rank calls it."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def save(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Every rank writes its own shards; the file `.metadata`, written last, makes them a checkpoint."""
    weights, moments = get_state_dict(model, optimizer)
    distributed_checkpoint.save(
        {"model": weights, "optimizer": moments}, checkpoint_id=CHECKPOINTS / f"step-{step:06d}"
    )


def resume(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the newest complete checkpoint, if there is one; returns the step to go on from."""
    complete = sorted(file.parent.name for file in CHECKPOINTS.glob("step-*/.metadata"))
    # One rank chooses: on several hosts two could otherwise find different ones.
    choice = [complete[-1] if complete else None]
    dist.broadcast_object_list(choice, src=0)
    if choice[0] is None:
        return 0
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    distributed_checkpoint.load(state, checkpoint_id=CHECKPOINTS / choice[0])
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    report(f"resumed from {choice[0]}")
    return int(choice[0].removeprefix("step-"))


def report(text: str) -> None:
    """Print on one rank only."""
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
