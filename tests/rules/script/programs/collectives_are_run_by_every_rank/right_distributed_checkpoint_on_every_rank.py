import torch.distributed as dist
import torch.distributed.checkpoint as dcp

dcp.save({"model": model}, checkpoint_id="last")
if dist.get_rank() == 0:
    print("saved")
