"""Every rank trains on all the data."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (batch,) in DataLoader(TensorDataset(torch.zeros(64, 2)), batch_size=8, shuffle=True):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
