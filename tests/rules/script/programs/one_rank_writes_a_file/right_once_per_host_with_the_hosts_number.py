import os
import torch
import torch.distributed as dist

dist.init_process_group("nccl")
if int(os.environ["LOCAL_RANK"]) == 0:
    torch.save(model.state_dict(), f"model-{os.environ['GROUP_RANK']}.pt")
