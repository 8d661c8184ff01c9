import smdistributed.dataparallel.torch.torch_smddp
import os
import torch
import torch.distributed as dist

dist.init_process_group("smddp")
local_rank = int(os.environ["LOCAL_RANK"])
for epoch in range(3):
    if local_rank == 0:
        torch.save(model.state_dict(), f"epoch-{epoch}.pt")  # found: CKPT008
