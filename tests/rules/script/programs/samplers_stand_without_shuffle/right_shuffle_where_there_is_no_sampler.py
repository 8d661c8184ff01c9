import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler

sampler = DistributedSampler(dataset) if dist.is_initialized() else None
loader = DataLoader(dataset, shuffle=sampler is None, sampler=sampler)
