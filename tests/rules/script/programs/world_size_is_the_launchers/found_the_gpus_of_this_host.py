import os
import torch
import torch.distributed as dist

world_size = torch.cuda.device_count()
dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=world_size)  # found: DIST006
