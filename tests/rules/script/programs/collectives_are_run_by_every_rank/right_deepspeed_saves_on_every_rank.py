import deepspeed
import torch.distributed as dist

engine, *_ = deepspeed.initialize(model=net)
engine.save_checkpoint("last")
if dist.get_rank() == 0:
    print("saved")
