import torch.distributed as dist

try:
    import apex
except ImportError:
    dist.barrier()
