import os
import torch
import torch.distributed as dist


class Trainer:
    def __init__(self):
        dist.init_process_group("nccl")
        self.local_rank = int(os.environ["LOCAL_RANK"])

    def save(self):
        if self.local_rank == 0:
            torch.save(self.model.state_dict(), "model.pt")  # found: CKPT008


Trainer().save()
