import os
import torch
from torch.utils.data import DistributedSampler

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
sampler = DistributedSampler(
    dataset, rank=int(os.environ["RANK"]), num_replicas=int(os.environ["WORLD_SIZE"])
)
