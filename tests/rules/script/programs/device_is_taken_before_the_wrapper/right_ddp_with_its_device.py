import os
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

local_rank = int(os.environ["LOCAL_RANK"])
model = DDP(Net().to(local_rank), device_ids=[local_rank])
torch.cuda.set_device(local_rank)
