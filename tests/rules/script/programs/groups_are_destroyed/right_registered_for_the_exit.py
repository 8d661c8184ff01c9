import atexit
import torch.distributed as dist

dist.init_process_group("nccl")
atexit.register(dist.destroy_process_group)
