import torch.distributed as dist

try:
    load()
except FileNotFoundError:
    print("no checkpoint")
dist.barrier()
