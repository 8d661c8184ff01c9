import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size):
    dist.init_process_group("nccl", rank=rank, world_size=size)


count = torch.cuda.device_count()
mp.spawn(work, args=(count,), nprocs=count)
