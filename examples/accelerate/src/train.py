"""Train a small network on handwritten digits with Hugging Face Accelerate."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHECKPOINTS = Path(os.environ.get("SM_CHECKPOINT_DIR", "/opt/ml/checkpoints"))
MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


def main() -> None:
    """Train from the newest checkpoint, or from the start; evaluate; leave a model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.003)
    arguments = parser.parse_args()

    accelerator = Accelerator(cpu=not torch.cuda.is_available())
    set_seed(0)
    accelerator.print(f"world_size={accelerator.num_processes}")
    training, held_out = load_data()
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr)
    model, optimizer, training, held_out = accelerator.prepare(model, optimizer, training, held_out)

    for epoch in range(resume(accelerator), arguments.epochs):
        model.train()
        for images, labels in training:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
        accelerator.print(f"epoch={epoch} loss={accelerator.reduce(loss.detach(), 'mean'):.4f}")
        # Every rank calls it: each saves its own random state.
        accelerator.save_state(str(CHECKPOINTS / f"epoch-{epoch + 1:05d}"))

    accelerator.print(f"accuracy={accuracy(accelerator, model, held_out):.4f}")
    accelerator.wait_for_everyone()
    accelerator.save_model(model, str(MODEL))
    accelerator.end_training()


def load_data() -> tuple[DataLoader[object], DataLoader[object]]:
    """Images and labels to train on, and others to judge by. Accelerate gives each rank its share."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    train, held_out = train_test_split(range(len(labels)), test_size=0.2, random_state=0, stratify=labels)
    return (
        DataLoader(TensorDataset(images[train], labels[train]), batch_size=32, shuffle=True),
        DataLoader(TensorDataset(images[held_out], labels[held_out]), batch_size=64),
    )


@torch.no_grad()
def accuracy(accelerator: Accelerator, model: nn.Module, held_out: DataLoader[object]) -> float:
    """Over all ranks; what was added to make the last batch even is left out."""
    model.eval()
    right = total = 0
    for images, labels in held_out:
        found, wanted = accelerator.gather_for_metrics((model(images).argmax(dim=1), labels))
        right += (found == wanted).sum().item()
        total += len(wanted)
    return right / total


def resume(accelerator: Accelerator) -> int:
    """Load the newest checkpoint, if there is one; returns the epoch to go on from."""
    saved = sorted(CHECKPOINTS.glob("epoch-*"))
    if not saved:
        return 0
    accelerator.load_state(str(saved[-1]))
    accelerator.print(f"resumed from {saved[-1].name}")
    return int(saved[-1].name.removeprefix("epoch-"))


if __name__ == "__main__":
    main()
