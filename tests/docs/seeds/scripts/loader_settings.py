"""Settings for the workers of a DataLoader that has none."""

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("nccl")
dataset = TensorDataset(torch.zeros(64, 2))
sampler = DistributedSampler(dataset)
loader = DataLoader(dataset, 8, sampler=sampler, prefetch_factor=4, persistent_workers=True)
for batch in loader:
    print(batch)
