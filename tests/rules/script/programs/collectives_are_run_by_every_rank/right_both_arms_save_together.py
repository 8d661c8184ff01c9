import torch.distributed as dist
import torch.distributed.checkpoint as dcp

if dist.get_rank() == 0:
    dcp.save(state, checkpoint_id="last")
else:
    dcp.save(state, checkpoint_id="last")
