import os

import torch
import torch.distributed as dist

dist.init_process_group("nccl")
local_rank = int(os.environ["LOCAL_RANK"])
model = torch.nn.Linear(2, 2)
for epoch in range(100):
    if local_rank == 0 and epoch % 10 == 0:
        torch.save(model.state_dict(), "model.pt")  # found: CKPT008
