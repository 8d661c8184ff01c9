import os
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

local_rank = int(os.environ["LOCAL_RANK"])
model = FSDP(Net(), device_id=local_rank)
torch.cuda.set_device(local_rank)
