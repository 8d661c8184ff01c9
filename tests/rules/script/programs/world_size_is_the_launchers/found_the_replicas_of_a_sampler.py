import torch.distributed as dist
from torch.utils.data import DistributedSampler

dist.init_process_group("nccl")
sampler = DistributedSampler(dataset, num_replicas=2, rank=dist.get_rank())  # found: DIST006
