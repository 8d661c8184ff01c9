import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
rank += int(os.environ["FIRST_OF_HOST"])
if rank == 0:
    torch.save({}, "model.pt")
