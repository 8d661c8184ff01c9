"""Train a small network on handwritten digits with DistributedDataParallel.

The data come with scikit-learn, so the example needs no download. What a real training has, this one
has too: it resumes from the newest checkpoint, saves before it is stopped, shards the data evenly and
measures its accuracy over all ranks.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import signal
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CHECKPOINTS = Path(os.environ.get("SLIPWAY_CHECKPOINT_DIR", "/opt/ml/checkpoints"))
MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))
KEPT_CHECKPOINTS = 2


def parse_arguments() -> argparse.Namespace:
    """The job file's hyperparameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--batch_size", type=int, default=32, help="samples per step and process")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


@record
def main() -> None:
    """Train, evaluate, and leave a model; or leave a checkpoint when asked to stop."""
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    device = join_process_group()
    train(arguments, device)
    # The model's reducer holds on to the process group until it is collected. A group that outlives this
    # line dies with the interpreter instead, and its threads then abort the rank now and then
    # ("terminate called without an active exception").
    gc.collect()
    dist.destroy_process_group()


def train(arguments: argparse.Namespace, device: torch.device) -> None:
    """All epochs that are left, with a checkpoint after each."""
    interruption = Interruption(device)
    train_set, held_out = load_data()
    sampler: DistributedSampler[object] = DistributedSampler(train_set, seed=arguments.seed)
    loader = DataLoader(train_set, batch_size=arguments.batch_size, sampler=sampler)
    model = DistributedDataParallel(
        build_model().to(device), device_ids=[device.index] if device.type == "cuda" else None
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    settle_buckets(model, train_set[:1][0].to(device))
    first_epoch, first_step = resume(model, optimizer, device)

    for epoch in range(first_epoch, arguments.epochs):
        # Without it every epoch would visit the samples in the same order.
        sampler.set_epoch(epoch)
        done = train_epoch(model, optimizer, loader, device, epoch, first_step, interruption)
        if done < len(loader):
            save(model, optimizer, epoch, done)
            report(f"stopped in epoch {epoch} after {done} steps, checkpoint saved")
            return
        save(model, optimizer, epoch + 1, 0)
        first_step = 0

    report(f"accuracy={evaluate(model, held_out, device):.4f}")
    if dist.get_rank() == 0:
        write(MODEL / "model.pt", model.module.state_dict())


def join_process_group() -> torch.device:
    """Meet the other ranks, and choose this one's device."""
    # Longer than the slowest thing that one rank does while the others wait for it.
    timeout = timedelta(minutes=10)
    if not torch.cuda.is_available():
        dist.init_process_group("gloo", timeout=timeout)
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    # With its device known, NCCL connects at once, and fails here rather than in the first step.
    dist.init_process_group("nccl", timeout=timeout, device_id=device)
    return device


class Interruption:
    """Whether any rank was asked to stop (SIGTERM), agreed upon by all ranks."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._asked = False
        signal.signal(signal.SIGTERM, self._on_signal)

    def agreed(self) -> bool:
        """The same answer on every rank: one that stopped alone would leave the others waiting."""
        asked = torch.tensor(int(self._asked), device=self._device)
        dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        if asked:
            # The agreement is faster than the signal, which may reach this rank's host only now and
            # would end the interpreter in the middle of its exit.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return bool(asked)

    def _on_signal(self, number: int, frame: object) -> None:
        self._asked = True


def load_data() -> tuple[TensorDataset, tuple[torch.Tensor, torch.Tensor]]:
    """The training set, and the images and labels held out; the same split on every rank."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train, held_out = train_test_split(range(len(labels)), test_size=0.2, random_state=0, stratify=labels)
    return TensorDataset(images[train], labels[train]), (images[held_out], labels[held_out])


def build_model() -> nn.Module:
    """Two convolutions and a linear layer for images of 8 x 8 points."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


def settle_buckets(model: DistributedDataParallel, images: torch.Tensor) -> None:
    """Let DDP group the gradients now as it will in every later step, by a pass that trains nothing.

    It groups them anew after its first backward pass, and a sum in another grouping differs in the last
    bits. Without this a resumed run, which begins once more, would not end with the same model.
    """
    # Before the checkpoint is loaded, and in this mode: no random numbers, no running averages.
    model.eval()
    model(images).sum().backward()
    model.zero_grad()


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loader: DataLoader[object],
    device: torch.device,
    epoch: int,
    first_step: int,
    interruption: Interruption,
) -> int:
    """Train from `first_step` to the epoch's end, or until asked to stop; returns the steps done."""
    model.train()
    started, total, samples = time.perf_counter(), torch.zeros((), device=device), 0
    for step, (images, labels) in enumerate(loader):
        if step < first_step:
            continue
        if interruption.agreed():
            return step
        images, labels = images.to(device), labels.to(device)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(labels)
        samples += len(labels)
    sums = torch.stack([total, torch.tensor(float(samples), device=device)])
    dist.all_reduce(sums)
    seconds = time.perf_counter() - started
    report(f"epoch={epoch} loss={sums[0] / sums[1]:.4f} samples/s={sums[1] / seconds:.0f}")
    return len(loader)


@torch.no_grad()
def evaluate(
    model: DistributedDataParallel, held_out: tuple[torch.Tensor, torch.Tensor], device: torch.device
) -> float:
    """The accuracy over all ranks: each judges its share, without padding, so that none counts twice."""
    model.eval()
    share = slice(dist.get_rank(), None, dist.get_world_size())
    images, labels = (part[share].to(device) for part in held_out)
    right = (model.module(images).argmax(dim=1) == labels).sum()
    counts = torch.stack([right, torch.tensor(len(labels), device=device)])
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def resume(model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> tuple[int, int]:
    """Load the newest checkpoint, if any; returns the epoch and the step to go on from."""
    # One rank chooses: on several hosts two could otherwise find different files.
    names = [checkpoint.name for checkpoint in checkpoints()[-1:]]
    choice = [names[0] if names else None]
    dist.broadcast_object_list(choice, src=0, device=device)
    if choice[0] is None:
        return 0, 0
    state = torch.load(CHECKPOINTS / choice[0], map_location=device, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    report(f"resumed from {choice[0]}")
    return state["epoch"], state["step"]


def save(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int, step: int) -> None:
    """Save where to go on from, on rank 0: with DDP all ranks hold the same state."""
    if dist.get_rank() != 0:
        return
    state = {
        "model": model.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "step": step,
    }
    write(CHECKPOINTS / f"checkpoint-{epoch:05d}-{step:06d}.pt", state)
    for old in checkpoints()[:-KEPT_CHECKPOINTS]:
        old.unlink()


def checkpoints() -> list[Path]:
    """The complete checkpoints, oldest first."""
    complete = re.compile(r"checkpoint-\d+-\d+\.pt")
    return sorted(file for file in CHECKPOINTS.glob("*.pt") if complete.fullmatch(file.name))


def write(file: Path, state: object) -> None:
    """Write a file at once or not at all, so that a half-written one is never loaded."""
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_name(f".{file.name}.writing")
    torch.save(state, scratch)
    scratch.replace(file)


def report(text: str) -> None:
    """Print on one rank only."""
    if dist.get_rank() == 0:
        print(text, flush=True)


if __name__ == "__main__":
    main()
