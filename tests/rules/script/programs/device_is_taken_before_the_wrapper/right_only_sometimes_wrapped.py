import os
import torch
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

if os.environ.get("SHARD"):
    model = FSDP(Net())
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
