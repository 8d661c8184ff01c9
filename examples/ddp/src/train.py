"""Train a small network on handwritten digits with DistributedDataParallel.

The data come with scikit-learn, so the example needs no download. What a real training has, this one
has too: it resumes from the newest checkpoint that is whole, with any number of ranks, saves before it is
stopped, shards the data evenly and measures its accuracy over all ranks.
"""

from __future__ import annotations

import argparse
import gc
import os
import signal
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import slipway

MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


def parse_arguments() -> argparse.Namespace:
    """The job file's hyperparameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--global_batch", type=int, default=128, help="samples per step of all processes")
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
    # One order of the samples for any number of ranks; each epoch has another one.
    sampler = slipway.GlobalSampler(train_set, arguments.global_batch, seed=arguments.seed)
    loader = DataLoader(train_set, batch_sampler=sampler)
    model = DistributedDataParallel(
        build_model().to(device), device_ids=[device.index] if device.type == "cuda" else None
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    settle_buckets(model, train_set[:1][0].to(device))
    checkpoints = slipway.CheckpointManager(keep=2)
    resumed = checkpoints.resume(model=model, optimizer=optimizer, sampler=sampler)
    step = resumed.step if resumed else 0
    if resumed:
        report(f"resumed after step {step}")

    while sampler.epoch < arguments.epochs:
        epoch = sampler.epoch
        steps, stopped = train_epoch(model, optimizer, sampler.follow(loader), device, epoch, interruption)
        step += steps
        # By all ranks: rank 0 alone writes the model, and each one adds what is its own.
        checkpoints.save(step, model=model, optimizer=optimizer, sampler=sampler)
        if stopped:
            checkpoints.wait()
            report(f"stopped in epoch {epoch} after step {step}, checkpoint saved")
            return

    report(f"accuracy={evaluate(model, held_out, device):.4f}")
    if dist.get_rank() == 0:
        write(MODEL / "model.pt", model.module.state_dict())
    checkpoints.wait()


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
    batches: Iterable[list[torch.Tensor]],
    device: torch.device,
    epoch: int,
    interruption: Interruption,
) -> tuple[int, bool]:
    """Train to the epoch's end, or until asked to stop; returns the steps done, and whether it was asked."""
    model.train()
    started, total, samples, steps = time.perf_counter(), torch.zeros((), device=device), 0, 0
    for images, labels in batches:
        images, labels = images.to(device), labels.to(device)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach() * len(labels)
        samples += len(labels)
        steps += 1
        # After the step: the batch that the loop got counts as trained on.
        if interruption.agreed():
            return steps, True
    sums = torch.stack([total, torch.tensor(float(samples), device=device)])
    dist.all_reduce(sums)
    seconds = time.perf_counter() - started
    report(f"epoch={epoch} loss={sums[0] / sums[1]:.4f} samples/s={sums[1] / seconds:.0f}")
    return steps, False


@torch.no_grad()
def evaluate(
    model: DistributedDataParallel, held_out: tuple[torch.Tensor, torch.Tensor], device: torch.device
) -> float:
    """The accuracy over all ranks: each judges its share, without padding, so that none counts twice."""
    model.eval()
    share = slice(dist.get_rank(), None, dist.get_world_size())
    counts = torch.zeros(2, device=device)
    for images, labels in zip(*(part[share].to(device).split(32) for part in held_out), strict=True):
        counts[0] += (model.module(images).argmax(dim=1) == labels).sum()
        counts[1] += len(labels)
        # No optimizer steps here. In a long evaluation the watchdog hears from this that the rank gets on.
        slipway.progress()
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


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
