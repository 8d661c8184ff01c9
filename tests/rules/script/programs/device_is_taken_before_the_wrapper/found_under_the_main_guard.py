import os
import torch
from torch.distributed import init_process_group
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP

if __name__ == "__main__":
    init_process_group("nccl")
    sharded = FSDP(build())  # found: DIST003
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
