import argparse
import torch.distributed as dist
from torch.utils.data import DistributedSampler

dist.init_process_group("nccl")
local_rank = dist.get_node_local_rank()


def loaders():
    return DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=local_rank)  # found: DATA003


loaders()
