import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler

dist.init_process_group("nccl")
sampler = DistributedSampler(dataset, shuffle=True)  # found: DATA003
loader = DataLoader(other, batch_size=32, shuffle=True)
