import os
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

dist.init_process_group("nccl")
model = FSDP(Net())  # found: DIST003
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
