import os
import torch.distributed as dist

dist.init_process_group("nccl", rank=int(os.environ["RANK"]), world_size=8)  # found: DIST006
