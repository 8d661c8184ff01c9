import torch.distributed as dist

try:
    train()
finally:
    dist.destroy_process_group()
