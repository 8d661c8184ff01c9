"""Train a small network on handwritten digits with PyTorch Lightning."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


class Digits(lightning.LightningModule):
    """A network with one hidden layer, its loss and its optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """The loss of one batch of this rank."""
        images, labels = batch
        loss = nn.functional.cross_entropy(self.network(images), labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def on_train_epoch_end(self) -> None:
        """The mean loss of the epoch, where `launch` reads how far the training is."""
        self.print(f"epoch={self.current_epoch} loss={self.trainer.callback_metrics['loss']:.4f}")

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        """The accuracy, averaged over all ranks."""
        images, labels = batch
        right = (self.network(images).argmax(dim=1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """One optimizer for everything."""
        return torch.optim.AdamW(self.parameters(), lr=0.003)


def main() -> None:
    """Train, from the newest checkpoint where there is one, and leave a model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--checkpoints", type=Path, default=Path("/opt/ml/checkpoints"))
    arguments = parser.parse_args()

    lightning.seed_everything(0)
    trainer = lightning.Trainer(
        # These three make one training of all processes; the rest is as on a laptop.
        num_nodes=int(os.environ["SM_HOST_COUNT"]),
        devices=int(os.environ["LOCAL_WORLD_SIZE"]),
        strategy="ddp",
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        max_epochs=arguments.epochs,
        callbacks=[ModelCheckpoint(arguments.checkpoints, save_last=True)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    last = arguments.checkpoints / "last.ckpt"
    model, (training, held_out) = Digits(), load_data()
    trainer.fit(model, training, held_out, ckpt_path=last if last.exists() else None)
    if trainer.is_global_zero:
        accuracy = trainer.callback_metrics["accuracy"]
        print(f"world_size={trainer.world_size} accuracy={accuracy:.4f}", flush=True)
        MODEL.mkdir(parents=True, exist_ok=True)
        torch.save(model.network.state_dict(), MODEL / "model.pt")


def load_data() -> tuple[DataLoader[object], DataLoader[object]]:
    """Images and labels to train on, and others to judge by. Lightning gives each rank its share."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    train, held_out = train_test_split(range(len(labels)), test_size=0.2, random_state=0, stratify=labels)
    return (
        DataLoader(TensorDataset(images[train], labels[train]), batch_size=16, shuffle=True),
        DataLoader(TensorDataset(images[held_out], labels[held_out]), batch_size=64),
    )


if __name__ == "__main__":
    main()
