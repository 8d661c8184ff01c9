import torch.distributed as dist

dist.init_process_group("nccl")  # found: DDP006
print(dist.get_rank())
