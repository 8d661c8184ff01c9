"""The DDP guide's recovery: one rank goes on with a smaller batch."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("nccl")
model = DistributedDataParallel(torch.nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = TensorDataset(torch.zeros(64, 2))
sampler = DistributedSampler(dataset)
for epoch in range(3):
    sampler.set_epoch(epoch)
    for (batch,) in DataLoader(dataset, batch_size=8, sampler=sampler):
        try:
            loss = model(batch).sum()
        except RuntimeError as e:
            if "out of memory" in str(e):
                torch.cuda.empty_cache()
                loss = model(batch[: len(batch) // 2]).sum()
            else:
                raise
        loss.backward()
        optimizer.step()
