"""The article's program: a barrier in the except block, a fixed address."""

import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def setup(rank, world_size):
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = "12355"
    dist.init_process_group("nccl", rank=rank, world_size=world_size)


def run_training(rank, world_size):
    setup(rank, world_size)
    try:
        print(f"Process {rank}: Training started")
    except Exception as e:
        print(f"Process {rank}: Encountered an error: {e}")
        dist.barrier()
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    world_size = torch.cuda.device_count()
    mp.spawn(run_training, args=(world_size,), nprocs=world_size, join=True)
