import os
import torch.distributed as dist
from torch.utils.data.distributed import DistributedSampler

local_rank = int(os.environ["LOCAL_RANK"])
sampler = DistributedSampler(dataset, dist.get_world_size(), local_rank)  # found: DATA003
