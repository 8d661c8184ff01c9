import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])


def save(state):
    if local_rank != 0:
        return
    torch.save(state, "model.pt")  # found: CKPT008


save(model.state_dict())
