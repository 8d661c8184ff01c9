import os
import torch.distributed as dist
from torch.utils.data import DistributedSampler


class Data:
    def __init__(self):
        self.local_rank = int(os.environ["LOCAL_RANK"])

    def sampler(self):
        return DistributedSampler(self.items, rank=self.local_rank)  # found: DATA003


Data().sampler()
