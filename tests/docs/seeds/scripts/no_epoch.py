"""No epoch for the sampler, no timeout and no end of the group; unused parameters are looked for."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(2, 2), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = TensorDataset(torch.zeros(64, 2))
loader = DataLoader(dataset, batch_size=8, sampler=DistributedSampler(dataset))
for epoch in range(3):
    for (batch,) in loader:
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
