import torch
import torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader


def _mp_fn(index):
    device = xm.xla_device()
    optimizer = torch.optim.AdamW(Net().to(device).parameters())
    for batch in DataLoader(data):
        xm.optimizer_step(optimizer, barrier=True)  # found: XLA006
