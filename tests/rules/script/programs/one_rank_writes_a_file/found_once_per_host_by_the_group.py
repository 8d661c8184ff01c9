import torch
import torch.distributed as dist

dist.init_process_group("nccl")
if dist.get_node_local_rank() == 0:
    torch.save({"model": model.state_dict(), "epoch": 3}, "last.pt")  # found: CKPT008
