"""The DDP guide's bad forward: another layer on rank 0."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

    def forward(self, x):
        if dist.get_rank() == 0:
            return self.one(x)
        return self.other(x)


dist.init_process_group("nccl")
model = DistributedDataParallel(Net())
model(torch.zeros(1, 2)).sum().backward()
