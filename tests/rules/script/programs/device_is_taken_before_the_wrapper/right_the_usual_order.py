import os
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = FSDP(Net())
