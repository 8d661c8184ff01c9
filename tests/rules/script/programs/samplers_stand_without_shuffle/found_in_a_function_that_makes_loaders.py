import torch
from torch.utils.data.distributed import DistributedSampler


def loaders(dataset, batch_size):
    sampler = DistributedSampler(dataset, shuffle=True)
    return torch.utils.data.DataLoader(dataset, batch_size, shuffle=True, sampler=sampler)  # found: DATA003


loaders(make(), 32)
