import os
import torch.distributed as dist

PROCESSES = 16


def main():
    dist.init_process_group("nccl", world_size=PROCESSES, rank=int(os.environ["RANK"]))  # found: DIST006


main()
