import os
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
model = FSDP(Net())
torch.cuda.set_device(local_rank)
