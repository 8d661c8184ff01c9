import os
from torch.utils.data import DistributedSampler

sampler = DistributedSampler(dataset, rank=int(os.environ["LOCAL_RANK"]))  # found: DATA003
