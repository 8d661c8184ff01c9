"""Train a small network on handwritten digits with DistributedDataParallel, configured by Hydra."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import hydra
import torch
import torch.distributed as dist
from omegaconf import DictConfig
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from digits.data import digits

MODEL = Path(os.environ.get("SM_MODEL_DIR", "/opt/ml/model"))


@hydra.main(version_base="1.3", config_path="conf", config_name="config")
def main(config: DictConfig) -> None:
    """Meet the other ranks, and train with them."""
    on_gpu = torch.cuda.is_available()
    dist.init_process_group("nccl" if on_gpu else "gloo")
    train(config, torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu"))
    # The model holds on to the process group until it is collected, and a group that outlives this line may
    # abort the rank at its end.
    gc.collect()
    dist.destroy_process_group()


def train(config: DictConfig, device: torch.device) -> None:
    """Train, and leave a model."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(device)
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), **config.optimizer)
    data = digits()
    sampler: DistributedSampler[object] = DistributedSampler(data)
    loader = DataLoader(data, batch_size=config.batch_size, sampler=sampler)
    for epoch in range(config.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        dist.all_reduce(loss := loss.detach())
        if dist.get_rank() == 0:
            print(
                f"epoch={epoch} lr={config.optimizer.lr} loss={loss.item() / dist.get_world_size():.4f}",
                flush=True,
            )
    if dist.get_rank() == 0:
        torch.save(network.state_dict(), MODEL / "model.pt")
    dist.barrier()


if __name__ == "__main__":
    main()
