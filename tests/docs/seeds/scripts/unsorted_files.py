"""Each rank takes its part of a listing that nobody sorted."""

import os

import torch.distributed as dist

dist.init_process_group("nccl")
files = os.listdir("/opt/ml/input/data/train")
mine = files[dist.get_rank() :: dist.get_world_size()]
print(len(mine))
