"""A critical section with its barrier on the wrong side of the guard."""

import torch.distributed as dist

dist.init_process_group("nccl")
if dist.get_rank() == 0:
    print("saving")
    dist.barrier()
