import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, size):
    dist.init_process_group("gloo", rank=rank, world_size=size)  # found: DDP006
    train(rank)


mp.spawn(work, args=(2,), nprocs=2)
