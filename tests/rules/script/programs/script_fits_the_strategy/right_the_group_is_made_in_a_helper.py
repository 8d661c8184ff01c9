# job: {"distribution": {"strategy": "torchrun"}}
import torch
from torch.distributed import init_process_group as start

start("nccl")
torch.nn.Linear(1, 1)(x).backward()
