import os
import torch

sampler = torch.utils.data.distributed.DistributedSampler(  # found: DATA003
    dataset, num_replicas=int(os.environ["WORLD_SIZE"]), rank=int(os.environ.get("LOCAL_RANK", 0))
)
