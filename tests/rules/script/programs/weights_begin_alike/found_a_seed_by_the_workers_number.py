import torch
import torch_xla.core.xla_model as xm
import torch_xla.distributed.parallel_loader as pl
import torch_xla.distributed.xla_multiprocessing as xmp
from torch.utils.data import DataLoader


def work(index):
    torch.manual_seed(index)  # found: XLA006
    device = xm.xla_device()
    optimizer = torch.optim.SGD(Net().to(device).parameters(), lr=0.1)
    for batch in pl.MpDeviceLoader(DataLoader(data), device):
        xm.optimizer_step(optimizer)


xmp.spawn(work)
