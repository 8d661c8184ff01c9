import torch.distributed as dist
from torch.utils.data import DistributedSampler

sampler = DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=dist.get_rank())
